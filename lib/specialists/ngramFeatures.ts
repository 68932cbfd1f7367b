import type { Column, ColumnRef, Table } from "../data/types.js";
import { AegirError } from "../errors.js";
import type { Extractor } from "./linearSpecialist.js";
import { countNgrams, type NgramCounts, type NgramOptions } from "./ngrams.js";
import { besides, type SparseRows, scaled } from "./sparse.js";
import { TfIdf } from "./tfidf.js";

export interface FeatureOptions extends NgramOptions {
  /** Rows that an n-gram must occur in. */
  minDf: number;
  /** The other columns of the table as a second block. */
  context: boolean;
  /** Length of a row's second block; the first has length 1. */
  contextWeight: number;
}

/** TF-IDF of the n-grams of a column and, as a block of its own, of the other columns of its table taken together. */
export class NgramFeatures implements Extractor {
  readonly kind = "ngram";
  private readonly counted = new WeakMap<Column, NgramCounts>();
  /** Of the table that was asked about last: a wide one is asked about part by part. */
  private latest: { table: Table; total: Map<number, number> } | null = null;

  constructor(
    readonly options: FeatureOptions,
    readonly own: TfIdf,
    readonly context: TfIdf | null,
  ) {}

  /** Learns which n-grams occur and how often. @throws AegirError ERR_CONFIG */
  static fit(
    refs: readonly ColumnRef[],
    options: FeatureOptions,
  ): { features: NgramFeatures; rows: SparseRows } {
    if (options.minN > options.maxN) {
      throw new AegirError(
        "ERR_CONFIG",
        `minN (--min-n): was ${options.minN}, above maxN (--max-n) ${options.maxN}: there are no such n-grams; give the shortest first`,
      );
    }
    const counter = new NgramFeatures(options, TfIdf.none, null);
    const own = counter.ownCounts(refs);
    const context = options.context ? counter.contextCounts(refs) : null;
    const { buckets, minDf } = options;
    const features = new NgramFeatures(
      options,
      TfIdf.fit(own, buckets, minDf),
      context && TfIdf.fit(context, buckets, minDf),
    );
    return { features, rows: features.rowsOf(own, context) };
  }

  tensors(): Record<string, Int32Array | Float32Array> {
    const { own, context } = this;
    const second = context && { "context.buckets": context.buckets, "context.idf": context.idf };
    return { "own.buckets": own.buckets, "own.idf": own.idf, ...second };
  }

  /** @param take a tensor of `tensors` by name */
  static restore(options: FeatureOptions, take: (name: string) => Int32Array | Float32Array): NgramFeatures {
    const block = (name: string) =>
      TfIdf.restore(
        options.buckets,
        take(`${name}.buckets`) as Int32Array,
        take(`${name}.idf`) as Float32Array,
      );
    return new NgramFeatures(options, block("own"), options.context ? block("context") : null);
  }

  get columns(): number {
    return this.own.columns + (this.context?.columns ?? 0);
  }

  transform(refs: readonly ColumnRef[]): SparseRows {
    return this.rowsOf(this.ownCounts(refs), this.context && this.contextCounts(refs));
  }

  private rowsOf(own: NgramCounts[], context: NgramCounts[] | null): SparseRows {
    const first = this.own.transform(own);
    if (!this.context) return first;
    return besides([first, scaled(this.context.transform(context!), this.options.contextWeight)]);
  }

  private ownCounts(refs: readonly ColumnRef[]): NgramCounts[] {
    return refs.map(({ table, column }) => this.countsOf(table.columns[column]!));
  }

  /** Of a table's columns together, less the target's own: a table is added up once, however many of its columns are targets. */
  private contextCounts(refs: readonly ColumnRef[]): NgramCounts[] {
    const totals = new Map<Table, Map<number, number>>();
    if (this.latest) totals.set(this.latest.table, this.latest.total);
    return refs.map(({ table, column }) => {
      const total = totals.get(table) ?? this.totalOf(table);
      totals.set(table, total);
      this.latest = { table, total };
      return without(total, this.countsOf(table.columns[column]!));
    });
  }

  private totalOf(table: Table): Map<number, number> {
    const total = new Map<number, number>();
    for (const column of table.columns) {
      const { buckets, counts } = this.countsOf(column);
      for (let k = 0; k < buckets.length; k++)
        total.set(buckets[k]!, (total.get(buckets[k]!) ?? 0) + counts[k]!);
    }
    return new Map([...total].sort(([a], [b]) => a - b));
  }

  private countsOf(column: Column): NgramCounts {
    let counts = this.counted.get(column);
    if (!counts) {
      counts = countNgrams(column.cells, this.options);
      this.counted.set(column, counts);
    }
    return counts;
  }
}

/** @param total by ascending bucket */
function without(total: ReadonlyMap<number, number>, part: NgramCounts): NgramCounts {
  const buckets = new Int32Array(total.size);
  const counts = new Int32Array(total.size);
  let length = 0;
  let k = 0;
  for (const [bucket, count] of total) {
    const own = part.buckets[k] === bucket ? part.counts[k++]! : 0;
    if (count === own) continue;
    buckets[length] = bucket;
    counts[length++] = count - own;
  }
  return { buckets: buckets.slice(0, length), counts: counts.slice(0, length) };
}
