import type { Column, ColumnRef, Table } from "../data/types.js";
import { AegirError } from "../errors.js";
import { LatentSpace } from "./latentSpace.js";
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
  /** Dimensions of the latent space whose block follows, of length 1; 0, and absent in what older versions stored: none. */
  latent?: number;
}

/**
 * TF-IDF of the n-grams of a column and, as a block of its own, of the other columns of its table taken together; then, where it is wanted, where
 * these stand in a latent space.
 */
export class NgramFeatures implements Extractor {
  readonly kind = "ngram";
  private readonly counted = new WeakMap<Column, NgramCounts>();
  /** Of the table that was asked about last: a wide one is asked about part by part. */
  private latest: { table: Table; total: Map<number, number> } | null = null;

  constructor(
    readonly options: FeatureOptions,
    readonly own: TfIdf,
    readonly context: TfIdf | null,
    private readonly latent: LatentSpace | null = null,
  ) {}

  /** Learns which n-grams occur and how often, and which occur together. @throws AegirError ERR_CONFIG, ERR_ABORTED */
  static async fit(
    refs: readonly ColumnRef[],
    options: FeatureOptions,
    signal?: AbortSignal,
  ): Promise<{ features: NgramFeatures; rows: SparseRows }> {
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
    const blocks = [TfIdf.fit(own, buckets, minDf), context && TfIdf.fit(context, buckets, minDf)] as const;
    const features = new NgramFeatures(options, ...blocks);
    const rows = features.rowsOf(own, context);
    if (!options.latent) return { features, rows };
    const latent = await LatentSpace.fit(rows, options.latent, signal);
    return {
      features: new NgramFeatures(options, ...blocks, latent),
      rows: besides([rows, latent.transform(rows)]),
    };
  }

  tensors(): Record<string, Int32Array | Float32Array> {
    const { own, context, latent } = this;
    const second = context && { "context.buckets": context.buckets, "context.idf": context.idf };
    const third = latent && { "latent.basis": latent.basis };
    return { "own.buckets": own.buckets, "own.idf": own.idf, ...second, ...third };
  }

  /** @param take a tensor of `tensors` by name */
  static restore(options: FeatureOptions, take: (name: string) => Int32Array | Float32Array): NgramFeatures {
    const block = (name: string) =>
      TfIdf.restore(
        options.buckets,
        take(`${name}.buckets`) as Int32Array,
        take(`${name}.idf`) as Float32Array,
      );
    const plain = new NgramFeatures(options, block("own"), options.context ? block("context") : null);
    if (!options.latent) return plain;
    const basis = take("latent.basis") as Float32Array;
    return new NgramFeatures(
      options,
      plain.own,
      plain.context,
      LatentSpace.restore(plain.columns, options.latent, basis),
    );
  }

  get columns(): number {
    return this.own.columns + (this.context?.columns ?? 0) + (this.latent?.dimensions ?? 0);
  }

  transform(refs: readonly ColumnRef[]): SparseRows {
    return this.rowsOf(this.ownCounts(refs), this.context && this.contextCounts(refs));
  }

  private rowsOf(own: NgramCounts[], context: NgramCounts[] | null): SparseRows {
    const first = this.own.transform(own);
    const { contextWeight } = this.options;
    const both = this.context
      ? besides([first, scaled(this.context.transform(context!), contextWeight)])
      : first;
    return this.latent ? besides([both, this.latent.transform(both)]) : both;
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
