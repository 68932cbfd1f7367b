import type { NativeLane, NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import { CappedBernoulli } from "../rl/policy.js";
import { parallelReward } from "../rl/rewards.js";
import { weightedSum } from "../rl/routingPolicy.js";
import { degeneratePenalty } from "../rl/routingTerms.js";
import { SpecialistRouter } from "../swarm/index.js";
import { backward } from "./losses.js";
import { parlOptions } from "./parlOptions.js";
import type { RolloutOutcome } from "./rolloutRewards.js";
import { type Evaluate, loglikPerf, type PerfReward, RouterLearner } from "./routerLearner.js";
import { RouterUpdate } from "./routerUpdate.js";
import { Scope } from "./tensors.js";

/** What all 2^n routings of R rows lead to: rollouts are look-ups, and gradients can be enumerated. */
export interface RoutingTable {
  rows: number;
  numSpecialists: number;
  /** (R,D) the router's input. */
  hidden: NativeTensor;
  labels: Int32Array;
  /** (2^n,R), routing with bit i set for specialist i at that row of the table. */
  outcome: RolloutOutcome;
}

export type RewardTerm = "perf" | "parallel" | "finish";

export interface SampleOptions {
  /** Routings drawn per row. */
  draws: number;
  cap: number;
  seed: number;
  /** Give every draw the outcome of another draw of its row: what is left is noise. */
  shuffled?: boolean;
}

/** Rows in the window of r_finish's penalty. */
const PENALTY_WINDOW = 256;
const NO_REWARD: PerfReward = { of: ({ logp }) => new Float64Array(logp.length), lowest: 0 };

/** Looks rollouts up. `shuffled`: draw g of a row gets what draw g+1 led to. */
export function lookUp({ rows, numSpecialists: n, outcome }: RoutingTable, shuffled = false): Evaluate {
  return async (actions) => {
    const total = actions.length / n;
    const draws = total / rows;
    const at = Int32Array.from({ length: total }, (_, i) => {
      const from = shuffled ? (i + rows) % (draws * rows) : i;
      return codeOf(actions, from * n, n) * rows + (i % rows);
    });
    const pick = (values: ArrayLike<number>) => Float64Array.from(at, (j) => values[j]!);
    return { logp: pick(outcome.logp), correct: pick(outcome.correct), finished: pick(outcome.finished) };
  };
}

/** Routing as the table's row number. */
export function codeOf(action: ArrayLike<number>, from: number, n: number): number {
  let code = 0;
  for (let i = 0; i < n; i++) if (action[from + i]) code |= 1 << i;
  return code;
}

/**
 * Gradient of the expected reward term by the router's weights as training computes it: draws, rewards, advantages, clipped loss and
 * batch terms of `RouterLearner` and `RouterUpdate`, then backward.
 */
export async function sampledGradient(
  router: SpecialistRouter,
  lane: NativeLane,
  table: RoutingTable,
  term: RewardTerm,
  { draws, cap, seed, shuffled }: SampleOptions,
): Promise<Float64Array> {
  const n = table.numSpecialists;
  const options = parlOptions.parse({
    estimator: "sample",
    rollouts: draws,
    cost: 0,
    entropyBonus: 0,
    lambdaSchedule: "constant",
    lambdaParallel: term === "parallel" ? 1 : 0,
    lambdaFinish: term === "finish" ? 1 : 0,
  });
  using generator = new (native().Generator)(seed);
  using fresh = copyOf(router);
  using scope = new Scope();
  const steps = { main: 1, sub: Array<number>(n).fill(1) };
  const reward = term === "perf" ? loglikPerf : NO_REWARD;
  const learner = new RouterLearner(fresh, lane, options, generator, reward, steps, Array(n).fill(1 / n));
  const { hidden, labels } = table;
  const phase = { kind: "standard", cap, rho: cap < n ? cap / n : 0.5 } as const;
  const routed = await learner.route(hidden, labels, lookUp(table, shuffled), phase, 0, scope);
  const loss = await new RouterUpdate(fresh, lane, options).loss(routed.experience, scope);
  await backward(lane, [loss]);
  return weightGradients(fresh, -1);
}

/** The same gradient by enumeration, through formulas of their own and not through the training's code. */
export async function exactGradient(
  router: SpecialistRouter,
  lane: NativeLane,
  table: RoutingTable,
  term: RewardTerm,
  cap: number,
): Promise<Float64Array> {
  const { rows, numSpecialists: n, outcome, hidden } = table;
  using fresh = copyOf(router);
  using scope = new Scope();
  const z = scope.keep((await fresh.forward(lane, hidden, { grad: true })).logits);
  const values = z.data() as Float32Array;
  const policies = Array.from(
    { length: rows },
    (_, r) => new CappedBernoulli(values.subarray(r * n, (r + 1) * n), cap),
  );
  const byRow = (reward: (i: number) => number) =>
    rowGradients(policies, (action, r) => reward(codeOf(action, 0, n) * rows + r));
  let gradient: Float64Array;
  if (term === "perf") gradient = byRow((i) => Math.max(outcome.logp[i]!, -3));
  else if (term === "parallel") gradient = parallelGradient(policies, n, cap < n ? cap / n : 0.5);
  else {
    const penalty = penaltyGradient(policies, n, cap);
    gradient = byRow((i) => outcome.finished[i]!).map((g, i) => (g - penalty[i]!) / 2);
  }
  const coefficients = scope.keep(native().Tensor.fromData(Float32Array.from(gradient), [rows, n], "f32"));
  const loss = scope.keep(await weightedSum(z, coefficients, { lane }));
  await backward(lane, [{ losses: [loss], weights: [1] }]);
  return weightGradients(fresh, 1);
}

/** d/dz of the mean over rows of E[reward], (R,n). */
function rowGradients(
  policies: readonly CappedBernoulli[],
  reward: (action: Uint8Array, row: number) => number,
): Float64Array {
  return Float64Array.from(
    policies.flatMap((policy, r) => [
      ...policy.expectedReward((action) => reward(action, r)).gradient.map((g) => g / policies.length),
    ]),
  );
}

/** d/dz of E[r_parallel] over every joint routing of the rows: (2^n)^R of them, for a few rows. */
function parallelGradient(policies: readonly CappedBernoulli[], n: number, rho: number): Float64Array {
  const rows = policies.length;
  const choices = policies.map((policy) => policy.enumerate());
  const marginals = policies.map((policy) => policy.marginals());
  const gradient = new Float64Array(rows * n);
  const chosen: Uint8Array[] = [];
  const counts = new Array<number>(n).fill(0);
  const visit = (row: number, probability: number) => {
    if (row === rows) {
      const weighted = probability * parallelReward(counts, rows, { rho })!;
      for (let r = 0; r < rows; r++)
        for (let i = 0; i < n; i++) gradient[r * n + i]! += weighted * (chosen[r]![i]! - marginals[r]![i]!);
      return;
    }
    for (const { action, probability: own } of choices[row]!) {
      chosen[row] = action;
      for (let i = 0; i < n; i++) counts[i]! += action[i]!;
      visit(row + 1, probability * own);
      for (let i = 0; i < n; i++) counts[i]! -= action[i]!;
    }
  };
  visit(0, 1);
  return gradient;
}

/** d/dz of p_on + p_off + p_const, by central differences in each logit. */
function penaltyGradient(policies: readonly CappedBernoulli[], n: number, cap: number): Float64Array {
  const rows = policies.length;
  const marginals = Float64Array.from(policies.flatMap((policy) => [...policy.marginals()]));
  const total = () => {
    const { pOn, pOff, pConst } = degeneratePenalty(marginals, n, cap);
    return pOn + pOff + (rows >= PENALTY_WINDOW ? pConst : 0);
  };
  const h = 1e-4;
  const gradient = new Float64Array(rows * n);
  for (const [r, policy] of policies.entries()) {
    const own = marginals.slice(r * n, (r + 1) * n);
    for (let i = 0; i < n; i++) {
      const at = (delta: number) => {
        const moved = policy.logits.map((z, j) => (j === i ? z + delta : z));
        marginals.set(new CappedBernoulli(moved, cap).marginals(), r * n);
        return total();
      };
      gradient[r * n + i] = (at(h) - at(-h)) / (2 * h);
      marginals.set(own, r * n);
    }
  }
  return gradient;
}

function copyOf(router: SpecialistRouter): SpecialistRouter {
  const copy = new SpecialistRouter(router.dModel, router.numSpecialists);
  using scope = new Scope();
  const state = router.stateDict();
  for (const tensor of Object.values(state)) scope.keep(tensor);
  copy.loadStateDict(state);
  return copy;
}

/** A router whose weights are normal with deviation `scale`/√D and whose biases are normal with deviation `spread` around `bias`. */
export function randomRouter(
  dModel: number,
  numSpecialists: number,
  gaussian: () => number,
  { scale = 1, spread = 0, bias = 0 } = {},
): SpecialistRouter {
  const router = new SpecialistRouter(dModel, numSpecialists);
  using scope = new Scope();
  const state: Record<string, NativeTensor> = {};
  for (const [name, tensor] of Object.entries(router.stateDict())) {
    scope.keep(tensor);
    const values = Float32Array.from({ length: tensor.numel }, () =>
      tensor.shape.length > 1 ? (gaussian() * scale) / Math.sqrt(dModel) : bias + spread * gaussian(),
    );
    state[name] = scope.keep(native().Tensor.fromData(values, tensor.shape, "f32"));
  }
  router.loadStateDict(state);
  return router;
}

function weightGradients(router: SpecialistRouter, sign: number): Float64Array {
  using scope = new Scope();
  const gradients = router.native.gradients();
  return Float64Array.from(
    Object.keys(gradients)
      .sort()
      .flatMap((name) => Array.from(scope.keep(gradients[name]!).data() as Float32Array, (g) => sign * g)),
  );
}
