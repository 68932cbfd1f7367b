import { mean, standardDeviation } from "../train/statistics.js";

/** A mean over repetitions with its 95 % interval by Student's t. */
export interface Estimate {
  mean: number;
  /** Half the width of the interval; null for a single value. */
  half: number | null;
  values: number[];
}

/** Mean ± t(.975, n − 1)·s/√n of independent values. */
export function estimate(values: readonly number[]): Estimate {
  const n = values.length;
  const half = n < 2 ? null : (studentQuantile(0.975, n - 1) * standardDeviation(values)) / Math.sqrt(n);
  return { mean: mean(values), half, values: [...values] };
}

/** Of the differences of paired values, as of two arms with the same seeds. */
export function pairedDifference(a: readonly number[], b: readonly number[]): Estimate {
  return estimate(a.map((value, i) => value - b[i]!));
}

/** The quantile p of Student's t with `df` (whole) degrees of freedom, by bisection, .5 < p < 1. */
export function studentQuantile(p: number, df: number): number {
  let [low, high] = [0, 1];
  while (centralProbability(high, df) < 2 * p - 1) high *= 2;
  for (let i = 0; i < 200 && low < high; i++) {
    const middle = (low + high) / 2;
    if (centralProbability(middle, df) < 2 * p - 1) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** P(|T| ≤ t), the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4. */
function centralProbability(t: number, df: number): number {
  const angle = Math.atan(t / Math.sqrt(df));
  const cosine = Math.cos(angle);
  const odd = df % 2 === 1;
  let term = odd ? cosine : 1;
  let sum = df === 1 ? 0 : term;
  for (let k = odd ? 3 : 2; k <= df - 2; k += 2) {
    term *= ((k - 1) / k) * cosine * cosine;
    sum += term;
  }
  return odd ? (2 / Math.PI) * (angle + Math.sin(angle) * sum) : Math.sin(angle) * sum;
}
