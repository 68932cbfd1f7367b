/**
 * The capped-Bernoulli routing policy (docs/rl.md §4) of one row in plain float64:
 *
 *     π_K(a) = exp(a·z − log Z_K(z)) on { a ∈ {0,1}^N : Σa ≤ K },   Z_K = Σ_{k≤K} e_k(e^z)
 *
 * e_k are the elementary symmetric polynomials. K = N is N independent Bernoulli with p = sigmoid(z). The native
 * operators compute the same for batches and with gradients; this form is for inspection, for enumerating small
 * swarms and as their oracle.
 */
import { AegirError } from "../errors.js";

/** One action: 1 where the specialist is activated. */
export type Action = Uint8Array;

const ENUMERATION_LIMIT = 10;

export class CappedBernoulli {
  /** (N); −∞ for a forbidden specialist. */
  readonly logits: Float64Array;
  /** K, at most N. */
  readonly cap: number;
  readonly logZ: number;
  /** suffix[n][b] = log Z_b of the specialists from n on. */
  readonly #suffix: Float64Array[];

  /**
   * @param logits (N) finite, or −Infinity for a forbidden specialist
   * @param cap largest number of activated specialists, at least 0; above N it is N
   */
  constructor(logits: ArrayLike<number>, cap: number) {
    this.logits = Float64Array.from(logits);
    const bad = this.logits.findIndex((z) => Number.isNaN(z) || z === Number.POSITIVE_INFINITY);
    if (bad >= 0)
      throw new AegirError(
        "ERR_NON_FINITE",
        `logits[${bad}]: expected a finite number or -Infinity (forbidden), got ${this.logits[bad]}`,
      );
    if (!Number.isInteger(cap) || cap < 0)
      throw new AegirError("ERR_ARGUMENT", `cap: expected an integer of at least 0, got ${cap}`);
    this.cap = Math.min(cap, this.logits.length);
    this.#suffix = suffixLogZ(this.logits, this.cap);
    this.logZ = this.#suffix[0]![this.cap]!;
  }

  get numSpecialists(): number {
    return this.logits.length;
  }

  /** log π(a); −Infinity for an action with more than K or with forbidden specialists. */
  logProb(action: ArrayLike<number>): number {
    this.#requireLength("action", action.length);
    let dot = 0;
    let active = 0;
    for (let n = 0; n < this.logits.length; n++) {
      if (!action[n]) continue;
      dot += this.logits[n]!;
      active++;
    }
    return active > this.cap ? Number.NEGATIVE_INFINITY : dot - this.logZ;
  }

  /** d log π(a) / dz = a − μ, (N). */
  logProbGradient(action: ArrayLike<number>): Float64Array {
    return this.marginals().map((mu, n) => (action[n] ? 1 : 0) - mu);
  }

  /** μ_n = P(a_n = 1) = exp(z_n + logZ_{K−1}(z without n) − logZ_K), (N). */
  marginals(): Float64Array {
    return this.logits.map((z, n) => {
      if (z === Number.NEGATIVE_INFINITY || this.cap === 0) return 0;
      const others = this.logits.filter((_, i) => i !== n);
      return Math.exp(z + suffixLogZ(others, this.cap - 1)[0]![this.cap - 1]! - this.logZ);
    });
  }

  /** H = logZ − μ·z in nats. */
  entropy(): number {
    return this.logZ - dotFinite(this.marginals(), this.logits);
  }

  /**
   * KL(this ‖ old) = μ·(z − z_old) − logZ + logZ_old in nats, for the same K; Infinity where `old` forbids a
   * specialist that this policy activates.
   */
  kl(old: CappedBernoulli): number {
    this.#requireLength("old", old.numSpecialists);
    if (old.cap !== this.cap)
      throw new AegirError("ERR_ARGUMENT", `old: expected a policy with cap ${this.cap}, got ${old.cap}`);
    const difference = this.logits.map((z, n) => z - old.logits[n]!);
    return dotFinite(this.marginals(), difference) - this.logZ + old.logZ;
  }

  /**
   * An exact sample, specialist by specialist with the remaining budget b:
   * P(a_n = 1) = exp(z_n + logZ_{b−1}(z_{>n}) − logZ_b(z_{≥n})).
   * @param random uniform in [0, 1); called once for every specialist
   */
  sample(random: () => number): Action {
    let budget = this.cap;
    return Uint8Array.from(this.logits, (z, n) => {
      const u = random();
      if (budget === 0 || z === Number.NEGATIVE_INFINITY) return 0;
      const on = Math.exp(z + this.#suffix[n + 1]![budget - 1]! - this.#suffix[n]![budget]!);
      if (u >= on) return 0;
      budget--;
      return 1;
    });
  }

  /**
   * The decision of evaluation: the up to K largest z above logit(threshold), ties to the lower index. With
   * threshold .5 this is the mode.
   */
  mode(threshold = 0.5): Action {
    if (!(threshold >= 0 && threshold <= 1))
      throw new AegirError("ERR_ARGUMENT", `threshold: expected a number in [0, 1], got ${threshold}`);
    const cut = Math.log(threshold) - Math.log1p(-threshold);
    const chosen = Array.from(this.logits.keys())
      .filter((n) => this.logits[n]! > cut)
      .sort((i, j) => this.logits[j]! - this.logits[i]! || i - j)
      .slice(0, this.cap);
    const action = new Uint8Array(this.logits.length);
    for (const n of chosen) action[n] = 1;
    return action;
  }

  /** Every action of positive probability, in binary order (the last specialist changes fastest); N ≤ 10. */
  enumerate(): { action: Action; probability: number }[] {
    const n = this.numSpecialists;
    if (n > ENUMERATION_LIMIT)
      throw new AegirError(
        "ERR_ARGUMENT",
        `enumerate: expected at most ${ENUMERATION_LIMIT} specialists, got ${n}; sample instead`,
      );
    const out: { action: Action; probability: number }[] = [];
    for (let code = 0; code < 2 ** n; code++) {
      const action = Uint8Array.from({ length: n }, (_, i) => (code >> (n - 1 - i)) & 1);
      const probability = Math.exp(this.logProb(action));
      if (probability > 0) out.push({ action, probability });
    }
    return out;
  }

  /**
   * J(z) = E[r(a)] and its exact gradient Σ π(a)·r(a)·(a − μ), by enumeration: zero variance for small swarms, and
   * what every estimator must agree with in the mean.
   */
  expectedReward(reward: (action: Action) => number): { value: number; gradient: Float64Array } {
    const marginals = this.marginals();
    const gradient = new Float64Array(this.numSpecialists);
    let value = 0;
    for (const { action, probability } of this.enumerate()) {
      const weighted = probability * reward(action);
      value += weighted;
      for (let n = 0; n < gradient.length; n++) gradient[n]! += weighted * (action[n]! - marginals[n]!);
    }
    return { value, gradient };
  }

  #requireLength(name: string, length: number): void {
    if (length !== this.logits.length)
      throw new AegirError("ERR_SHAPE", `${name}: expected ${this.logits.length} specialists, got ${length}`);
  }
}

/**
 * Table of log Z_b(z_{≥n}) for n = 0..N and b = 0..cap, from the last specialist on:
 * Z_b(z_{≥n}) = Z_b(z_{>n}) + e^{z_n}·Z_{b−1}(z_{>n}).
 */
function suffixLogZ(logits: Float64Array, cap: number): Float64Array[] {
  const table = Array.from({ length: logits.length + 1 }, () => new Float64Array(cap + 1));
  for (let n = logits.length - 1; n >= 0; n--) {
    const after = table[n + 1]!;
    for (let b = 1; b <= cap; b++) table[n]![b] = logAddExp(after[b]!, logits[n]! + after[b - 1]!);
  }
  return table;
}

function logAddExp(a: number, b: number): number {
  const high = Math.max(a, b);
  return high === Number.NEGATIVE_INFINITY ? high : high + Math.log1p(Math.exp(Math.min(a, b) - high));
}

/** Σ weight·value over positive weights: 0·(−∞) of a forbidden specialist counts 0. */
function dotFinite(weights: Float64Array, values: Float64Array): number {
  return weights.reduce((sum, w, n) => (w > 0 ? sum + w * values[n]! : sum), 0);
}
