import { Random } from "../data/random.js";
import { mean } from "../train/statistics.js";

export interface MutualInformation {
  /** Of the empirical joint distribution. */
  bits: number;
  /** The same with one side shuffled, mean over the shuffles: what the estimator says of independent variables. */
  shuffled: number;
  /** Entropy of each side: bits is at most the smaller. */
  entropyA: number;
  entropyB: number;
}

/** I(A;B) = Σ p(a,b)·log₂ p(a,b)/(p(a)·p(b)) of paired observations, with the bias of its estimator from shuffles. */
export function mutualInformation<A, B>(
  a: readonly A[],
  b: readonly B[],
  { shuffles = 50, seed = 0 }: { shuffles?: number; seed?: number } = {},
): MutualInformation {
  const random = new Random(seed, "mutual information");
  const order = [...b];
  const entropyA = entropy(a);
  const entropyB = entropy(b);
  const of = (other: readonly B[]) =>
    entropyA + entropyB - entropy(a.map((value, i) => pair(value, other[i]!)));
  const baseline = Array.from({ length: shuffles }, () => of(random.shuffle(order)));
  return { bits: of(b), shuffled: mean(baseline), entropyA, entropyB };
}

function pair(a: unknown, b: unknown): string {
  return JSON.stringify([a, b]);
}

/** Bits. */
function entropy(values: readonly unknown[]): number {
  const counts = new Map<unknown, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  let bits = 0;
  for (const count of counts.values()) bits -= (count / values.length) * Math.log2(count / values.length);
  return bits;
}
