import { AegirError } from "../errors.js";

/** What a decision token stands at; `padding` is masked. */
export type TokenKind = "boundary" | "typeIndicative" | "other" | "padding";

/** Weights of token-level clipping (docs/rl.md §4). */
export const TOKEN_WEIGHTS: Readonly<Record<TokenKind, number>> = {
  boundary: 2,
  typeIndicative: 1.5,
  other: 1,
  padding: 0,
};

/**
 * Weights of decision tokens for the clipped loss, rescaled so that their sum is the number of tokens that are not padding:
 * the size of the loss and of its gradient does not depend on the mix of kinds. All padding gives zeros. Which tokens are
 * type-indicative is decided from training statistics or entropy, never from the row's own label.
 * @param kinds one per token, in the layout of the loss
 * @throws AegirError ERR_CONFIG for a negative weight
 */
export function tokenWeights(
  kinds: readonly TokenKind[],
  weights: Readonly<Record<TokenKind, number>> = TOKEN_WEIGHTS,
): Float64Array {
  for (const [kind, weight] of Object.entries(weights))
    if (!(weight >= 0 && Number.isFinite(weight)))
      throw new AegirError(
        "ERR_CONFIG",
        `weights.${kind}: expected a finite weight of at least 0, got ${weight}`,
      );
  const raw = Float64Array.from(kinds, (kind) => (kind === "padding" ? 0 : weights[kind]));
  const total = raw.reduce((sum, w) => sum + w, 0);
  if (total === 0) return raw;
  const scale = kinds.filter((kind) => kind !== "padding").length / total;
  return raw.map((w) => w * scale);
}

export interface TypeIndicativeOptions {
  /** Tokens seen less often in training are never indicative; default 5. */
  minCount?: number;
  /** Share of the labels' entropy that a token must take away; default .5. */
  minGain?: number;
}

/**
 * Which tokens are type-indicative, from training statistics alone: those after which the label's entropy has fallen by at least
 * `minGain` of what it was, H(label | token) ≤ (1 − minGain)·H(label). A row's own label has no part in it when the tokens are used.
 * @param counts per token value, how often it stood in training columns of each label (C)
 * @returns per token value, whether it is indicative
 * @throws AegirError ERR_SHAPE where the tokens' counts are of different length
 */
export function typeIndicativeTokens(
  counts: readonly ArrayLike<number>[],
  { minCount = 5, minGain = 0.5 }: TypeIndicativeOptions = {},
): boolean[] {
  const classes = counts[0]?.length ?? 0;
  const all = new Float64Array(classes);
  for (const [token, byLabel] of counts.entries()) {
    if (byLabel.length !== classes)
      throw new AegirError(
        "ERR_SHAPE",
        `typeIndicativeTokens: expected ${classes} labels for every token, got ${byLabel.length} for token ${token}`,
      );
    for (let y = 0; y < classes; y++) all[y]! += byLabel[y]!;
  }
  const limit = (1 - minGain) * entropyOf(all);
  return counts.map((byLabel) => sumOf(byLabel) >= minCount && entropyOf(byLabel) <= limit);
}

function sumOf(counts: ArrayLike<number>): number {
  return Array.from(counts).reduce((sum, count) => sum + count, 0);
}

/** Nats. */
function entropyOf(counts: ArrayLike<number>): number {
  const total = sumOf(counts);
  return Array.from(counts).reduce(
    (sum, count) => (count > 0 ? sum - (count / total) * Math.log(count / total) : sum),
    0,
  );
}
