/** Plain statistics of number lists. */

export function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]!;
  return values.length === 0 ? 0 : sum / values.length;
}

/** Sample standard deviation; 0 for fewer than two values. */
export function standardDeviation(values: ArrayLike<number>): number {
  const centre = mean(values);
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += (values[i]! - centre) ** 2;
  return values.length < 2 ? 0 : Math.sqrt(sum / (values.length - 1));
}

export function norm(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]! ** 2;
  return Math.sqrt(sum);
}

/** Cosine of two directions; 0 where one of them has no length. */
export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let dot = 0;
  for (let i = 0; i < a.length; i++) dot += a[i]! * b[i]!;
  const lengths = norm(a) * norm(b);
  return lengths === 0 ? 0 : dot / lengths;
}

/** Rank correlation with mean ranks for ties; 0 where one list is constant. */
export function spearman(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const [x, y] = [ranks(a), ranks(b)];
  const [mx, my] = [mean(x), mean(y)];
  return cosine(
    x.map((v) => v - mx),
    y.map((v) => v - my),
  );
}

function ranks(values: ArrayLike<number>): Float64Array {
  const order = Array.from({ length: values.length }, (_, i) => i).sort((i, j) => values[i]! - values[j]!);
  const out = new Float64Array(values.length);
  for (let from = 0; from < order.length; ) {
    let to = from;
    while (to < order.length && values[order[to]!] === values[order[from]!]) to++;
    for (let k = from; k < to; k++) out[order[k]!] = (from + to - 1) / 2;
    from = to;
  }
  return out;
}
