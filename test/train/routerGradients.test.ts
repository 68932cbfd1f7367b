import { describe, expect, test } from "vitest";
import { evaluationBatches } from "../../lib/data/batches.js";
import { Random } from "../../lib/data/random.js";
import { Serialiser } from "../../lib/data/serialise.js";
import { AegirForColumnAnnotation, batchInput } from "../../lib/model/index.js";
import type { NativeModule } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { parallelReward } from "../../lib/rl/rewards.js";
import type { RoutingPhase } from "../../lib/rl/schedules.js";
import { encodeColumns } from "../../lib/train/examples.js";
import { parlOptions } from "../../lib/train/parlOptions.js";
import { priceShares } from "../../lib/train/rolloutRewards.js";
import type { Evaluate, PerfReward } from "../../lib/train/routerLearner.js";
import { RouterLearner } from "../../lib/train/routerLearner.js";
import { RouterUpdate } from "../../lib/train/routerUpdate.js";
import { activated, enumerateActions, repeatActions } from "../../lib/train/routingDraws.js";
import { SpecialistAnswers } from "../../lib/train/specialistAnswers.js";
import { swarmRollouts } from "../../lib/train/swarmRollouts.js";
import { buildSwarm } from "../../lib/train/swarmRun.js";
import { Scope } from "../../lib/train/tensors.js";
import { useLane } from "../rl/nativeSupport.js";
import { cosine, testSeed } from "../rl/support.js";
import { budget, RouterTask, standard } from "./routerTask.js";
import { shortColumns, tinyDataset, tinyModel } from "./support.js";

const t = useLane();
const n = 3;

/** The log-likelihood without its floor, under which all routings of an untrained model may lie. */
const logp: PerfReward = { of: (outcome) => Float64Array.from(outcome.logp), lowest: 0 };

function phaseOf(cap: number): RoutingPhase {
  return cap === n ? standard(n) : budget(n, cap);
}

describe("sampled and enumerated gradients", () => {
  test.each([1, 2, 3])(
    "agree through batch, models, rewards and losses of a real swarm, K = %i",
    async (cap) => {
      const seed = testSeed(`gradient through the trainer, K=${cap}`);
      using scope = new Scope();
      const dataset = await tinyDataset();
      const labels = [...new Set(dataset.splits.train.map(({ label }) => label))].sort();
      const geometry = { ...tinyModel, labels };
      const specialists = Array.from({ length: n }, (_, i) => ({
        id: `s${i}`,
        model: scope.keep(new AegirForColumnAnnotation(geometry, { seed: i + 1 })),
      }));
      const parts = scope.keep(
        buildSwarm(
          specialists,
          geometry,
          { fuse: "states", fusionMode: "weighted_sum", seed, threads: 1 },
          "tiny",
        ),
      );
      const { swarm } = parts;
      stirred(swarm.primary.native, seed);
      const columns = dataset.splits.train.slice(0, 4);
      const examples = await encodeColumns(new Serialiser(shortColumns), dataset, columns, labels);
      const [batch] = [...evaluationBatches(examples, { rows: 4 })];
      const inputs = scope.keep(batchInput(batch!));
      const prefix = scope.keep(await swarm.prefix(inputs));
      const answers = await SpecialistAnswers.live(swarm, { timeoutMs: 60_000, rows: 4, task: "tiny" }).of(
        batch!,
        inputs,
        scope,
      );
      const evaluate = await tabulated(swarmRollouts(swarm, prefix, answers, batch!.labels, 0), batch!.size);
      const hidden = scope.keep(prefix.routingHidden.detach());
      const gradient = async (estimator: "sample" | "enumerate", rollouts: number) => {
        const options = parlOptions.parse({ estimator, rollouts, cost: 0, entropyBonus: 0 });
        const generator = scope.keep(new (native().Generator)(seed));
        const steps = { main: 3, sub: [3, 3, 3] };
        const { router, primary } = swarm;
        const shares = priceShares(["a", "b", "c"]);
        const learner = new RouterLearner(router, primary.lane, options, generator, logp, steps, shares);
        // Without r_parallel's term, whose draws both share.
        const routed = await learner.route(hidden, batch!.labels, evaluate, phaseOf(cap), 1, scope);
        const update = new RouterUpdate(swarm.router, swarm.primary.lane, options);
        const { losses, weights } = await update.loss(routed.experience, scope);
        await native().backward(swarm.primary.lane, losses, weights);
        const gradients = swarm.router.native.gradients();
        const values = Object.values(gradients).flatMap((g) => [...(scope.keep(g).data() as Float32Array)]);
        return { values, informative: routed.figures.informative as number };
      };
      const exact = await gradient("enumerate", 1);
      const both = await gradient("sample", 12_500);
      // Gradients accumulate: what the second backward added is the sampled one.
      const sampled = both.values.map((value, i) => value - exact.values[i]!);
      expect(Math.hypot(...exact.values)).toBeGreaterThan(1e-6);
      expect(cosine(sampled, exact.values)).toBeGreaterThan(0.99);
    },
  );
});

/** Evaluates every routing of a row once and looks the others up: the models give the same routing the same reward. */
async function tabulated(evaluate: Evaluate, rows: number): Promise<Evaluate> {
  const { actions, count } = enumerateActions(n, n);
  const table = await evaluate(repeatActions(actions, n, rows));
  const place = new Map(
    Array.from({ length: count }, (_, g) => [actions.subarray(g * n, (g + 1) * n).join(""), g]),
  );
  return async (asked) => {
    const at = Array.from({ length: asked.length / n }, (_, i) => {
      const g = place.get(asked.subarray(i * n, (i + 1) * n).join(""))!;
      return g * rows + (i % rows);
    });
    const take = (values: ArrayLike<number>) => Float64Array.from(at, (i) => values[i]!);
    return { logp: take(table.logp), correct: take(table.correct), finished: take(table.finished) };
  };
}

/** An untrained model says the same of everything: weights that do not. */
function stirred(module: NativeModule, seed: number): void {
  using scope = new Scope();
  const generator = scope.keep(new (native().Generator)(seed));
  const moved = Object.entries(module.stateDict()).map(([name, tensor]) => {
    scope.keep(tensor);
    const noise = scope.keep(native().Tensor.randn(tensor.shape, "f32", generator));
    return [name, scope.keep(tensor.add(scope.keep(noise.mul(0.2))))];
  });
  module.loadStateDict(Object.fromEntries(moved));
}

describe("the credit trap", () => {
  const rows = 8;
  const dims = 4;

  test.each([1, 2, 3])(
    "r_parallel in the rows' rewards is cancelled by their baseline; as a term of the marginals it arrives, K = %i",
    async (cap) => {
      const random = new Random(5, "trap", cap);
      const features = Float32Array.from({ length: rows * dims }, () => random.gaussian());
      const weight = Array.from({ length: n * dims }, () => 0.7 * random.gaussian());
      const bias = [1.2, -0.4, 0.2];
      const phase = phaseOf(cap);
      using task = new RouterTask(t.lane, dims, n, 1, {
        estimator: "sample",
        rollouts: 4000,
        cost: 0,
        entropyBonus: 0,
        lambdaParallel: 1,
        lambdaFinish: 0,
        lambdaSchedule: "constant",
      });
      task.set(weight, bias);
      const silent = { features, reward: () => 0 };
      const cured = await task.gradient(silent, phase);
      const truth = await trueGradient(task, features, weight, bias, phase);
      expect(
        cosine(
          cured.map((g) => -g),
          truth,
        ),
      ).toBeGreaterThan(0.93);

      // The trap: the batch's r_parallel added to every row's reward, the same for all rollouts of a row.
      using trapped = new RouterTask(t.lane, dims, n, 1, {
        cost: 0,
        entropyBonus: 0,
        lambdaParallel: 0,
        lambdaFinish: 0,
      });
      trapped.set(weight, bias);
      const constant = parallelReward([3, 1, 2], rows, { rho: phase.rho })!;
      const cancelled = await trapped.gradient({ features, reward: () => constant }, phase);
      expect(Math.hypot(...cancelled)).toBeLessThan(1e-3 * Math.hypot(...truth));
    },
  );
});

/** dE[r_parallel]/d(weight, bias) by central differences of the exact expectation over the counts of independent rows. */
async function trueGradient(
  task: RouterTask,
  features: Float32Array,
  weight: number[],
  bias: number[],
  phase: RoutingPhase,
): Promise<Float64Array> {
  const parameters = [...weight, ...bias];
  const h = 1e-2;
  const out = new Float64Array(parameters.length);
  for (let i = 0; i < parameters.length; i++) {
    const value = async (delta: number) => {
      const moved = parameters.map((p, j) => (i === j ? p + delta : p));
      task.set(moved.slice(0, weight.length), moved.slice(weight.length));
      return expectedParallel(await task.probabilities(features, phase.cap), phase);
    };
    out[i] = ((await value(h)) - (await value(-h))) / (2 * h);
  }
  return out;
}

/** E[r_parallel] for rows whose routings are independent. @param rows per row the probability of each of the 2^n routings */
function expectedParallel(
  rows: { action: Uint8Array; probability: number }[][],
  { rho }: RoutingPhase,
): number {
  const side = rows.length + 1;
  let counts = new Float64Array(side ** n);
  counts[0] = 1;
  for (const row of rows) {
    const next = new Float64Array(counts.length);
    for (const { action, probability } of row) {
      const shift = action[0]! + side * action[1]! + side * side * action[2]!;
      for (let i = 0; i + shift < counts.length; i++) next[i + shift]! += probability * counts[i]!;
    }
    counts = next;
  }
  let sum = 0;
  for (let i = 0; i < counts.length; i++) {
    const of = [i % side, Math.floor(i / side) % side, Math.floor(i / side ** 2)];
    if (counts[i]! > 0) sum += counts[i]! * parallelReward(of, rows.length, { rho })!;
  }
  return sum;
}

describe("rewards that could be hacked", () => {
  const dims = 8;
  const rowsOf = (random: Random) => ({
    features: Float32Array.from({ length: 32 * dims }, () => random.gaussian()),
  });

  test("specialists that return noise are turned off, whatever r_parallel would like", async () => {
    const random = new Random(1, "noise");
    using task = new RouterTask(t.lane, dims, n, 1, { cost: 0.25 });
    const batch = () => ({
      ...rowsOf(random),
      reward: (_: number, action: Uint8Array) =>
        -1 - 0.1 * activated(action, 0, n) + 0.05 * random.gaussian(),
    });
    for (let step = 0; step < 300; step++) await task.step(batch(), standard(n), step / 299);
    expect((await task.deployed(batch(), n)).activation).toBeLessThanOrEqual(0.05);
  });

  test("with λ1 kept at .3 for ever, always-on does not win", async () => {
    const random = new Random(2, "lambda");
    using task = new RouterTask(t.lane, dims, n, 2, {
      cost: 0,
      lambdaParallel: 0.3,
      lambdaSchedule: "constant",
    });
    const batch = () => ({ ...rowsOf(random), reward: () => -1 });
    task.set(Array(n * dims).fill(0), [4, 4, 4]);
    let activation = 1;
    for (let step = 0; step < 300; step++)
      ({ activation } = (await task.step(batch(), standard(n), 0)) as { activation: number });
    expect(activation).toBeLessThan(0.7);
  });

  test.each([0.0003, 0.9997])("a router that starts at p = %f finds its way back", async (p) => {
    const random = new Random(3, "start");
    using task = new RouterTask(t.lane, dims, n, 3, { cost: 0.05, routerLr: 4e-2 }, { softCap: 0 });
    const logit = Math.log(p / (1 - p));
    task.set(Array(n * dims).fill(0), Array(n).fill(logit));
    const batch = () => {
      const { features } = rowsOf(random);
      return {
        features,
        reward: (row: number, action: Uint8Array) =>
          features[row * dims]! > 0 ? action[0]! : 1 - action[0]!,
      };
    };
    for (let step = 0; step < 300; step++) await task.step(batch(), standard(n), step / 299);
    const { reward, rates } = await task.deployed(batch(), n);
    expect(reward).toBeGreaterThan(0.8);
    expect(rates[0]).toBeGreaterThan(0.2);
    expect(rates[0]).toBeLessThan(0.8);
  });

  test("a specialist whose calls fail is left alone, and r_finish shows it", async () => {
    const random = new Random(4, "failing");
    using task = new RouterTask(t.lane, dims, n, 4, {
      cost: 0,
      lambdaFinish: 0.3,
      lambdaParallel: 0,
      lambdaSchedule: "constant",
    });
    const batch = () => ({ ...rowsOf(random), reward: () => -1, failing: new Set([1]) });
    const first = await task.step(batch(), standard(n), 0);
    for (let step = 0; step < 300; step++) await task.step(batch(), standard(n), 0);
    const last = await task.step(batch(), standard(n), 0);
    expect(first.coverage).toBeLessThan(0.6);
    expect(last.coverage).toBeGreaterThan(0.9);
    expect(last.rFinish).toBeGreaterThan(first.rFinish as number);
    const { rates } = await task.deployed(batch(), n);
    expect(rates[1]).toBe(0);
  });
});
