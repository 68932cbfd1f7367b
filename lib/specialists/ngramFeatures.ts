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
  /** The column's header as a block of length 1; absent in what older versions stored: not read. */
  headers?: boolean;
  /** Dimensions of the latent space whose block follows, of length 1; 0, and absent in what older versions stored: none. */
  latent?: number;
}

/** Of a column, of the other columns of its table taken together, and of the column's header: vocabularies of their own; null: not read. */
interface Blocks<Of> {
  own: Of;
  context: Of | null;
  header: Of | null;
}

/**
 * TF-IDF of the n-grams of a column and, as blocks of their own where they are wanted, of the other columns of its table and of its header; then
 * where these stand in a latent space.
 */
export class NgramFeatures implements Extractor {
  readonly kind = "ngram";
  private readonly counted = new WeakMap<Column, NgramCounts>();
  /** Of the table that was asked about last: a wide one is asked about part by part. */
  private latest: { table: Table; total: Map<number, number> } | null = null;

  constructor(
    readonly options: FeatureOptions,
    private readonly blocks: Blocks<TfIdf>,
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
    const { buckets, minDf, latent: dimensions } = options;
    const counts = new NgramFeatures(options, { own: TfIdf.none, context: null, header: null }).countsOfAll(
      refs,
    );
    const learn = (of: NgramCounts[]) => TfIdf.fit(of, buckets, minDf);
    const { own, context, header } = counts;
    const blocks = { own: learn(own), context: context && learn(context), header: header && learn(header) };
    const features = new NgramFeatures(options, blocks);
    const rows = features.rowsOf(counts);
    if (!dimensions) return { features, rows };
    const latent = await LatentSpace.fit(rows, dimensions, signal);
    return {
      features: new NgramFeatures(options, blocks, latent),
      rows: besides([rows, latent.transform(rows)]),
    };
  }

  tensors(): Record<string, Int32Array | Float32Array> {
    const tensors: Record<string, Int32Array | Float32Array> = {};
    for (const [name, block] of Object.entries(this.blocks)) {
      if (!block) continue;
      tensors[`${name}.buckets`] = block.buckets;
      tensors[`${name}.idf`] = block.idf;
    }
    if (this.latent) tensors["latent.basis"] = this.latent.basis;
    return tensors;
  }

  /** @param take a tensor of `tensors` by name */
  static restore(options: FeatureOptions, take: (name: string) => Int32Array | Float32Array): NgramFeatures {
    const block = (name: keyof Blocks<TfIdf>) =>
      TfIdf.restore(
        options.buckets,
        take(`${name}.buckets`) as Int32Array,
        take(`${name}.idf`) as Float32Array,
      );
    const blocks = {
      own: block("own"),
      context: options.context ? block("context") : null,
      header: options.headers ? block("header") : null,
    };
    const plain = new NgramFeatures(options, blocks);
    if (!options.latent) return plain;
    const basis = take("latent.basis") as Float32Array;
    return new NgramFeatures(options, blocks, LatentSpace.restore(plain.columns, options.latent, basis));
  }

  get columns(): number {
    const { own, context, header } = this.blocks;
    return own.columns + (context?.columns ?? 0) + (header?.columns ?? 0) + (this.latent?.dimensions ?? 0);
  }

  transform(refs: readonly ColumnRef[]): SparseRows {
    return this.rowsOf(this.countsOfAll(refs));
  }

  private rowsOf(counts: Blocks<NgramCounts[]>): SparseRows {
    const { own, context, header } = this.blocks;
    const written = besides([
      own.transform(counts.own),
      ...(context ? [scaled(context.transform(counts.context!), this.options.contextWeight)] : []),
      ...(header ? [header.transform(counts.header!)] : []),
    ]);
    return this.latent ? besides([written, this.latent.transform(written)]) : written;
  }

  private countsOfAll(refs: readonly ColumnRef[]): Blocks<NgramCounts[]> {
    const { options } = this;
    const columns = columnsOf(refs);
    return {
      own: columns.map((column) => this.countsOf(column)),
      context: options.context ? this.contextCounts(refs) : null,
      header: options.headers ? columns.map(({ header }) => countNgrams([header ?? ""], options)) : null,
    };
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

function columnsOf(refs: readonly ColumnRef[]): Column[] {
  return refs.map(({ table, column }) => table.columns[column]!);
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
