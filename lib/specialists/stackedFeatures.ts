import type { ColumnRef, Table } from "../data/types.js";
import type { FormatFeatures } from "./formatFeatures.js";
import type { Extractor, LinearSpecialist } from "./linearSpecialist.js";
import type { NgramFeatures } from "./ngramFeatures.js";
import { ReaderPairs, type Said } from "./readerPairs.js";
import { besides, SparseBuilder, type SparseRows, scaled } from "./sparse.js";

/** A classifier of columns whose answers are features of another. */
export interface Reader {
  labels: readonly string[];
  /** The model that may read a column: in training one that saw no table of its site. */
  of(ref: ColumnRef): LinearSpecialist;
}

export interface StackedParts {
  ngrams: NgramFeatures;
  /** Null: how a column is written is no feature. */
  formats: FormatFeatures | null;
  readers: readonly Reader[];
  /** Null: what readers say of the column and of the others together is no feature. */
  pairs: ReaderPairs | null;
  /** Length of what a reader says, and of the column's place, the column's own n-grams having length 1. */
  readerLength: number;
  /** The column's place and the number of columns are features. */
  places: boolean;
}

/** Places, and numbers of columns, that are told apart. */
const PLACES = 12;
/** Of two values in a block of length 1. */
const PLACE_LENGTH = Math.SQRT1_2;
/** Length of the pairs of one reader with another, near enough: the least of them are left out. */
const PAIR_LENGTH = Math.SQRT1_2;

/**
 * n-grams; formats; of every reader two blocks, the square roots of its probabilities of the column, and of the other columns of the table on
 * average; pairs of these; and the column's place in its table with the number of columns there.
 */
export class StackedFeatures implements Extractor {
  readonly kind = "stacked";
  private readonly read: readonly WeakMap<Table, TableSaid>[];

  constructor(
    readonly parts: StackedParts,
    readonly options: object = {},
    private readonly stored: () => Record<string, Int32Array | Float32Array> = () => ({}),
  ) {
    this.read = parts.readers.map(() => new WeakMap());
  }

  /** Learns which pairs occur, where they are wanted, and reads the training columns. */
  static fit(
    refs: readonly ColumnRef[],
    { withPairs, ...parts }: Omit<StackedParts, "pairs"> & { withPairs: boolean },
  ): { features: StackedFeatures; rows: SparseRows } {
    const plain = new StackedFeatures({ ...parts, pairs: null });
    const said = plain.saidOf(refs);
    const pairs = withPairs && said.length > 0 ? ReaderPairs.fit(said) : null;
    return { features: new StackedFeatures({ ...parts, pairs }), rows: plain.rowsOf(refs, said, pairs) };
  }

  get columns(): number {
    const { ngrams, formats, readers, pairs, places } = this.parts;
    const read = readers.reduce((sum, { labels }) => sum + 2 * labels.length, 0);
    const paired = pairs?.kept.length ?? 0;
    return ngrams.columns + (formats?.columns ?? 0) + read + paired + (places ? 2 * PLACES : 0);
  }

  tensors(): Record<string, Int32Array | Float32Array> {
    return this.stored();
  }

  transform(refs: readonly ColumnRef[]): SparseRows {
    return this.rowsOf(refs, this.saidOf(refs), this.parts.pairs);
  }

  /** By reader. */
  private saidOf(refs: readonly ColumnRef[]): Said[] {
    return this.parts.readers.map((reader, i) => saidBy(reader, refs, this.read[i]!));
  }

  private rowsOf(refs: readonly ColumnRef[], said: readonly Said[], pairs: ReaderPairs | null): SparseRows {
    const { ngrams, formats, readers, readerLength, places } = this.parts;
    return besides([
      ngrams.transform(refs),
      ...(formats ? [formats.transform(refs)] : []),
      ...[
        ...said.flatMap(({ own, others }, i) =>
          [own, others].map((rows) => denseRows(rows, readers[i]!.labels.length)),
        ),
        ...(places ? [placeBlock(refs)] : []),
      ].map((block) => scaled(block, readerLength)),
      ...(pairs ? [scaled(pairs.transform(said), PAIR_LENGTH)] : []),
    ]);
  }
}

/** What a reader says of a table: of every column the roots of its probabilities, and their sum. */
interface TableSaid {
  roots: Float64Array[];
  sum: Float64Array;
}

/** @param read what the reader said of tables before: a wide one is asked about part by part */
function saidBy(reader: Reader, refs: readonly ColumnRef[], read: WeakMap<Table, TableSaid>): Said {
  const own: Float64Array[] = [];
  const others: Float64Array[] = [];
  for (const { table, column } of refs) {
    const said = read.get(table) ?? tableSaid(reader, table);
    read.set(table, said);
    const roots = said.roots[column]!;
    own.push(unit(roots));
    // Of a table's only column nothing is left, of others no more than rounding below 0.
    const alone = said.roots.length === 1;
    others.push(unit(said.sum.map((value, k) => (alone ? 0 : Math.max(0, value - roots[k]!)))));
  }
  return { own, others };
}

function tableSaid(reader: Reader, table: Table): TableSaid {
  const refs = table.columns.map((_, column) => ({ table, column }));
  const width = reader.labels.length;
  const said = refs.length > 0 ? reader.of(refs[0]!).logProbabilitiesOf(refs) : new Float32Array(0);
  const sum = new Float64Array(width);
  const roots = refs.map((_, i) =>
    Float64Array.from(said.subarray(i * width, (i + 1) * width), (logp, k) => {
      const root = Math.exp(logp / 2);
      sum[k]! += root;
      return root;
    }),
  );
  return { roots, sum };
}

function placeBlock(refs: readonly ColumnRef[]): SparseRows {
  const block = new SparseBuilder(2 * PLACES);
  for (const { table, column } of refs) {
    block.push(Math.min(PLACES - 1, column), PLACE_LENGTH);
    block.push(PLACES + Math.min(PLACES, table.columns.length) - 1, PLACE_LENGTH);
    block.endRow();
  }
  return block.build();
}

function denseRows(rows: readonly Float64Array[], width: number): SparseRows {
  const block = new SparseBuilder(width);
  for (const row of rows) {
    for (const [k, value] of row.entries()) block.push(k, value);
    block.endRow();
  }
  return block.build();
}

function unit(values: Float64Array): Float64Array {
  const length = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0)) || 1;
  return values.map((value) => value / length);
}
