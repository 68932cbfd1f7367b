import { readFile } from "node:fs/promises";
import { parse } from "csv-parse/sync";
import { AegirError } from "../errors.js";
import type { Split, Task } from "./types.js";

/** One line of a ground-truth CSV. */
export interface GroundTruthRow {
  /** Line in the file, from 1, for error messages. */
  line: number;
  table: string;
  column: number;
  mainColumn?: number;
  label: string;
  /** Other labels that are right as well (`all_labels`, or further lines on the same column). */
  alternatives?: string[];
  split?: Split;
  domain?: string;
  /** labels.csv: whether the file has a header (yes or no); elsewhere: the column's header text. */
  header?: string;
}

const SPLIT_NAMES = new Map<string, Split>([
  ["train", "train"],
  ["training", "train"],
  ["validation", "validation"],
  ["valid", "validation"],
  ["val", "validation"],
  ["dev", "validation"],
  ["test", "test"],
]);

/**
 * Reads a ground-truth CSV. Several lines on one column (pair) make one row: the first label counts, the others are its alternatives.
 * @throws AegirError ERR_DATA naming the file, the line and what was expected
 */
export async function readGroundTruth(
  file: string,
  task: Task,
): Promise<{ rows: GroundTruthRow[]; doubled: number }> {
  const bytes = await readFile(file).catch((cause: NodeJS.ErrnoException) => {
    throw new AegirError("ERR_DATA", `${file}: ${cause.code === "ENOENT" ? "no such file" : cause.message}`, {
      cause,
    });
  });
  const { columns, records } = parseRecords(file, bytes);
  checkColumns(columns, task, file);
  if (records.length === 0) throw new AegirError("ERR_DATA", `${file}: no lines below its header`);
  const rows = new Map<string, GroundTruthRow>();
  let doubled = 0;
  for (const { record, line } of records) {
    const row = toRow(record, line, task, `${file}, line ${line}`);
    const key = JSON.stringify([row.table, row.mainColumn, row.column]);
    const known = rows.get(key);
    if (!known) {
      rows.set(key, row);
    } else if (known.label !== row.label) {
      known.alternatives = [...new Set([...(known.alternatives ?? []), row.label])];
      doubled++;
    }
  }
  return { rows: [...rows.values()], doubled };
}

function checkColumns(columns: string[], task: Task, file: string): void {
  const required = ["table_name", "column_index", "label", ...(task === "cpa" ? ["main_column_index"] : [])];
  const missing = required.filter((name) => !columns.includes(name));
  if (missing.length > 0) {
    const known = columns.join(", ") || "none";
    const hint = missing[0] === "main_column_index" ? " (needed for CPA; for column types use task cta)" : "";
    throw new AegirError("ERR_DATA", `${file}: no column ${missing.join(", ")}${hint}; it has ${known}`);
  }
  const repeated = columns.find((name, i) => columns.indexOf(name) !== i);
  if (repeated !== undefined)
    throw new AegirError("ERR_DATA", `${file}: two columns are named '${repeated}'`);
}

interface NumberedRecord {
  record: Record<string, string>;
  line: number;
}

function parseRecords(file: string, bytes: Uint8Array): { columns: string[]; records: NumberedRecord[] } {
  let columns: string[] = [];
  try {
    const parsed: { record: Record<string, string>; info: { lines: number } }[] = parse(Buffer.from(bytes), {
      columns: (names: string[]) => {
        columns = names;
        return names;
      },
      info: true,
      bom: true,
      trim: true,
      skip_empty_lines: true,
    });
    return { columns, records: parsed.map(({ record, info }) => ({ record, line: info.lines })) };
  } catch (cause) {
    throw new AegirError("ERR_DATA", `${file}: ${(cause as Error).message}`, { cause });
  }
}

function toRow(record: Record<string, string>, line: number, task: Task, where: string): GroundTruthRow {
  const { table_name: table, label, split, domain, header, all_labels: all } = record;
  if (!table) throw new AegirError("ERR_DATA", `${where}: table_name is empty`);
  if (!label) throw new AegirError("ERR_DATA", `${where}: label is empty`);
  const row: GroundTruthRow = { line, table, label, column: columnIndex(record, "column_index", where) };
  if (task === "cpa") row.mainColumn = columnIndex(record, "main_column_index", where);
  if (split) row.split = splitNamed(split, where);
  if (domain) row.domain = domain;
  if (header) row.header = header;
  const alternatives = (all ?? "").split("|").filter((other) => other !== "" && other !== label);
  if (alternatives.length > 0) row.alternatives = alternatives;
  return row;
}

function columnIndex(record: Record<string, string>, name: string, where: string): number {
  const text = record[name] ?? "";
  const index = Number(text);
  if (text !== "" && Number.isInteger(index) && index >= 0) return index;
  throw new AegirError("ERR_DATA", `${where}: ${name} was '${text}', expected a column number from 0`);
}

function splitNamed(text: string, where: string): Split {
  const split = SPLIT_NAMES.get(text.toLowerCase());
  if (split) return split;
  throw new AegirError("ERR_DATA", `${where}: split was '${text}', expected train, validation or test`);
}
