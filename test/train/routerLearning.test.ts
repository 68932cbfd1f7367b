import { describe, expect, it } from "vitest";
import { Random } from "../../lib/data/random.js";
import type { NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { batchAdvantages } from "../../lib/rl/advantages.js";
import { parallelReward } from "../../lib/rl/rewards.js";
import { parallelSurrogate } from "../../lib/rl/routingTerms.js";
import { type RoutingPhase, routingPhase } from "../../lib/rl/schedules.js";
import { SpecialistRouter } from "../../lib/swarm/index.js";
import { AdamW } from "../../lib/train/optimizer.js";
import { parlOptions } from "../../lib/train/parlOptions.js";
import type { RolloutOutcome } from "../../lib/train/rolloutRewards.js";
import { loglikPerf, RouterLearner } from "../../lib/train/routerLearner.js";
import { RouterUpdate } from "../../lib/train/routerUpdate.js";
import { cosine, mean, norm, standardDeviation } from "../../lib/train/statistics.js";
import { Scope } from "../../lib/train/tensors.js";
import { useLane } from "../rl/nativeSupport.js";

const t = useLane();
const n = 3;
const dModel = 16;
const rows = 64;

/** log p of a right answer and of a wrong one: a row is right with its own specialist and no other activated. */
const RIGHT = Math.log(0.95);
const WRONG = -3;

interface OracleBatch {
  hidden: NativeTensor;
  /** (R) the specialist that is right. */
  domain: Int32Array;
}

/** Rows of three domains that lie around three centres; only the domain's specialist is right, the others inject noise. */
class OracleTask {
  private readonly centres: Float64Array[];

  constructor(private readonly random: Random) {
    this.centres = Array.from({ length: n }, () =>
      Float64Array.from({ length: dModel }, () => random.gaussian()),
    );
  }

  batch(scope: Scope): OracleBatch {
    const { random } = this;
    const domain = Int32Array.from({ length: rows }, () => random.int(n));
    const features = Float32Array.from(
      { length: rows * dModel },
      (_, i) => this.centres[domain[Math.floor(i / dModel)]!]![i % dModel]! + 0.8 * random.gaussian(),
    );
    return { domain, hidden: scope.keep(native().Tensor.fromData(features, [rows, dModel], "f32")) };
  }
}

function outcomeOf(actions: Uint8Array, domain: Int32Array): RolloutOutcome {
  const right = Uint8Array.from({ length: actions.length / n }, (_, i) => {
    for (let s = 0; s < n; s++) if (actions[i * n + s] !== (s === domain[i % rows] ? 1 : 0)) return 0;
    return 1;
  });
  return {
    logp: Float64Array.from(right, (yes) => (yes ? RIGHT : WRONG)),
    correct: right,
    finished: new Uint8Array(right.length).fill(1),
  };
}

interface Training {
  seed: number;
  phases: (step: number) => RoutingPhase;
  updates?: number;
  /** Rewards that have nothing to do with the routing. */
  shuffled?: boolean;
  estimator?: "sample" | "enumerate";
}

/** Trains a router alone, and gives the share of new rows whose draw of the policy is the right routing. */
async function routingReward({ seed, phases, updates = 100, shuffled, estimator }: Training) {
  const random = new Random(seed, "oracle");
  const task = new OracleTask(random);
  const options = parlOptions.parse({ estimator, cost: 0, lambdaParallel: 0, lambdaFinish: 0, rollouts: 8 });
  using generator = new (native().Generator)(seed);
  using router = new SpecialistRouter(dModel, n);
  using optimizer = new AdamW([{ module: router.native }], { weightDecay: 0 });
  const steps = { main: 1, sub: [1, 1, 1] };
  const learner = new RouterLearner(router, t.lane, options, generator, loglikPerf, steps);
  const update = new RouterUpdate(router, t.lane, options);
  for (let step = 0; step < updates; step++) {
    using scope = new Scope();
    const { hidden, domain } = task.batch(scope);
    const evaluate = async (actions: Uint8Array) => {
      const outcome = outcomeOf(actions, domain);
      return shuffled ? { ...outcome, logp: random.shuffle(Array.from(outcome.logp)) } : outcome;
    };
    const routed = await learner.route(hidden, domain, evaluate, phases(step), step / updates, scope);
    await update.learn([routed.experience], optimizer, random);
  }
  return await evaluated(task, learner, phases(updates - 1));
}

async function evaluated(task: OracleTask, learner: RouterLearner, phase: RoutingPhase): Promise<number> {
  let right = 0;
  for (let i = 0; i < 8; i++) {
    using scope = new Scope();
    const { hidden, domain } = task.batch(scope);
    const evaluate = async (actions: Uint8Array) => outcomeOf(actions, domain);
    const { draw } = await learner.route(hidden, domain, evaluate, phase, 1, scope);
    const own = outcomeOf(draw, domain).correct;
    for (let r = 0; r < rows; r++) right += own[r]! / (8 * rows);
  }
  return right;
}

const standard: RoutingPhase = { kind: "standard", cap: n, rho: 0.5 };
const single: RoutingPhase = { kind: "budget", cap: 1, rho: 1 / n };
const alternating = (step: number) =>
  routingPhase(step, { period: 8, totalSteps: 100, numSpecialists: n, maxCap: 1 });

describe("oracle task: one specialist is right per domain, the others inject noise", () => {
  const seeds = [0, 1, 2, 3, 4];
  it.each([
    ["K = 1", () => single, "enumerate"],
    ["K = 3", () => standard, "enumerate"],
    ["alternating", alternating, "enumerate"],
    ["K = 1, drawn routings", () => single, "sample"],
  ] as const)(
    "%s: routing reward of at least .70 within 100 updates, 5 of 5 seeds",
    async (_, phases, estimator) => {
      const rewards: number[] = [];
      for (const seed of seeds) rewards.push(await routingReward({ seed, phases, estimator }));
      console.log(rewards.map((r) => r.toFixed(3)).join(" "));
      expect(Math.min(...rewards)).toBeGreaterThanOrEqual(0.7);
    },
  );

  // Noise moves a router too: a seed's own reward wanders, the mean over seeds stays at chance (1/4 at the start, 1/3 for one each).
  it("with shuffled rewards nothing is learned", async () => {
    const rewards: number[] = [];
    for (let seed = 0; seed < 10; seed++)
      rewards.push(await routingReward({ seed, phases: () => single, estimator: "sample", shuffled: true }));
    console.log(rewards.map((r) => r.toFixed(3)).join(" "));
    const error = standardDeviation(rewards) / Math.sqrt(rewards.length);
    expect(mean(rewards) - 1 / n).toBeLessThan(2 * error);
  });
});

describe("the credit trap of r_parallel", () => {
  const batch = 4;
  /** Joint routings of 4 rows at p = .6, .4 and .5, drawn with the reward that all of their rows share. */
  const draws = 20_000;
  const p = Array.from({ length: batch * n }, (_, i) => [0.6, 0.4, 0.5][i % n]!);
  const random = new Random(3, "credit trap");
  const actions = Uint8Array.from({ length: draws * batch * n }, (_, i) =>
    random.chance(p[i % (batch * n)]!) ? 1 : 0,
  );
  const rewardOf = (g: number) => {
    const counts = new Array<number>(n).fill(0);
    for (let i = 0; i < batch * n; i++) counts[i % n]! += actions[g * batch * n + i]!;
    return parallelReward(counts, batch)!;
  };
  /** d/dz of E[R] from joint draws: cov(a, R), against one mean over the batch's draws. */
  const truth = (() => {
    const rewards = Float64Array.from({ length: draws }, (_, g) => rewardOf(g));
    const centre = mean(rewards);
    const out = new Float64Array(batch * n);
    for (let i = 0; i < actions.length; i++) {
      const at = i % (batch * n);
      out[at]! += ((actions[i]! - p[at]!) * (rewards[Math.floor(i / (batch * n))]! - centre)) / draws;
    }
    return out;
  })();

  it("a baseline within the row, over the rollouts of one joint draw, leaves under 1e-3 of the gradient", () => {
    // All 8 rollouts of a row get the batch's one statistic.
    const trapped = new Float64Array(batch * n);
    for (let g = 0; g + 8 <= draws; g += 8) {
      const shared = rewardOf(g);
      const advantages = batchAdvantages(new Float64Array(8 * batch).fill(shared), batch, "rloo");
      for (let i = 0; i < 8 * batch * n; i++) {
        const at = i % (batch * n);
        trapped[at]! += (actions[g * batch * n + i]! - p[at]!) * advantages[Math.floor(i / n)]!;
      }
    }
    expect(norm(truth)).toBeGreaterThan(1e-3);
    expect(norm(trapped)).toBeLessThan(1e-3 * norm(truth));
  });

  it("the surrogate's gradient has a cosine of at least .93 with the true one", () => {
    const { coefficients } = parallelSurrogate({ actions, rows: batch, numSpecialists: n });
    const surrogate = coefficients.map((c, i) => c * p[i]! * (1 - p[i]!));
    expect(cosine(surrogate, truth)).toBeGreaterThan(0.93);
  });
});
