import { checkAscending, checkNumbers, checkStored } from "./checkStored.js";
import type { NgramCounts } from "./ngrams.js";
import { SparseBuilder, type SparseRows } from "./sparse.js";

/**
 * TF-IDF over hashed n-grams (scikit-learn's smoothed form): value = (1 + ln count) · (1 + ln((1 + N) / (1 + df))), each row then of
 * length 1. Buckets of fewer than `minDf` rows are left out.
 */
export class TfIdf {
  /** Bucket → column, -1 where it is left out. */
  private readonly columnOf: Int32Array;

  private constructor(
    readonly hashBuckets: number,
    /** (columns) ascending, and the weight of each. */
    readonly buckets: Int32Array,
    readonly idf: Float32Array,
  ) {
    this.columnOf = new Int32Array(hashBuckets).fill(-1);
    for (const [column, bucket] of buckets.entries()) this.columnOf[bucket] = column;
  }

  /** Knows no n-gram. */
  static readonly none = new TfIdf(0, new Int32Array(0), new Float32Array(0));

  static fit(rows: readonly NgramCounts[], hashBuckets: number, minDf: number): TfIdf {
    const df = new Int32Array(hashBuckets);
    for (const { buckets } of rows) for (const bucket of buckets) df[bucket]!++;
    const kept = Int32Array.from([...df.keys()].filter((bucket) => df[bucket]! >= minDf));
    const idf = Float32Array.from(kept, (bucket) => 1 + Math.log((1 + rows.length) / (1 + df[bucket]!)));
    return new TfIdf(hashBuckets, kept, idf);
  }

  /** @throws AegirError ERR_CHECKPOINT */
  static restore(hashBuckets: number, buckets: Int32Array, idf: Float32Array): TfIdf {
    checkAscending(buckets, hashBuckets, "buckets of n-grams");
    checkNumbers(idf, buckets.length, "weights of n-grams (idf)");
    checkStored(
      idf.every((weight) => weight >= 1),
      "weights of n-grams (idf) under 1",
    );
    return new TfIdf(hashBuckets, buckets, idf);
  }

  get columns(): number {
    return this.buckets.length;
  }

  /** Rows of length 1; zero where nothing is known. */
  transform(rows: readonly NgramCounts[]): SparseRows {
    const builder = new SparseBuilder(this.columns);
    for (const { buckets, counts } of rows) {
      const columns: number[] = [];
      const values: number[] = [];
      let squares = 0;
      for (const [k, bucket] of buckets.entries()) {
        const column = this.columnOf[bucket]!;
        if (column < 0) continue;
        const value = (1 + Math.log(counts[k]!)) * this.idf[column]!;
        columns.push(column);
        values.push(value);
        squares += value * value;
      }
      const length = Math.sqrt(squares);
      for (let k = 0; k < columns.length; k++) builder.push(columns[k]!, values[k]! / length);
      builder.endRow();
    }
    return builder.build();
  }
}
