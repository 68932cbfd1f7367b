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

  constructor(
    readonly parts: StackedParts,
    readonly options: object = {},
    private readonly stored: () => Record<string, Int32Array | Float32Array> = () => ({}),
  ) {}

  /** Learns which pairs occur, where they are wanted, and reads the training columns. */
  static fit(
    refs: readonly ColumnRef[],
    { withPairs, ...parts }: Omit<StackedParts, "pairs"> & { withPairs: boolean },
  ): { features: StackedFeatures; rows: SparseRows } {
    const said = parts.readers.map((reader) => saidBy(reader, refs));
    const features = new StackedFeatures({
      ...parts,
      pairs: withPairs && said.length > 0 ? ReaderPairs.fit(said) : null,
    });
    return { features, rows: features.rowsOf(refs, said) };
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
    return this.rowsOf(
      refs,
      this.parts.readers.map((reader) => saidBy(reader, refs)),
    );
  }

  private rowsOf(refs: readonly ColumnRef[], said: readonly Said[]): SparseRows {
    const { ngrams, formats, readers, pairs, readerLength, places } = this.parts;
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

function saidBy(reader: Reader, refs: readonly ColumnRef[]): Said {
  const width = reader.labels.length;
  const read = new Map<Table, Float64Array[]>();
  const own: Float64Array[] = [];
  const others: Float64Array[] = [];
  for (const { table, column } of refs) {
    const said = read.get(table) ?? rootsOf(reader, table);
    read.set(table, said);
    own.push(unit(said[column]!));
    others.push(
      unit(
        meanOf(
          said.filter((_, other) => other !== column),
          width,
        ),
      ),
    );
  }
  return { own, others };
}

/** Square roots of the probabilities of every column of a table. */
function rootsOf(reader: Reader, table: Table): Float64Array[] {
  const refs = table.columns.map((_, column) => ({ table, column }));
  const width = reader.labels.length;
  const said = refs.length > 0 ? reader.of(refs[0]!).logProbabilitiesOf(refs) : new Float32Array(0);
  return refs.map((_, i) =>
    Float64Array.from(said.subarray(i * width, (i + 1) * width), (logp) => Math.exp(logp / 2)),
  );
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

function meanOf(rows: readonly Float64Array[], width: number): Float64Array {
  const mean = new Float64Array(width);
  for (const row of rows) for (let k = 0; k < width; k++) mean[k]! += row[k]! / rows.length;
  return mean;
}
