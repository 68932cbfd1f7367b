/**
 * Schedules of PARL training (docs/rl.md §1, §5): reward weights λ, clipping range ε, the alternation of budget-limited and
 * standard phases, and the budget phase's cap. `fraction` is the share of training done, in [0, 1].
 */
import { AegirError } from "../errors.js";

export interface Lambdas {
  /** Weight of r_parallel. */
  parallel: number;
  /** Weight of r_finish. */
  finish: number;
}

export interface LambdaScheduleOptions {
  /** Weights of the first phase; default .3 / .1. */
  initial?: Lambdas;
  /** Anneal linearly to 0/0 over the last 10 % (Kimi K2.5); default true. */
  annealToZero?: boolean;
}

const MIDDLE: Lambdas = { parallel: 0.1, finish: 0.3 };
const LATE: Lambdas = { parallel: 0.05, finish: 0.05 };
const MIDDLE_START = 0.3;
const LATE_START = 0.7;
const ANNEAL_START = 0.9;

/** .3/.1 on [0, .3), .1/.3 on [.3, .7), .05/.05 from .7, then to 0/0 over [.9, 1] unless that is switched off. */
export function lambdaSchedule(
  fraction: number,
  { initial = { parallel: 0.3, finish: 0.1 }, annealToZero = true }: LambdaScheduleOptions = {},
): Lambdas {
  const at = clampFraction(fraction);
  if (at < MIDDLE_START) return { ...initial };
  if (at < LATE_START) return { ...MIDDLE };
  const left = annealToZero ? Math.min(1, (1 - at) / (1 - ANNEAL_START)) : 1;
  return { parallel: LATE.parallel * left, finish: LATE.finish * left };
}

/** Clipping range, linear in the share of training done; default .2 → .1. */
export function clipRange(fraction: number, from = 0.2, to = 0.1): number {
  return from + (to - from) * clampFraction(fraction);
}

export type PhaseKind = "budget" | "standard";

/** Kimi K2.5's Toggle: phases of `period` steps in turn, budget-limited first: floor(step / period) even. */
export function phaseAt(step: number, period: number): PhaseKind {
  return phaseIndex(step, period) % 2 === 0 ? "budget" : "standard";
}

export interface RoutingPhaseOptions {
  /** Steps a phase. */
  period: number;
  totalSteps: number;
  numSpecialists: number;
  /** Largest cap that the budget phases reach; default numSpecialists. */
  maxCap?: number;
  /** Every second budget phase keeps K = 1: wanted where K = 1 will be deployed. Default false. */
  keepSingle?: boolean;
}

export interface RoutingPhase {
  kind: PhaseKind;
  /** K of the policy: numSpecialists in a standard phase. */
  cap: number;
  /** Activation rate above which r_parallel's overload term starts: .5 in a standard phase, K/N in a budget phase. */
  rho: number;
}

/** The phase of a training step: its kind, the cap of the routing policy and r_parallel's ρ. */
export function routingPhase(step: number, options: RoutingPhaseOptions): RoutingPhase {
  const { period, totalSteps, numSpecialists } = options;
  if (phaseAt(step, period) === "standard") return { kind: "standard", cap: numSpecialists, rho: 0.5 };
  const budgetPhases = Math.ceil(Math.ceil(totalSteps / period) / 2);
  const nth = Math.floor(phaseIndex(step, period) / 2);
  const cap = budgetCap(nth, budgetPhases, options.maxCap ?? numSpecialists, options.keepSingle);
  return { kind: "budget", cap, rho: cap / numSpecialists };
}

/** Cap of the nth of `count` budget phases: 1 in the first, growing evenly, `maxCap` in the last. */
export function budgetCap(nth: number, count: number, maxCap: number, keepSingle = false): number {
  if (!Number.isInteger(maxCap) || maxCap < 1)
    throw new AegirError("ERR_CONFIG", `maxCap: expected an integer of at least 1, got ${maxCap}`);
  if (keepSingle && nth % 2 === 1) return 1;
  const share = count > 1 ? Math.min(1, nth / (count - 1)) : 0;
  return 1 + Math.floor(share * (maxCap - 1) + 1e-9);
}

export interface ToggleOptions {
  phase: PhaseKind;
  /** Mean reward of the group from which on the budget counts. */
  lambda: number;
  /** Largest cost that keeps its reward once the group's mean reward has reached λ. */
  budget: number;
  /** (G) weights of the mean, for enumerated rollouts their probabilities; absent: equal. */
  weights?: ArrayLike<number>;
}

/**
 * Kimi K2.5's Toggle reward of one group: in a budget phase r̃ = r · 1{ mean r < λ or cost ≤ budget }, else r̃ = r.
 * With a policy capped at K the test |a| ≤ K always holds: to bite, the budget must be below the cap.
 * @param rewards (G)
 * @param costs (G), in the unit of `budget`
 */
export function toggleRewards(
  rewards: ArrayLike<number>,
  costs: ArrayLike<number>,
  { phase, lambda, budget, weights }: ToggleOptions,
): Float64Array {
  if (costs.length !== rewards.length)
    throw new AegirError(
      "ERR_SHAPE",
      `toggleRewards: expected one cost per reward (${rewards.length}), got ${costs.length}`,
    );
  const out = Float64Array.from(rewards);
  const mean = out.reduce((sum, r, i) => sum + r * (weights ? weights[i]! : 1 / out.length), 0);
  if (phase === "standard" || mean < lambda) return out;
  return out.map((r, i) => (costs[i]! <= budget ? r : 0));
}

/**
 * The budget of Toggle: the `percentile`-th percentile (linear interpolation) of the costs of correct rollouts,
 * estimated once at the start of training. Infinity where no rollout was correct: then nothing is limited.
 */
export function estimateBudget(
  costs: ArrayLike<number>,
  correct: ArrayLike<number>,
  percentile: number,
): number {
  if (!(percentile >= 0 && percentile <= 100))
    throw new AegirError("ERR_CONFIG", `percentile: expected a number in [0, 100], got ${percentile}`);
  const sorted = Float64Array.from(costs)
    .filter((_, i) => correct[i])
    .sort();
  if (sorted.length === 0) return Number.POSITIVE_INFINITY;
  const position = (percentile / 100) * (sorted.length - 1);
  const below = Math.floor(position);
  const above = Math.ceil(position);
  return sorted[below]! + (position - below) * (sorted[above]! - sorted[below]!);
}

function phaseIndex(step: number, period: number): number {
  if (!Number.isInteger(period) || period < 1)
    throw new AegirError("ERR_CONFIG", `period: expected an integer of at least 1, got ${period}`);
  return Math.floor(step / period);
}

function clampFraction(fraction: number): number {
  if (Number.isNaN(fraction))
    throw new AegirError("ERR_CONFIG", "fraction: expected a number in [0, 1], got NaN");
  return Math.min(1, Math.max(0, fraction));
}
