/** The documented hash of the last n ids of `read`, in whole numbers; -1 where fewer have been read. */
function ngramBucket(read: number[], n: number, buckets: number, salted = n): number {
  if (read.length < n) return -1;
  const word = (x: bigint) => BigInt.asUintN(64, x);
  const base = 0x9e3779b97f4a7c15n;
  let hash = word(BigInt(salted) * base);
  for (let i = 0; i < n; i++) hash = word(hash + BigInt(read.at(-1 - i)! + 1) * base ** BigInt(i));
  hash = word((hash ^ (hash >> 33n)) * 0xff51afd7ed558ccdn);
  hash = word((hash ^ (hash >> 33n)) * 0xc4ceb9fe1a85ec53n);
  return Number((hash ^ (hash >> 33n)) % BigInt(buckets));
}

export interface NgramForm {
  sizes: readonly number[];
  buckets: number;
  lowercase?: boolean;
  shapes?: boolean;
}

/** The buckets of the n-grams of ids that end here, behind them of what they look like. */
export function ngramBucketsOf(
  read: number[],
  { sizes, buckets, lowercase = false, shapes = false }: NgramForm,
): number[] {
  const letters = lowercase ? read.map((id) => (id >= 65 && id <= 90 ? id + 32 : id)) : read;
  const ofIds = sizes.map((n) => ngramBucket(letters, n, buckets));
  if (!shapes) return ofIds;
  const looks = read.map(shapeOf);
  return [...ofIds, ...sizes.map((n) => ngramBucket(looks, n, buckets, n + 32))];
}

function shapeOf(id: number): number {
  if (id > 255) return id;
  if (id > 127) return 128;
  const written = String.fromCharCode(id);
  return written.replace(/[0-9]/, "9").replace(/[A-Z]/, "A").replace(/[a-z]/, "a").charCodeAt(0);
}
