/** The token-level clipped losses of docs/rl.md §3 over the native fused operator. */
import { z } from "zod";
import { parseOptions } from "../config.js";
import type { ClipLossInput, ClipLossStats, NativeLane, NativeTensor, Timed } from "../native/contract.js";
import { native } from "../native/load.js";

const sharedOptions = {
  /** `klCoef` times an estimate of KL(pi || reference) from `logpRef` is added per token. */
  klCoef: z.number().min(0).default(0),
  /** With d = logpRef − logp clamped to ±20: k1 −d, k2 d²/2, k3 e^d − d − 1. */
  klForm: z.enum(["k1", "k2", "k3"]).default("k3"),
  /** Sum over tokens and its denominator: Σmw; S·Σ_row mw; S; B·norm (S rows with a valid token, B rows). */
  aggregation: z
    .enum(["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"])
    .default("token-mean"),
  /** The constant of `seq-mean-token-sum-norm`. */
  norm: z.number().positive().default(1),
  /** Replaces the batch's own denominator (Σmw, S or B·norm): gradient accumulation, data parallel. */
  denominator: z.number().positive().optional(),
};

const ppoOptions = {
  /** The ratio is clipped to [1 − epsLow, 1 + epsHigh]; `clipRange` anneals both. */
  epsLow: z.number().min(0).max(1).default(0.2),
  epsHigh: z.number().min(0).default(0.2),
  /** For negative advantages the loss is at most −dualClip·A. */
  dualClip: z.number().gt(1).optional(),
};

const k25Options = {
  /** Bounds of the log-ratio outside which the advantage gives no gradient, whatever its sign. */
  logAlpha: z.number().max(0).default(-0.25),
  logBeta: z.number().min(0).default(0.25),
  /** Weight of the squared log-ratio. */
  tau: z.number().min(0).default(0.1),
  /** Keep the gradient of that penalty inside the bounds too. */
  maskPenalty: z.boolean().default(false),
};

const ppoSchema = z.strictObject({ ...sharedOptions, ...ppoOptions });
const k25Schema = z.strictObject({ ...sharedOptions, ...k25Options });
const tokenSchema = z.strictObject({
  kind: z.enum(["ppo", "k25"]).default("ppo"),
  ...sharedOptions,
  ...ppoOptions,
  ...k25Options,
});

export type PpoClipLossOptions = z.input<typeof ppoSchema>;
export type K25ClipLossOptions = z.input<typeof k25Schema>;
export type TokenClipLossOptions = z.input<typeof tokenSchema>;

export interface OnLane {
  lane: NativeLane | { readonly native: NativeLane };
}

export interface ClipLossResult extends Timed {
  /** Scalar in f32 (f64 for f64 logp) with a graph into `logp` alone. */
  loss: NativeTensor;
  stats: ClipLossStats;
}

/**
 * Token-level clipped policy loss, to be minimised; sources and equations in docs of `ppoClipLoss` and `k25ClipLoss`.
 * A masked token's other values never reach the result, and with no valid token the loss is 0 with zero gradient.
 * @param input tensors of one shape (B,T) or (R): logp, logpOld, advantages, and optionally a bool mask, token weights,
 *   a behaviour correction and logpRef; f32, f64 or bf16; sums of up to 256 tokens in f32 (f64 for f64), of these in f64, in a fixed order
 * @throws AegirError ERR_CONFIG naming the option; ERR_SHAPE, ERR_DTYPE naming the tensor; ERR_NON_FINITE naming the
 *   first valid token whose loss is NaN or infinite
 */
export async function tokenClipLoss(
  input: ClipLossInput,
  options: TokenClipLossOptions,
  { lane }: OnLane,
): Promise<ClipLossResult> {
  return native().tokenClipLoss(
    nativeLane(lane),
    input,
    parseOptions("tokenClipLoss options", tokenSchema, options),
  );
}

/**
 * PPO (arXiv:1707.06347), per token: max(−A·r, −A·clip(r, 1 − epsLow, 1 + epsHigh)), r = exp(logp − logpOld) with the
 * log-ratio clamped to ±20; with `dualClip` c (arXiv:1912.09729), where A < 0, at most −c·A.
 */
export async function ppoClipLoss(
  input: ClipLossInput,
  options: PpoClipLossOptions,
  { lane }: OnLane,
): Promise<ClipLossResult> {
  const checked = parseOptions("ppoClipLoss options", ppoSchema, options);
  return native().tokenClipLoss(nativeLane(lane), input, { kind: "ppo", ...checked });
}

/**
 * Kimi K2.5 (arXiv:2602.02276, eq. 1), per token: −A·clip(r, e^logAlpha, e^logBeta) + tau·l², l = log r; the advantage
 * gives a gradient only inside the bounds, whatever its sign.
 */
export async function k25ClipLoss(
  input: ClipLossInput,
  options: K25ClipLossOptions,
  { lane }: OnLane,
): Promise<ClipLossResult> {
  const checked = parseOptions("k25ClipLoss options", k25Schema, options);
  return native().tokenClipLoss(nativeLane(lane), input, { kind: "k25", epsLow: 0, epsHigh: 0, ...checked });
}

export function nativeLane(lane: OnLane["lane"]): NativeLane {
  return "native" in lane ? lane.native : lane;
}
