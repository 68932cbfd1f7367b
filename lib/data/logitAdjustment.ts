/**
 * Logits of many rows, (rows, classes) row-major: their log-probabilities, and logit adjustment (Menon et al., arXiv:2007.07314), where
 * dividing probabilities by a power of the prior undoes the skew of the training labels.
 */
import { classificationReport } from "./metrics.js";

/** ln p of each row. */
export function logSoftmax(logits: Float32Array | Float64Array, classes: number): Float32Array {
  const out = new Float32Array(logits.length);
  for (let from = 0; from < logits.length; from += classes) {
    const row = Float64Array.from(logits.subarray(from, from + classes));
    const top = row.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
    const sum = row.reduce((total, value) => total + Math.exp(value - top), 0);
    for (const [k, value] of row.entries()) out[from + k] = value - top - Math.log(sum);
  }
  return out;
}

/** z − τ ln prior, row by row of (rows, classes). */
export function lessPrior<T extends Float32Array | Float64Array>(
  logits: T,
  logPrior: ArrayLike<number>,
  power: number,
): T {
  return logits.map((logit, i) => logit - power * logPrior[i % logPrior.length]!) as T;
}

/** The class of the largest of each row's values, the first among equals. */
export function largestOf(values: ArrayLike<number>, classes: number): Int32Array {
  return Int32Array.from({ length: values.length / classes }, (_, row) => {
    let best = 0;
    for (let k = 1; k < classes; k++)
      if (values[row * classes + k]! > values[row * classes + best]!) best = k;
    return best;
  });
}

/** The power of the prior that gives the best macro F1 on labelled rows, the first among equals. */
export function bestPriorPower(
  logits: Float32Array | Float64Array,
  logPrior: ArrayLike<number>,
  truth: ArrayLike<number>,
  powers: readonly number[],
): { power: number; macroF1: number } {
  const classes = logPrior.length;
  const names = Array.from({ length: classes }, (_, id) => String(id));
  return powers
    .map((power) => {
      const predicted = largestOf(lessPrior(logits, logPrior, power), classes);
      return { power, macroF1: classificationReport(truth, predicted, names).macroF1 };
    })
    .reduce((best, each) => (each.macroF1 > best.macroF1 ? each : best));
}
