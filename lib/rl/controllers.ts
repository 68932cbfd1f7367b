/** Coefficients of the policy's loss that follow what they are to hold (docs/rl.md §4). */
import { AegirError } from "../errors.js";

/** KL beyond 1.5 times its target doubles the coefficient, below target/1.5 halves it (PPO, arXiv:1707.06347 §4). */
export class AdaptiveKl {
  #coefficient: number;

  /** @param target nats a decision; absent: the coefficient stays */
  constructor(
    initial: number,
    readonly target?: number,
  ) {
    if (!(initial >= 0))
      throw new AegirError("ERR_CONFIG", `AdaptiveKl: expected at least 0, got ${initial}`);
    if (target !== undefined && !(target > 0 && initial > 0))
      throw new AegirError(
        "ERR_CONFIG",
        `AdaptiveKl: a target needs to be positive, as does the coefficient that it moves; got ${target}, ${initial}`,
      );
    this.#coefficient = initial;
  }

  get coefficient(): number {
    return this.#coefficient;
  }

  /** Takes the KL of the new policy from the old one after an update. */
  update(kl: number): void {
    if (this.target === undefined) return;
    if (kl > 1.5 * this.target) this.#coefficient = Math.min(100, 2 * this.#coefficient);
    if (kl < this.target / 1.5) this.#coefficient = Math.max(1e-4, this.#coefficient / 2);
  }

  restore(coefficient: number): void {
    this.#coefficient = coefficient;
  }
}

/**
 * Integral controller of the entropy bonus: c += gain·(target − entropy) while the entropy is below its target, and back towards its
 * initial value above it; 0 ≤ initial ≤ c ≤ max.
 */
export class AdaptiveEntropy {
  #coefficient: number;

  /** @param target nats a specialist; absent: the coefficient stays */
  constructor(
    readonly initial: number,
    readonly target?: number,
    readonly max = 0.1,
    readonly gain = 0.01,
  ) {
    this.#coefficient = initial;
  }

  get coefficient(): number {
    return this.#coefficient;
  }

  /** Takes the policy's mean entropy a specialist. */
  update(entropy: number): void {
    if (this.target === undefined) return;
    const moved = this.#coefficient + this.gain * (this.target - entropy);
    this.#coefficient = Math.min(Math.max(this.max, this.initial), Math.max(this.initial, moved));
  }

  restore(coefficient: number): void {
    this.#coefficient = coefficient;
  }
}
