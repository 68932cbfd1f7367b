/** The documented hash of the last n ids of `read`, in whole numbers; -1 where fewer have been read. */
export function ngramBucket(read: number[], n: number, buckets: number): number {
  if (read.length < n) return -1;
  const word = (x: bigint) => BigInt.asUintN(64, x);
  const base = 0x9e3779b97f4a7c15n;
  let hash = word(BigInt(n) * base);
  for (let i = 0; i < n; i++) hash = word(hash + BigInt(read.at(-1 - i)! + 1) * base ** BigInt(i));
  hash = word((hash ^ (hash >> 33n)) * 0xff51afd7ed558ccdn);
  hash = word((hash ^ (hash >> 33n)) * 0xc4ceb9fe1a85ec53n);
  return Number((hash ^ (hash >> 33n)) % BigInt(buckets));
}
