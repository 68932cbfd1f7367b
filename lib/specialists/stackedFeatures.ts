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
  /** Words of the column and pairs of neighbours. Null: they are no features. */
  words: NgramFeatures | null;
  /** n-grams of the cells' shapes. Null: they are no features. */
  shapes: NgramFeatures | null;
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
/** Length of a row's n-grams of shapes. */
const SHAPE_LENGTH = 0.5;
/** Of probabilities: large ones count more than by their roots, and small ones still count. */
const SAID_POWER = 0.75;
/** Length of the pairs of one reader with another, near enough: the least of them are left out. */
const PAIR_LENGTH = Math.SQRT1_2;

/**
 * n-grams of characters, of words and of shapes; formats; of every reader two blocks, what it says of the column, and the most that it says of any other
 * column of the table, label by label; pairs of these; and the column's place in its table with the number of columns there.
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
    const { ngrams, words, shapes, formats, readers, pairs, places } = this.parts;
    const written = [ngrams, words, shapes, formats].reduce((sum, part) => sum + (part?.columns ?? 0), 0);
    const read = readers.reduce((sum, { labels }) => sum + 2 * labels.length, 0);
    return written + read + (pairs?.kept.length ?? 0) + (places ? 2 * PLACES : 0);
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
    const { ngrams, words, shapes, formats, readers, readerLength, places } = this.parts;
    return besides([
      ngrams.transform(refs),
      ...(words ? [words.transform(refs)] : []),
      ...(shapes ? [scaled(shapes.transform(refs), SHAPE_LENGTH)] : []),
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

/** What a reader says of a table, label by label. */
interface TableSaid {
  /** Of every column: a unit vector. */
  own: Float64Array[];
  /** The largest of all columns, which of them has it, and the largest of the others. */
  largest: Float64Array;
  holder: Int32Array;
  second: Float64Array;
}

/** @param read what the reader said of tables before: a wide one is asked about part by part */
function saidBy(reader: Reader, refs: readonly ColumnRef[], read: WeakMap<Table, TableSaid>): Said {
  const own: Float64Array[] = [];
  const others: Float64Array[] = [];
  for (const { table, column } of refs) {
    const said = read.get(table) ?? tableSaid(reader, table);
    read.set(table, said);
    const { largest, holder, second } = said;
    own.push(said.own[column]!);
    others.push(unit(largest.map((value, k) => (holder[k] === column ? second[k]! : value))));
  }
  return { own, others };
}

function tableSaid(reader: Reader, table: Table): TableSaid {
  const refs = table.columns.map((_, column) => ({ table, column }));
  const width = reader.labels.length;
  const logps = refs.length > 0 ? reader.of(refs[0]!).logProbabilitiesOf(refs) : new Float32Array(0);
  const own = refs.map((_, i) =>
    unit(
      Float64Array.from(logps.subarray(i * width, (i + 1) * width), (logp) => Math.exp(SAID_POWER * logp)),
    ),
  );
  const [largest, holder, second] = [
    new Float64Array(width),
    new Int32Array(width).fill(-1),
    new Float64Array(width),
  ];
  for (const [column, values] of own.entries()) {
    for (const [k, value] of values.entries()) {
      if (value > largest[k]!) {
        second[k] = largest[k]!;
        largest[k] = value;
        holder[k] = column;
      } else if (value > second[k]!) second[k] = value;
    }
  }
  return { own, largest, holder, second };
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
