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

/** One column (pair) as bytes: all arrays have the same length T. */
export interface EncodedExample {
  ids: Int32Array;
  roles: Int32Array;
  /** 1 where the annotation head averages. */
  pool: Uint8Array;
  /** Class id, -1 where unknown. */
  label: number;
  /** What was encoded, for specialists that read columns and not tokens. */
  source?: ColumnRef;
}

/** Right-padded rows of similar length. */
export interface Batch {
  size: number;
  tokens: number;
  /** (size * tokens) row-major. */
  ids: Int32Array;
  roles: Int32Array;
  pool: Uint8Array;
  /** (size) valid tokens per row. */
  lengths: Int32Array;
  /** (size) class ids. */
  labels: Int32Array;
  /** (size) indices of the examples in the list that was batched. */
  rows: Int32Array;
  /** (size) where every example says what was encoded. */
  sources?: ColumnRef[];
}
