import path from "node:path";
import { isBlank } from "../data/cells.js";
import { type CsvOptions, readCsv } from "../data/csv.js";
import { checkIsTable } from "../data/isTable.js";
import type { Serialiser } from "../data/serialise.js";
import type { EncodedExample, Table, Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import { encodeTargets } from "./examples.js";
import { allLogits, type LogitsOf, type Prediction, type PredictOptions, predictionsOf } from "./predict.js";
import { Meter } from "./progress.js";

/** What a model says of one column (CTA), or of a subject column and one column (CPA). */
export interface ColumnAnnotation {
  table: string;
  column: number;
  /** CPA: the subject column. */
  mainColumn?: number;
  header: string | null;
  /** Null where the model abstained. */
  type: string | null;
  /** The most probable type, which `type` is unless the model abstained. */
  mostProbable: string;
  /** Probability of the most probable type, in (0, 1]. */
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
  /** Batches that `logitsOf` may have under way at a time; default 1. */
  concurrency?: number;
  /** The label that stands for none of the others: it is no type, and confidence in it is confidence in no type. Default: none. */
  none?: string | null;
  /** What `abstainBelow` is where it is not given; default 0. */
  abstainBelow?: number;
}

interface TableOptions {
  /** CPA: the subject column, default 0. */
  mainColumn?: number;
  /** Refuse wider tables, which are hardly ever tables; default 2000. */
  maxColumns?: number;
  /** Confidence below which the type is null; `readAbstention` knows a calibrated run's. Default: the annotator's, else 0. */
  abstainBelow?: number;
}

export interface AnnotateOptions extends PredictOptions, TableOptions {
  /** Columns to annotate; absent: all (CPA: all but the subject column). */
  columns?: number[];
}

/**
 * Annotates the columns of one table.
 * @throws AegirError ERR_ARGUMENT for what is no `Table`; ERR_DATA for one without columns or cells, or with more than `maxColumns` columns
 */
export async function annotateTable(
  annotator: Annotator,
  table: Table,
  {
    columns,
    mainColumn,
    maxColumns,
    abstainBelow = annotator.abstainBelow,
    ...options
  }: AnnotateOptions = {},
): Promise<ColumnAnnotation[]> {
  checkIsTable(table);
  const targets = await encodeTable(annotator, table, table.name, { columns, mainColumn, maxColumns });
  const { labels } = annotator;
  const predictions = await predictionsFor(annotator, targets, { task: table.name, ...options });
  return targets.map((target, i) => annotation(target, predictions[i]!, labels, abstainBelow));
}

export interface AnnotateFilesOptions extends Omit<PredictOptions, "task">, TableOptions {
  csv?: CsvOptions;
}

/** What became of one file: its columns' annotations, or the error that says why there are none. */
export interface FileAnnotations {
  /** As given. */
  file: string;
  columns: ColumnAnnotation[];
  error: AegirError | null;
  /** What the reader had to mend. */
  warnings: string[];
}

/** Columns that are batched together, of as many tables as have them. */
const WINDOW = 512;

/**
 * Annotates the columns of CSV files, in the files' order. Columns of several tables share batches, and files are read while the model
 * works. Results name a table by its file's name, or by the path as given where two files have the same name. A file that cannot be
 * read or annotated gets its `error` (ERR_DATA), and the others go on.
 * @throws AegirError ERR_ABORTED; ERR_CONFIG naming an option
 */
export async function annotateFiles(
  annotator: Annotator,
  files: readonly string[],
  {
    csv,
    mainColumn,
    maxColumns,
    abstainBelow = annotator.abstainBelow,
    onProgress,
    ...options
  }: AnnotateFilesOptions = {},
): Promise<FileAnnotations[]> {
  const results = files.map((file): FileAnnotations => ({ file, columns: [], error: null, warnings: [] }));
  const names = tableNames(files);
  const { labels } = annotator;
  const settings: PredictOptions = { task: "annotate", ...options };
  // Of a single file columns are counted, else files.
  if (files.length === 1) settings.onProgress = onProgress;
  const meter = new Meter("annotate", files.length, files.length > 1 ? onProgress : undefined);

  let open: Target[] = [];
  let underway: Promise<unknown> = Promise.resolve();
  /** Hands the open window to the model once it is done with the last one. */
  const turnWindow = async (filesRead: number) => {
    const window = open;
    open = [];
    await underway;
    underway = predictionsFor(annotator, window, settings).then((predictions) => {
      for (const [i, target] of window.entries())
        results[target.file]!.columns.push(annotation(target, predictions[i]!, labels, abstainBelow));
      meter.report(filesRead);
    });
    // Its failure is met at the next await of it, maybe after some reading.
    underway.catch(() => {});
  };
  for (const [i, file] of files.entries()) {
    if (options.signal?.aborted) throw new AegirError("ERR_ABORTED", `annotate: interrupted before ${file}`);
    try {
      const table = await readCsv(file, csv);
      results[i]!.warnings = table.warnings;
      const targets = await encodeTable(annotator, table, file, { mainColumn, maxColumns });
      open.push(...targets.map((target) => ({ ...target, file: i, table: names[i]! })));
    } catch (error) {
      if (!(error instanceof AegirError && error.code === "ERR_DATA")) throw error;
      results[i]!.error = error;
    }
    if (open.length >= WINDOW) await turnWindow(i + 1);
  }
  await turnWindow(files.length);
  await underway;
  return results;
}

/** What the model says of each column, in their order. */
async function predictionsFor(
  { labels, logitsOf, concurrency, none }: Annotator,
  targets: readonly Target[],
  options: PredictOptions,
): Promise<Prediction[]> {
  const examples = targets.map(({ example }) => example);
  const logits = await allLogits(logitsOf, examples, labels.length, { concurrency, ...options });
  return predictionsOf(logits, labels.length, none ? labels.indexOf(none) : -1);
}

/** A column on its way through the model. */
interface Target {
  example: EncodedExample;
  table: string;
  column: number;
  mainColumn?: number;
  header: string | null;
  /** Position among the files. */
  file: number;
}

/** @param shown names the table in errors. @throws AegirError ERR_DATA */
async function encodeTable(
  { task, serialiser }: Annotator,
  table: Table,
  shown: string,
  {
    columns,
    mainColumn: given,
    maxColumns = 2000,
  }: Pick<AnnotateOptions, "columns" | "mainColumn" | "maxColumns">,
): Promise<Target[]> {
  if (given !== undefined && task !== "cpa")
    throw new AegirError(
      "ERR_CONFIG",
      "mainColumn (--main-column): is of runs of task cpa, this one's is cta",
    );
  const mainColumn = given ?? 0;
  checkTable(table, shown, maxColumns);
  // What a table is called, or where a column stands, is no reason to read other cells of it; and copies, as the serialiser keeps what it wrote of a column,
  // which may have been changed since.
  const read: Table = { ...table, drawnBy: "", columns: table.columns.map((column) => ({ ...column })) };
  const subject = task === "cpa" ? { mainColumn } : {};
  const chosen =
    columns ?? [...table.columns.keys()].filter((column) => task === "cta" || column !== mainColumn);
  const examples = await encodeTargets(
    serialiser,
    chosen.map((column) => ({ table: read, column, ...subject })),
  );
  return examples.map((example, i) => ({
    example,
    table: table.name,
    column: chosen[i]!,
    ...subject,
    header: table.columns[chosen[i]!]!.header,
    file: 0,
  }));
}

function annotation(
  { example: _, file: __, ...target }: Target,
  { label, confidence, runnerUp, runnerUpConfidence }: Prediction,
  labels: readonly string[],
  abstainBelow = 0,
): ColumnAnnotation {
  return {
    ...target,
    type: confidence < abstainBelow ? null : labels[label]!,
    mostProbable: labels[label]!,
    confidence,
    runnerUp: runnerUp === label ? null : labels[runnerUp]!,
    runnerUpConfidence: runnerUp === label ? 0 : runnerUpConfidence,
  };
}

/** File names, or paths as given where two names are equal. */
function tableNames(files: readonly string[]): string[] {
  const times = new Map<string, number>();
  const basenames = files.map((file) => path.basename(file));
  for (const name of basenames) times.set(name, (times.get(name) ?? 0) + 1);
  return files.map((file, i) => (times.get(basenames[i]!)! > 1 ? file : basenames[i]!));
}

function checkTable({ columns }: Table, shown: string, maxColumns: number): void {
  if (!(Number.isInteger(maxColumns) && maxColumns >= 1))
    throw new AegirError(
      "ERR_CONFIG",
      `maxColumns (--max-columns): expected a whole number from 1, got ${maxColumns}`,
    );
  if (columns.length === 0 || columns.every((column) => column.cells.every(isBlank))) {
    throw new AegirError("ERR_DATA", `${shown}: the table is empty: no column has a value`);
  }
  if (columns.length > maxColumns) {
    throw new AegirError(
      "ERR_DATA",
      `${shown}: ${columns.length} columns, more than the limit of ${maxColumns}; is it a table? Raise maxColumns (--max-columns) if so`,
    );
  }
}
