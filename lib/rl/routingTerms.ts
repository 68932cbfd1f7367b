/**
 * The batch statistics of routing as differentiable terms (docs/rl.md §5, "credit trap").
 *
 * r_parallel and the degeneracy penalty are the same for every rollout of a row, so a per-row baseline cancels them.
 * Here each becomes a coefficient c[b,n] per (row, specialist), a constant, and its loss is linear in the policy's
 * marginals μ: −λ·Σ c[b,n]·μ[b,n]. As dμ_b/dz_b is the covariance of the policy, this is the mean-field form of
 * ∇_{z_b} E[R] = Cov(a_b, R).
 */
import { AegirError } from "../errors.js";
import { parallelReward } from "./rewards.js";

export interface RoutingTerm {
  /** The term's value, for the log. */
  value: number;
  /** (R,N): d(term) / d(marginal). Maximising the term means the loss −λ·Σ c·μ. */
  coefficients: Float64Array;
}

export interface Activations {
  /** (G,R,N) row-major, 0 or 1: G joint draws for R rows. */
  actions: ArrayLike<number>;
  rows: number;
  numSpecialists: number;
}

/**
 * Mean-field surrogate of r_parallel, averaged over the draws. F_n, the share of rows that activate n, is the sampled
 * one (straight-through), and dR/dF_n is the difference that this row's decision makes:
 * c[b,n] = R(a with a[b,n] = 1) − R(a with a[b,n] = 0). R is multilinear in the decisions of independent specialists,
 * so for K = N its mean over draws is exactly dE[R]/dμ[b,n], utilisation and clipping included; under a cap it is
 * first order. A derivative in F would agree for large batches only, and does not exist for utilisation.
 */
export function parallelSurrogate({ actions, rows, numSpecialists }: Activations, rho = 0.5): RoutingTerm {
  const draws = drawsOf(actions, rows, numSpecialists);
  const coefficients = new Float64Array(rows * numSpecialists);
  let value = 0;
  for (let g = 0; g < draws; g++) {
    const counts = countActions(actions, g, rows, numSpecialists);
    const rewardWith = (n: number, delta: number) =>
      parallelReward(
        counts.map((count, i) => (i === n ? count + delta : count)),
        rows,
        { rho },
      )!;
    const whole = rewardWith(0, 0);
    value += whole / draws;
    const start = g * rows * numSpecialists;
    for (let n = 0; n < numSpecialists; n++) {
      const ofActive = counts[n]! > 0 ? whole - rewardWith(n, -1) : 0;
      const ofInactive = counts[n]! < rows ? rewardWith(n, 1) - whole : 0;
      for (let b = 0; b < rows; b++) {
        const i = b * numSpecialists + n;
        coefficients[i]! += (actions[start + i] ? ofActive : ofInactive) / draws;
      }
    }
  }
  return { value, coefficients };
}

/**
 * Difference rewards, the alternative to the surrogate: what row b adds to r_parallel of its joint draw, against the
 * same draw with row b activating nothing. Added to that rollout's own reward.
 * @returns (G,R)
 */
export function parallelDifferenceRewards(
  { actions, rows, numSpecialists }: Activations,
  rho = 0.5,
): Float64Array {
  const draws = drawsOf(actions, rows, numSpecialists);
  const out = new Float64Array(draws * rows);
  for (let g = 0; g < draws; g++) {
    const counts = countActions(actions, g, rows, numSpecialists);
    const whole = parallelReward(counts, rows, { rho })!;
    for (let b = 0; b < rows; b++) {
      const start = (g * rows + b) * numSpecialists;
      const without = counts.map((count, n) => count - (actions[start + n] ? 1 : 0));
      out[g * rows + b] = whole - parallelReward(without, rows, { rho })!;
    }
  }
  return out;
}

export interface DegeneratePenalty {
  /** max(pOn, pOff, pConst), in [0, 1]. */
  penalty: number;
  pOn: number;
  pOff: number;
  pConst: number;
  /** mean_n( h(mean_b p) − mean_b h(p) ) in nats; null where it is not estimated yet. */
  mutualInfo: number | null;
}

const ON_FROM = 0.95;
const OFF_UNTIL = 0.05;
/** Mutual information from which a router counts as varying with its input. */
const VARYING = 0.1 * Math.LN2;

/**
 * Penalty of a degenerate router: always on, always off or the same for every input.
 * @param probabilities (R,N) of the router
 * @param cap K of the phase; default N
 */
export function degeneratePenalty(
  probabilities: ArrayLike<number>,
  numSpecialists: number,
  cap = numSpecialists,
): DegeneratePenalty {
  const rows = rowsOf(probabilities, numSpecialists);
  const mutualInfo = rows < 2 ? null : mutualInformation(entropyMoments(probabilities, rows, numSpecialists));
  return penaltyOf(normalisedRate(probabilities, numSpecialists, cap), mutualInfo);
}

export interface RoutingMonitorState {
  seen: number;
  meanProbability: number[];
  meanEntropy: number[];
}

/**
 * The degeneracy penalty over training: the rate is that of the batch, the mutual information is that of a running
 * mean over `window` decisions (a batch is too small to tell a constant router from a varying one). Until `window`
 * decisions have been seen, pConst stays 0.
 */
export class RoutingMonitor {
  readonly numSpecialists: number;
  readonly window: number;
  #seen = 0;
  #moments: EntropyMoments;

  constructor(numSpecialists: number, window = 256) {
    this.numSpecialists = numSpecialists;
    this.window = window;
    this.#moments = { mean: new Float64Array(numSpecialists), entropy: new Float64Array(numSpecialists) };
  }

  /**
   * Takes the router's probabilities of a batch.
   * @param probabilities (R,N): sigmoid(z), or the marginals in a budget phase
   * @returns the penalty, and as a `RoutingTerm` d(penalty)/dp with the sign of the penalty (to be minimised)
   */
  update(probabilities: ArrayLike<number>, cap = this.numSpecialists): DegeneratePenalty & RoutingTerm {
    const n = this.numSpecialists;
    const rows = rowsOf(probabilities, n);
    this.#seen += rows;
    const share = Math.min(1, rows / Math.min(this.#seen, this.window));
    const batch = entropyMoments(probabilities, rows, n);
    for (let i = 0; i < n; i++) {
      this.#moments.mean[i]! += share * (batch.mean[i]! - this.#moments.mean[i]!);
      this.#moments.entropy[i]! += share * (batch.entropy[i]! - this.#moments.entropy[i]!);
    }
    const mutualInfo = this.#seen < this.window ? null : mutualInformation(this.#moments);
    const result = penaltyOf(normalisedRate(probabilities, n, cap), mutualInfo);
    const coefficients = penaltyGradient(probabilities, n, cap, result, this.#moments.mean);
    return { ...result, value: result.penalty, coefficients };
  }

  state(): RoutingMonitorState {
    return {
      seen: this.#seen,
      meanProbability: Array.from(this.#moments.mean),
      meanEntropy: Array.from(this.#moments.entropy),
    };
  }

  restore({ seen, meanProbability, meanEntropy }: RoutingMonitorState): void {
    requireLength("meanProbability", meanProbability.length, this.numSpecialists);
    requireLength("meanEntropy", meanEntropy.length, this.numSpecialists);
    this.#seen = seen;
    this.#moments = { mean: Float64Array.from(meanProbability), entropy: Float64Array.from(meanEntropy) };
  }
}

interface EntropyMoments {
  /** (N) mean over decisions of p, and of the binary entropy h(p) in nats. */
  mean: Float64Array;
  entropy: Float64Array;
}

function entropyMoments(probabilities: ArrayLike<number>, rows: number, n: number): EntropyMoments {
  const mean = new Float64Array(n);
  const entropy = new Float64Array(n);
  for (let i = 0; i < rows * n; i++) {
    mean[i % n]! += probabilities[i]! / rows;
    entropy[i % n]! += binaryEntropy(probabilities[i]!) / rows;
  }
  return { mean, entropy };
}

function mutualInformation({ mean, entropy }: EntropyMoments): number {
  let sum = 0;
  for (let n = 0; n < mean.length; n++) sum += binaryEntropy(mean[n]!) - entropy[n]!;
  return sum / mean.length;
}

function binaryEntropy(p: number): number {
  return p <= 0 || p >= 1 ? 0 : -p * Math.log(p) - (1 - p) * Math.log1p(-p);
}

/** Mean probability against what the cap allows: mean p / (K/N). */
function normalisedRate(probabilities: ArrayLike<number>, n: number, cap: number): number {
  let sum = 0;
  for (let i = 0; i < probabilities.length; i++) sum += probabilities[i]!;
  return probabilities.length === 0 ? 0.5 : sum / probabilities.length / (cap / n);
}

function penaltyOf(rate: number, mutualInfo: number | null): DegeneratePenalty {
  const pOn = clamp01((rate - ON_FROM) / (1 - ON_FROM));
  const pOff = clamp01((OFF_UNTIL - rate) / OFF_UNTIL);
  const pConst = mutualInfo === null ? 0 : 1 - clamp01(mutualInfo / VARYING);
  return { penalty: Math.max(pOn, pOff, pConst), pOn, pOff, pConst, mutualInfo };
}

/**
 * Derivative of the sum of the components that are positive, not of their maximum: at an exactly constant router
 * pConst is the maximum and has no slope, and always-on and always-off must still be left.
 */
function penaltyGradient(
  probabilities: ArrayLike<number>,
  n: number,
  cap: number,
  { pOn, pOff, pConst }: DegeneratePenalty,
  trackedMean: Float64Array,
): Float64Array {
  const rateSlope = n / cap / probabilities.length;
  const onOff = (pOn > 0 ? rateSlope / (1 - ON_FROM) : 0) - (pOff > 0 ? rateSlope / OFF_UNTIL : 0);
  const constant = pConst > 0 ? -1 / VARYING / probabilities.length : 0;
  return Float64Array.from(probabilities, (p, i) => {
    const spread = constant === 0 ? 0 : logOdds(p) - logOdds(trackedMean[i % n]!);
    return onOff + constant * spread;
  });
}

/** log(p / (1 − p)) = −h'(p), finite for saturated probabilities. */
function logOdds(p: number): number {
  const inside = Math.min(1 - 1e-6, Math.max(1e-6, p));
  return Math.log(inside / (1 - inside));
}

function countActions(actions: ArrayLike<number>, draw: number, rows: number, n: number): Float64Array {
  const counts = new Float64Array(n);
  const start = draw * rows * n;
  for (let i = 0; i < rows * n; i++) if (actions[start + i]) counts[i % n]! += 1;
  return counts;
}

function drawsOf(actions: ArrayLike<number>, rows: number, n: number): number {
  const draws = actions.length / (rows * n);
  if (!Number.isInteger(draws) || draws < 1)
    throw new AegirError(
      "ERR_SHAPE",
      `actions: expected (G,R,N) with R = ${rows}, N = ${n}, got ${actions.length} values`,
    );
  return draws;
}

function rowsOf(probabilities: ArrayLike<number>, n: number): number {
  const rows = probabilities.length / n;
  if (!Number.isInteger(rows))
    throw new AegirError(
      "ERR_SHAPE",
      `probabilities: expected (R,N) with N = ${n}, got ${probabilities.length} values`,
    );
  return rows;
}

function requireLength(name: string, length: number, expected: number): void {
  if (length !== expected)
    throw new AegirError("ERR_SHAPE", `${name}: expected ${expected} values, got ${length}`);
}

function clamp01(x: number): number {
  return Math.min(1, Math.max(0, x));
}
