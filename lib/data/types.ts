/** The types that readers, the generator, the serialiser and the trainers share. */

export type Task = "cta" | "cpa";
export type Split = "train" | "validation" | "test";

export interface Column {
  /** Header text, null where the table has none. */
  header: string | null;
  /** Cell texts from top to bottom; "" is a missing value. */
  cells: string[];
}

export interface Table {
  /** File name or generated name, unique in its data set. */
  name: string;
  columns: Column[];
  /** What cells are drawn by beside the seed, in every column alike; default: the table's name and the column's place. */
  drawnBy?: string;
}

/** One labelled column (CTA) or one labelled column pair (CPA: mainColumn is the subject). */
export interface LabelledColumn {
  table: string;
  column: number;
  /** Subject column, CPA only. */
  mainColumn?: number;
  label: string;
  /** Other labels that the ground truth accepts; scoring is by `label` alone. */
  alternatives?: string[];
  /** Generated data: the domain of the label; real data: absent. */
  domain?: string;
}

export interface Dataset {
  name: string;
  task: Task;
  /** Every label, sorted; index = class id. */
  labels: string[];
  tables: Map<string, Table>;
  splits: Record<Split, LabelledColumn[]>;
  /** What a reader found odd and left, or mended. */
  warnings?: string[];
}

/** A column in its table; with `mainColumn`, a CPA pair. */
export interface ColumnRef {
  table: Table;
  column: number;
  mainColumn?: number;
}

/** A token sequence: all arrays have the same length T. */
export interface EncodedSequence {
  ids: Int32Array;
  roles: Int32Array;
  /** 1 where the annotation head averages. */
  pool: Uint8Array;
}

/** A column that is a sequence of its own. Columns that share their `ids` array are one column, encoded once a batch. */
export interface EncodedColumn extends EncodedSequence {
  /** Its place in the table. */
  position: number;
}

/** One column (pair) as bytes, its context in the same sequence; or, column-wise, the target column alone. */
export interface EncodedExample extends EncodedSequence {
  /** Column-wise: the place of the target column, and the other columns of its table that the head attends to. */
  position?: number;
  context?: EncodedColumn[];
  /** Class id, -1 where unknown. */
  label: number;
  /** What was encoded, for specialists that read columns and not tokens. */
  source?: ColumnRef;
}

/** Right-padded rows of similar length; or, column-wise, columns packed one after another. */
export interface Batch {
  /** Rows: columns to label. */
  size: number;
  /** Tokens of a row; column-wise: of all columns. */
  tokens: number;
  /** (size * tokens) row-major; column-wise: (tokens). */
  ids: Int32Array;
  roles: Int32Array;
  pool: Uint8Array;
  /** (size) valid tokens per row; column-wise: of its target column. */
  lengths: Int32Array;
  columns?: BatchColumns;
  /** (size) class ids. */
  labels: Int32Array;
  /** (size) indices of the examples in the list that was batched. */
  rows: Int32Array;
  /** (size) where every example says what was encoded. */
  sources?: ColumnRef[];
}

/** The S columns of a column-wise batch, each encoded once: those of row r are `targets[r]` and row r of `context`. */
export interface BatchColumns {
  /** (S+1) where each column starts in the packed tokens, and where the last ends. */
  cuSeqlens: Int32Array;
  /** (size) */
  targets: Int32Array;
  /** (size * width) row-major, -1 where a target has fewer. */
  context: Int32Array;
  /** Context columns of a target at most. */
  width: number;
  /** (S) place of each column in its table. */
  positions: Int32Array;
}
