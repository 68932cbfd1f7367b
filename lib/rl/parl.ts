/**
 * The reward and the metric of open-parl (docs/rl.md §2) on plain number arrays, in float64: the staged two-term form of
 * release 0.1.0 and the later three-term form of Kimi K2.5.
 */
import { AegirError } from "../errors.js";

/** Reproduces a release of open-parl with its defects (docs/parl.md §6): for comparing with numbers that it gave. */
export type OpenParlCompat = "open-parl-0.1.0";

export interface PARLRewardOptions {
  /** λ at the start of training. */
  lambdaInit?: number;
  /** λ from `totalTrainingSteps` on. */
  lambdaFinal?: number;
  totalTrainingSteps?: number;
  /** `open-parl-0.1.0`: success enters the two-term form twice, and a negative step extrapolates λ. */
  compat?: OpenParlCompat;
}

export interface PARLInput {
  /** (B) subagents created per episode. */
  numSubagents: readonly number[];
  /** (B,D) features whose mean is the quality of the trajectory. */
  trajectoryFeatures: readonly (readonly number[])[];
  /** (B) in [0, 1]. */
  success: readonly number[];
  trainingStep: number;
  maxSubagents?: number;
}

export interface PARLThreeTermInput extends PARLInput {
  /** (B) subagent tasks that were finished, and that were assigned. */
  completed: readonly number[];
  assigned: readonly number[];
}

/** All arrays (B). */
export interface PARLTwoTermResult {
  totalReward: number[];
  lambdaAux: number;
  rParallel: number[];
  taskQuality: number[];
  /** λ · r_parallel */
  instantiationComponent: number[];
  /** (1 − λ) · Q; under `compat` (1 − λ) · success · Q. */
  taskComponent: number[];
}

/** All arrays (B). */
export interface PARLThreeTermResult {
  totalReward: number[];
  lambda1: number;
  lambda2: number;
  rParallel: number[];
  rFinish: number[];
  rPerf: number[];
}

const ASSIGNED_EPS = 1e-8;

/** Staged reward: λ anneals linearly from `lambdaInit` to `lambdaFinal` over `totalTrainingSteps`. */
export class PARLReward {
  readonly lambdaInit: number;
  readonly lambdaFinal: number;
  readonly totalTrainingSteps: number;
  readonly compat: OpenParlCompat | undefined;

  constructor({
    lambdaInit = 0.1,
    lambdaFinal = 0,
    totalTrainingSteps = 10_000,
    compat,
  }: PARLRewardOptions = {}) {
    requireCompat("PARLReward", compat);
    if (!(totalTrainingSteps > 0))
      throw new AegirError(
        "ERR_CONFIG",
        `PARLReward.totalTrainingSteps: expected more than 0, got ${totalTrainingSteps}`,
      );
    this.lambdaInit = lambdaInit;
    this.lambdaFinal = lambdaFinal;
    this.totalTrainingSteps = totalTrainingSteps;
    this.compat = compat;
  }

  /** λi + (λf − λi) · min(1, step / T). */
  annealLambda(trainingStep: number): number {
    if (Number.isNaN(trainingStep) || (trainingStep < 0 && !this.compat))
      throw new AegirError("ERR_ARGUMENT", `trainingStep: expected at least 0, got ${trainingStep}`);
    const done = Math.min(1, trainingStep / this.totalTrainingSteps);
    return this.lambdaInit + (this.lambdaFinal - this.lambdaInit) * done;
  }

  /** n / max, (B): the form of 0.1.0, which may exceed 1. */
  computeInstantiationReward(numSubagents: readonly number[], maxSubagents = 100): number[] {
    if (!(maxSubagents > 0))
      throw new AegirError("ERR_ARGUMENT", `maxSubagents: expected more than 0, got ${maxSubagents}`);
    return numSubagents.map((n) => n / maxSubagents);
  }

  /** clamp(completed / (assigned + 1e-8), 0, 1), (B). */
  computeFinishReward(completed: readonly number[], assigned: readonly number[]): number[] {
    requireSameLength("assigned", assigned.length, "completed", completed.length);
    return completed.map((done, i) => clamp01(done / (assigned[i]! + ASSIGNED_EPS)));
  }

  /** clamp(mean of the features · success, 0, 1), (B). */
  computeTaskQuality(
    trajectoryFeatures: readonly (readonly number[])[],
    success: readonly number[],
  ): number[] {
    requireSameLength("success", success.length, "trajectoryFeatures", trajectoryFeatures.length);
    return trajectoryFeatures.map((features, i) => clamp01(mean(features) * success[i]!));
  }

  /**
   * Two-term form: λ · r_parallel + (1 − λ) · Q. Success is part of Q and enters once (open-parl 0.1.0 multiplies
   * by it a second time, which differs for fractional success only).
   */
  computeFullReward(input: PARLInput): PARLTwoTermResult {
    const lambdaAux = this.annealLambda(input.trainingStep);
    const rParallel = this.computeInstantiationReward(input.numSubagents, input.maxSubagents);
    const taskQuality = this.computeTaskQuality(input.trajectoryFeatures, input.success);
    requireSameLength("numSubagents", rParallel.length, "trajectoryFeatures", taskQuality.length);
    const instantiationComponent = rParallel.map((r) => lambdaAux * r);
    const again = (i: number) => (this.compat ? input.success[i]! : 1);
    const taskComponent = taskQuality.map((q, i) => (1 - lambdaAux) * again(i) * q);
    const totalReward = instantiationComponent.map((r, i) => r + taskComponent[i]!);
    return { totalReward, lambdaAux, rParallel, taskQuality, instantiationComponent, taskComponent };
  }

  /** Three-term form: λ1 · clamp(n / max) + λ2 · finish rate + Q, with λ1 = λ2 on the one schedule. */
  computeThreeTermReward(input: PARLThreeTermInput): PARLThreeTermResult {
    const lambda = this.annealLambda(input.trainingStep);
    const rParallel = this.computeInstantiationReward(input.numSubagents, input.maxSubagents).map(clamp01);
    const rFinish = this.computeFinishReward(input.completed, input.assigned);
    const rPerf = this.computeTaskQuality(input.trajectoryFeatures, input.success);
    requireSameLength("numSubagents", rParallel.length, "trajectoryFeatures", rPerf.length);
    requireSameLength("completed", rFinish.length, "trajectoryFeatures", rPerf.length);
    const totalReward = rPerf.map((perf, i) => lambda * rParallel[i]! + lambda * rFinish[i]! + perf);
    return { totalReward, lambda1: lambda, lambda2: lambda, rParallel, rFinish, rPerf };
  }
}

/** CriticalSteps = Σ_t ( S_main(t) + max_i S_sub,i(t) ) of Kimi K2.5 (arXiv:2602.02276 §3). */
export class CriticalStepsMetric {
  /** Added to the main agent's steps at every valid t. */
  readonly orchestrationOverhead: number;
  readonly compat: OpenParlCompat | undefined;

  /** @param options.compat `open-parl-0.1.0`: the overhead is ignored, and a mask or N = 0 is refused */
  constructor({
    orchestrationOverhead = 0,
    compat,
  }: {
    orchestrationOverhead?: number;
    compat?: OpenParlCompat;
  } = {}) {
    requireCompat("CriticalStepsMetric", compat);
    if (!(orchestrationOverhead >= 0))
      throw new AegirError(
        "ERR_CONFIG",
        `CriticalStepsMetric.orchestrationOverhead: expected at least 0, got ${orchestrationOverhead}`,
      );
    this.orchestrationOverhead = orchestrationOverhead;
    this.compat = compat;
  }

  /**
   * @param main (B,T) steps of the main agent
   * @param sub (B,T,N) steps of the subagents; N = 0 is allowed: the maximum of nothing is 0
   * @param mask (B,T) valid stages; absent: all
   * @returns (B)
   */
  compute(
    main: readonly (readonly number[])[],
    sub: readonly (readonly (readonly number[])[])[],
    mask?: readonly (readonly (number | boolean)[])[],
  ): number[] {
    requireSameLength("sub", sub.length, "main", main.length);
    if (mask) requireSameLength("mask", mask.length, "main", main.length);
    if (this.compat) return compatibleSteps(main, sub, mask !== undefined);
    return main.map((stages, b) => {
      requireSameLength(`sub[${b}]`, sub[b]!.length, `main[${b}]`, stages.length);
      if (mask) requireSameLength(`mask[${b}]`, mask[b]!.length, `main[${b}]`, stages.length);
      let total = 0;
      stages.forEach((steps, t) => {
        if (mask && !mask[b]![t]) return;
        total += steps + this.orchestrationOverhead + Math.max(0, ...sub[b]![t]!);
      });
      return total;
    });
  }
}

/** What 0.1.0 computes: a maximum over subagents that may be negative, no overhead, no mask. */
function compatibleSteps(
  main: readonly (readonly number[])[],
  sub: readonly (readonly (readonly number[])[])[],
  masked: boolean,
): number[] {
  if (masked || sub.some((stages) => stages.some((agents) => agents.length === 0)))
    throw new AegirError(
      "ERR_ARGUMENT",
      "CriticalStepsMetric: open-parl 0.1.0 knows neither a mask nor stages without subagents; leave compat out",
    );
  return main.map((stages, b) => {
    requireSameLength(`sub[${b}]`, sub[b]!.length, `main[${b}]`, stages.length);
    return stages.reduce((total, steps, t) => total + steps + Math.max(...sub[b]![t]!), 0);
  });
}

function requireCompat(owner: string, compat: string | undefined): void {
  if (compat !== undefined && compat !== "open-parl-0.1.0")
    throw new AegirError("ERR_CONFIG", `${owner}.compat: expected "open-parl-0.1.0", got "${compat}"`);
}

function clamp01(x: number): number {
  return Math.min(1, Math.max(0, x));
}

function mean(values: readonly number[]): number {
  if (values.length === 0)
    throw new AegirError("ERR_SHAPE", "trajectoryFeatures: expected (B,D) with D of at least 1, got D = 0");
  return values.reduce((sum, v) => sum + v, 0) / values.length;
}

function requireSameLength(name: string, length: number, other: string, expected: number): void {
  if (length !== expected)
    throw new AegirError(
      "ERR_SHAPE",
      `${name}: expected the length of ${other} (${expected}), got ${length}`,
    );
}
