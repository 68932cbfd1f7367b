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
