import { AegirError } from "../errors.js";
import type { NativeGenerator, NativeLane, NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import { nativeLane, type OnLane } from "./loss.js";

/**
 * The capped-Bernoulli routing policy (docs/rl.md §4) of a batch: π_K(a) ∝ exp(a·z) on { a ∈ {0,1}^n : Σa ≤ K }, row by row.
 * K = n is independent Bernoulli with p = sigmoid(z). `CappedBernoulli` is the same for one row in plain numbers. Logits (B,T,n) are
 * one decision at each of T decision tokens: then B,T stands for R below, in results too; `restrictLogits` masks tokens.
 * Results keep the graph into the logits where these have one; the caller disposes them.
 */
export class RoutingPolicy {
  /** (R,n) or (B,T,n), f32, f64 or bf16; −∞ for a forbidden specialist. n up to 128. */
  readonly logits: NativeTensor;
  /** K; above n it is n. */
  readonly cap: number;
  readonly #lane: NativeLane;

  /** The policy does not own the logits: they must not be disposed while it is in use. */
  constructor(logits: NativeTensor, cap: number, { lane }: OnLane) {
    if (!Number.isInteger(cap) || cap < 0)
      throw new AegirError("ERR_ARGUMENT", `cap: expected an integer of at least 0, got ${cap}`);
    this.logits = logits;
    this.cap = cap;
    this.#lane = nativeLane(lane);
  }

  /**
   * Log-probabilities (R) of actions (R,n) bool, or (G,R) of G draws (G,R,n).
   * @throws AegirError ERR_ARGUMENT for an action above the cap or with a forbidden specialist: pass the cap and the
   *   logits that it was drawn with
   */
  async logProb(actions: NativeTensor): Promise<NativeTensor> {
    return (await native().cappedBernoulliLogProb(this.#lane, this.logits, actions, this.cap)).logp;
  }

  /** Exact samples (draws,R,n) bool. */
  async sample(
    draws: number,
    generator: NativeGenerator | { readonly native: NativeGenerator },
  ): Promise<NativeTensor> {
    const source = "native" in generator ? generator.native : generator;
    return (await native().cappedBernoulliSample(this.#lane, this.logits, this.cap, draws, source)).actions;
  }

  /** The decision of evaluation (R,n) bool: the up to K largest z above logit(threshold); .5 gives the mode. */
  async mode(threshold = 0.5): Promise<NativeTensor> {
    return (await native().cappedBernoulliMode(this.#lane, this.logits, this.cap, threshold)).actions;
  }

  /**
   * Marginals P(a = 1) (R,n) and entropy (R) in nats; with the logits of an earlier policy of the same cap also
   * KL(this ‖ old) (R) in nats, where `old` is a constant.
   */
  async stats(
    old?: NativeTensor,
  ): Promise<{ marginals: NativeTensor; entropy: NativeTensor; kl: NativeTensor | null }> {
    const { marginals, entropy, kl } = await native().cappedBernoulliStats(
      this.#lane,
      this.logits,
      this.cap,
      old,
    );
    return { marginals, entropy, kl };
  }
}

/**
 * Logits of a policy with allowed sets and masked decisions: z where a specialist may be activated, −∞ elsewhere, with z's graph. A
 * masked decision allows nothing: its only action is all-off, with log-probability, entropy, KL and gradient 0, and what its
 * logits hold, NaN included, is never read.
 * @param logits (R,n) or (B,T,n)
 * @param sets allowed: bool of that shape, or (n) for all decisions; mask: bool (R) or (B,T), true for a decision
 */
export async function restrictLogits(
  logits: NativeTensor,
  sets: { allowed?: NativeTensor; mask?: NativeTensor },
  { lane }: OnLane,
): Promise<NativeTensor> {
  return (await native().restrictLogits(nativeLane(lane), logits, sets)).logits;
}

/**
 * Scalar Σ x·coefficients with a gradient into x alone: how entropy bonuses and the terms of `routingTerms` enter a loss.
 * An element whose coefficient is 0 is not read.
 * @param x any shape, f32, f64 or bf16
 * @param coefficients of x's shape, constants
 */
export async function weightedSum(
  x: NativeTensor,
  coefficients: NativeTensor,
  { lane }: OnLane,
): Promise<NativeTensor> {
  return (await native().weightedSum(nativeLane(lane), x, coefficients)).loss;
}
