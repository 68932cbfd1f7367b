/**
 * Rewards of PARL on column annotation (docs/rl.md §5): r = r_perf + λ1·r_parallel + λ2·r_finish − cost.
 * Pure functions in float64. r_perf and the cost belong to one rollout; r_parallel and the penalty of r_finish are
 * statistics of a batch, equal for all its rollouts: they reach the router through `routingTerms.ts`, never through
 * a per-row baseline, which would cancel them.
 */
import { AegirError } from "../errors.js";
import type { Lambdas } from "./schedules.js";

// ---- r_perf --------------------------------------------------------------------------------------------------------

/** Floor of the log-likelihood reward: one confidently wrong column must not outweigh a batch. */
export const LOGLIK_FLOOR = -3;

/** r_perf `loglik`: max(log p(label), floor) per column. NaN stays NaN. */
export function loglikReward(logp: ArrayLike<number>, floor = LOGLIK_FLOOR): Float64Array {
  return Float64Array.from(logp, (l) => Math.max(l, floor));
}

/**
 * Class weights of the `correct` reward: w_y = min(1 / (C·π_y), 5), rescaled so that Σ_y π_y·w_y = 1: the perfect
 * annotator has a mean reward of 1 on the training distribution. Classes that never occur get weight 0.
 * @param counts (C) training examples per class
 */
export function classWeights(counts: ArrayLike<number>, maxWeight = 5): Float64Array {
  const classes = counts.length;
  const total = Array.from(counts).reduce((sum, c) => sum + c, 0);
  if (!(total > 0))
    throw new AegirError(
      "ERR_DATA",
      `classWeights: expected counts with a positive sum over ${classes} classes, got ${total}`,
    );
  const weights = Float64Array.from(counts, (c) => (c > 0 ? Math.min(total / (classes * c), maxWeight) : 0));
  const mean = weights.reduce((sum, w, y) => sum + (w * counts[y]!) / total, 0);
  return weights.map((w) => w / mean);
}

/**
 * r_perf `correct` of one table: the mean over its labelled columns of w_y · 1[prediction = label].
 * @param labels class ids, negative where unlabelled
 * @param predictions class ids, negative where the head abstained (never correct)
 * @param weights (C) of `classWeights`; absent: 1
 * @returns null where no column is labelled: such a table is left out of the batch
 */
export function correctReward(
  labels: ArrayLike<number>,
  predictions: ArrayLike<number>,
  weights?: ArrayLike<number>,
): number | null {
  if (labels.length !== predictions.length)
    throw new AegirError(
      "ERR_SHAPE",
      `correctReward: expected one prediction per label (${labels.length}), got ${predictions.length}`,
    );
  let labelled = 0;
  let sum = 0;
  for (let i = 0; i < labels.length; i++) {
    const label = labels[i]!;
    if (label < 0) continue;
    labelled++;
    if (predictions[i] === label) sum += weights ? weights[label]! : 1;
  }
  return labelled === 0 ? null : sum / labelled;
}

// ---- r_parallel ----------------------------------------------------------------------------------------------------

export interface ParallelRewardOptions {
  /** Activation rate from which the overload term grows: .5 in a standard phase, K/N in a budget phase, 1 switches it off. */
  rho?: number;
  /** `aegir`: the raw −α·CV + β·utilisation of the original, whose maximum always-on also reaches. */
  compat?: "aegir";
}

/** Weights of balance (α), utilisation (β) and overload (γ). */
const PARALLEL_WEIGHTS = { balance: 0.5, utilisation: 0.5, overload: 1 } as const;

export interface RoutingStatistics {
  /** Population standard deviation / mean of the counts; √(N−1), its maximum, where nothing was activated; 0 for N = 1. */
  cv: number;
  /** Share of specialists activated at least once. */
  utilisation: number;
  /** Share of (decision, specialist) pairs activated. */
  rate: number;
  /** max(0, (rate − ρ) / (1 − ρ)); 0 for ρ = 1. */
  overload: number;
}

/** Statistics of activation counts over `decisions` decisions. */
export function routingStatistics(
  counts: ArrayLike<number>,
  decisions: number,
  rho = 0.5,
): RoutingStatistics {
  const n = counts.length;
  const values = Array.from(counts);
  const total = values.reduce((sum, c) => sum + c, 0);
  const mean = total / n;
  const variance = values.reduce((sum, c) => sum + (c - mean) ** 2, 0) / n;
  const rate = total / (n * decisions);
  return {
    cv: n === 1 ? 0 : mean > 0 ? Math.sqrt(variance) / mean : Math.sqrt(n - 1),
    utilisation: values.filter((c) => c > 0).length / n,
    rate,
    overload: rho >= 1 ? 0 : Math.max(0, (rate - rho) / (1 - rho)),
  };
}

/**
 * r_parallel of a batch: clip(s + 0.5, 0, 1), s = −0.5·CV/√(N−1) + 0.5·utilisation − overload; 0 where nothing was
 * activated. `compat: "aegir"` gives −0.5·CV + 0.5·utilisation, unclipped.
 * @param counts (N) activations per specialist
 * @param decisions decisions in the batch
 * @returns null for an empty batch: it is masked
 */
export function parallelReward(
  counts: ArrayLike<number>,
  decisions: number,
  { rho = 0.5, compat }: ParallelRewardOptions = {},
): number | null {
  if (counts.length === 0)
    throw new AegirError("ERR_ARGUMENT", "parallelReward: expected counts of at least 1 specialist, got 0");
  if (decisions === 0) return null;
  const { cv, utilisation, overload } = routingStatistics(counts, decisions, rho);
  const w = PARALLEL_WEIGHTS;
  if (compat === "aegir") return -w.balance * cv + w.utilisation * utilisation;
  if (utilisation === 0) return 0;
  const normalised = counts.length > 1 ? cv / Math.sqrt(counts.length - 1) : 0;
  const s = -w.balance * normalised + w.utilisation * utilisation - w.overload * overload;
  return clamp((s + w.balance) / (w.balance + w.utilisation), 0, 1);
}

// ---- r_finish ------------------------------------------------------------------------------------------------------

/**
 * Share of columns that were finished: answered by the head (it did not abstain) and with no specialist call that
 * failed or came late.
 * @param answered (C) truthy where the head answered
 * @param failedCalls (C) failed or late specialist calls; absent: none
 * @returns null where there is no column
 */
export function coverage(
  answered: ArrayLike<number | boolean>,
  failedCalls?: ArrayLike<number>,
): number | null {
  if (answered.length === 0) return null;
  let finished = 0;
  for (let i = 0; i < answered.length; i++) if (answered[i] && !failedCalls?.[i]) finished++;
  return finished / answered.length;
}

/**
 * r_finish = (coverage − penalty + 1) / 2, in [0, 1].
 * @param covered of `coverage`, null where there is no column
 * @param penalty of `degeneratePenalty`, in [0, 1]
 */
export function finishReward(covered: number | null, penalty: number): number | null {
  return covered === null ? null : (covered - penalty + 1) / 2;
}

// ---- cost and total ------------------------------------------------------------------------------------------------

/** c·|a|/N: what a row pays for its activations. c ≈ .2–.3 with `loglik`, .03–.1 with `correct`. */
export function activationCost(activated: number, numSpecialists: number, coefficient: number): number {
  return (coefficient * activated) / numSpecialists;
}

/**
 * A budget of critical steps as a constraint: coefficient · max(0, steps − budget) / budget, 0 within the budget. Steps are counts
 * (`criticalPath().steps`), so the term is the same on every machine.
 */
export function criticalStepsHinge(steps: number, budget: number, coefficient: number): number {
  if (!(budget > 0))
    throw new AegirError("ERR_CONFIG", `criticalStepsHinge: budget: expected more than 0, got ${budget}`);
  return (coefficient * Math.max(0, steps - budget)) / budget;
}

/** Integral controller of the cost coefficient that holds a wanted activation rate: c += gain·(rate − target), c ≥ 0. */
export class RateController {
  readonly target: number;
  readonly gain: number;
  #coefficient: number;

  constructor({
    target,
    initial = 0,
    gain = 0.02,
  }: {
    target: number;
    initial?: number;
    gain?: number;
  }) {
    if (!(target >= 0 && target <= 1))
      throw new AegirError("ERR_CONFIG", `RateController.target: expected a rate in [0, 1], got ${target}`);
    this.target = target;
    this.gain = gain;
    this.#coefficient = Math.max(0, initial);
  }

  get coefficient(): number {
    return this.#coefficient;
  }

  /** Takes the activation rate of a batch and returns the new coefficient. */
  update(rate: number): number {
    this.#coefficient = Math.max(0, this.#coefficient + this.gain * (rate - this.target));
    return this.#coefficient;
  }

  /** Continues from a saved coefficient. */
  restore(coefficient: number): void {
    this.#coefficient = Math.max(0, coefficient);
  }
}

export interface RewardTerms {
  perf: number;
  /** null: masked, counts 0. */
  parallel: number | null;
  finish: number | null;
  cost?: number;
}

/** r_perf + λ1·r_parallel + λ2·r_finish − cost. */
export function totalReward({ perf, parallel, finish, cost = 0 }: RewardTerms, lambdas: Lambdas): number {
  return perf + lambdas.parallel * (parallel ?? 0) + lambdas.finish * (finish ?? 0) - cost;
}

function clamp(x: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, x));
}
