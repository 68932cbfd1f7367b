import type { Serialiser } from "../data/serialise.js";
import type { Table, Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import { encodeTargets } from "./examples.js";
import { type LogitsOf, type PredictOptions, predict } from "./predict.js";

/** What a model says of one column (CTA), or of a subject column and one column (CPA). */
export interface ColumnAnnotation {
  table: string;
  column: number;
  /** CPA: the subject column. */
  mainColumn?: number;
  header: string | null;
  type: string;
  /** Probability of `type`, in (0, 1]. */
  confidence: number;
  /** The second most probable type; null where the model knows one only. */
  runnerUp: string | null;
  runnerUpConfidence: number;
}

export interface Annotator {
  task: Task;
  labels: readonly string[];
  serialiser: Serialiser;
  logitsOf: LogitsOf;
}

export interface AnnotateOptions extends PredictOptions {
  /** Columns to annotate; absent: all (CPA: all but the subject column). */
  columns?: number[];
  /** CPA: the subject column, default 0. */
  mainColumn?: number;
  /** Refuse wider tables, which are hardly ever tables; default 2000. */
  maxColumns?: number;
}

/**
 * Annotates the columns of one table.
 * @throws AegirError ERR_DATA for a table without columns or cells, or with more than `maxColumns` columns
 */
export async function annotateTable(
  annotator: Annotator,
  table: Table,
  { columns, mainColumn = 0, maxColumns = 2000, ...options }: AnnotateOptions = {},
): Promise<ColumnAnnotation[]> {
  checkTable(table, maxColumns);
  const { task, labels, serialiser, logitsOf } = annotator;
  const subject = task === "cpa" ? { mainColumn } : {};
  const chosen =
    columns ?? [...table.columns.keys()].filter((column) => task === "cta" || column !== mainColumn);
  const examples = await encodeTargets(
    serialiser,
    chosen.map((column) => ({ table, column, ...subject })),
  );
  const predictions = await predict(logitsOf, examples, labels.length, { task: table.name, ...options });
  return predictions.map(({ label, confidence, runnerUp, runnerUpConfidence }, i) => ({
    table: table.name,
    column: chosen[i]!,
    ...subject,
    header: table.columns[chosen[i]!]!.header,
    type: labels[label]!,
    confidence,
    runnerUp: runnerUp === label ? null : labels[runnerUp]!,
    runnerUpConfidence: runnerUp === label ? 0 : runnerUpConfidence,
  }));
}

function checkTable({ name, columns }: Table, maxColumns: number): void {
  if (columns.length === 0 || columns.every((column) => column.cells.every((cell) => cell.trim() === ""))) {
    throw new AegirError("ERR_DATA", `${name}: the table is empty: no column has a value`);
  }
  if (columns.length > maxColumns) {
    throw new AegirError(
      "ERR_DATA",
      `${name}: ${columns.length} columns, more than the limit of ${maxColumns}; is it a table? Raise maxColumns (--max-columns) if so`,
    );
  }
}
