import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { AegirError } from "../errors.js";
import { replaceDirectory } from "../train/atomic.js";
import { readCsv } from "./csv.js";
import { formatCsv, formatRecord, hasHeader } from "./csvWrite.js";
import { SPLITS } from "./dataset.js";
import { type GroundTruthRow, readGroundTruth } from "./groundTruth.js";
import { splitTables } from "./split.js";
import type { Dataset, LabelledColumn, Split, Table, Task } from "./types.js";

/** The file that makes a folder of CSV files a data set. */
export const LABELS_FILE = "labels.csv";

/**
 * Reads a folder of CSV files with a `labels.csv`: columns table_name, column_index, label and, where wanted, split (train, validation,
 * test; else a seeded split by table), main_column_index (CPA), domain and header (yes or no; else detected).
 * @throws AegirError ERR_DATA naming the file and line
 */
export async function readCsvFolder(dir: string, options: { task: Task; seed: number }): Promise<Dataset> {
  const file = path.join(dir, LABELS_FILE);
  const { rows } = await readGroundTruth(file, options.task);
  const tables = new Map<string, Table>();
  const first = new Map<string, GroundTruthRow>();
  const warnings: string[] = [];
  for (const row of rows) {
    if (!tables.has(row.table)) tables.set(row.table, await readTable(dir, file, row, warnings));
    checkAgrees(row, first, file);
    checkColumn(tables.get(row.table)!, row.column, file, row);
    if (row.mainColumn !== undefined) checkColumn(tables.get(row.table)!, row.mainColumn, file, row);
  }
  const labelled = rows.map(toLabelled);
  return {
    name: path.basename(path.resolve(dir)),
    task: options.task,
    labels: [...new Set(rows.map((row) => row.label))].sort(),
    tables,
    splits: rows.some((row) => row.split)
      ? givenSplits(rows, labelled, file)
      : splitTables(labelled, { seed: options.seed, validation: 0.15, test: 0.15 }),
    warnings,
  };
}

/** Every CSV file of a folder, by name. @throws AegirError ERR_DATA for a file that cannot be read */
export async function readCsvFiles(dir: string): Promise<Table[]> {
  const entries = await readdir(dir, { withFileTypes: true });
  const names = entries.filter((entry) => !entry.isDirectory() && /\.csv$/i.test(entry.name));
  const tables: Table[] = [];
  for (const { name } of names.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    try {
      const { columns } = await readCsv(path.join(dir, name));
      tables.push({ name, columns });
    } catch (cause) {
      if (!(cause instanceof AegirError && cause.code === "ERR_DATA")) throw cause;
      throw new AegirError("ERR_DATA", `${cause.message}; or take the file out of ${dir}`, { cause });
    }
  }
  return tables;
}

function toLabelled({ table, column, mainColumn, label, domain }: GroundTruthRow): LabelledColumn {
  return {
    table,
    column,
    ...(mainColumn === undefined ? {} : { mainColumn }),
    label,
    ...(domain === undefined ? {} : { domain }),
  };
}

async function readTable(
  dir: string,
  labelsFile: string,
  row: GroundTruthRow,
  warnings: string[],
): Promise<Table> {
  const where = `${labelsFile}, line ${row.line}`;
  const candidates = [row.table, `${row.table}.csv`].map((name) => path.join(dir, name));
  if (candidates.some((candidate) => path.relative(dir, candidate).startsWith(".."))) {
    throw new AegirError("ERR_DATA", `${where}: table_name '${row.table}' leaves the folder`);
  }
  const file = candidates.find((candidate) => existsSync(candidate));
  if (!file)
    throw new AegirError("ERR_DATA", `${where}: no file '${row.table}' or '${row.table}.csv' in ${dir}`);
  const read = await readCsv(file, { header: headerOf(row, labelsFile) });
  warnings.push(...read.warnings.map((warning) => `${row.table}: ${warning}`));
  return { name: row.table, columns: read.columns };
}

/** One table has one name and one header: by two names its columns could come into two splits. */
function checkAgrees(row: GroundTruthRow, first: Map<string, GroundTruthRow>, file: string): void {
  const key = row.table.replace(/\.csv$/, "");
  const other = first.get(key);
  if (!other) {
    first.set(key, row);
    return;
  }
  const where = `${file}, line ${row.line}`;
  if (other.table !== row.table) {
    throw new AegirError(
      "ERR_DATA",
      `${where}: '${row.table}' is named '${other.table}' in line ${other.line}`,
    );
  }
  if (headerOf(other, file) !== headerOf(row, file)) {
    throw new AegirError(
      "ERR_DATA",
      `${where}: header of '${row.table}' differs from that in line ${other.line}`,
    );
  }
}

function headerOf({ header, line }: GroundTruthRow, file: string): boolean | "auto" {
  if (header === undefined) return "auto";
  if (/^(?:yes|true|1)$/i.test(header)) return true;
  if (/^(?:no|false|0)$/i.test(header)) return false;
  throw new AegirError("ERR_DATA", `${file}, line ${line}: header was '${header}', expected yes or no`);
}

function checkColumn(table: Table, column: number, file: string, row: GroundTruthRow): void {
  if (column < table.columns.length) return;
  throw new AegirError(
    "ERR_DATA",
    `${file}, line ${row.line}: column ${column} of '${row.table}', which has columns 0 to ${table.columns.length - 1}`,
  );
}

function givenSplits(
  rows: readonly GroundTruthRow[],
  labelled: readonly LabelledColumn[],
  file: string,
): Record<Split, LabelledColumn[]> {
  const splits: Record<Split, LabelledColumn[]> = { train: [], validation: [], test: [] };
  const splitOf = new Map<string, Split>();
  for (const [i, row] of rows.entries()) {
    if (!row.split) {
      throw new AegirError("ERR_DATA", `${file}, line ${row.line}: no split, though other lines have one`);
    }
    const other = splitOf.get(row.table);
    if (other && other !== row.split) {
      throw new AegirError(
        "ERR_DATA",
        `${file}, line ${row.line}: table '${row.table}' is in the splits ${other} and ${row.split}, expected in one`,
      );
    }
    splitOf.set(row.table, row.split);
    splits[row.split].push(labelled[i]!);
  }
  return splits;
}

/**
 * Writes a data set as a folder that `readCsvFolder` reads back equal: a CSV file per table and `labels.csv`. The folder appears whole or not
 * at all.
 * @throws AegirError ERR_DATA where the folder holds something and `overwrite` is not set, or holds no data set
 */
export async function writeDataset(
  dir: string,
  dataset: Dataset,
  options: { overwrite?: boolean } = {},
): Promise<void> {
  await refuseOccupied(dir, options.overwrite ?? false);
  const files = new Map<string, string>();
  for (const table of dataset.tables.values()) {
    if (!/^[\w.@ -]+$/.test(table.name) || table.name.startsWith(".")) {
      throw new AegirError(
        "ERR_DATA",
        `table name '${table.name}' cannot be a file name, expected letters, digits and . _ - @`,
      );
    }
    files.set(table.name.endsWith(".csv") ? table.name : `${table.name}.csv`, formatCsv(table));
  }
  files.set(LABELS_FILE, formatLabels(dataset));
  await replaceDirectory(dir, files);
}

async function refuseOccupied(dir: string, overwrite: boolean): Promise<void> {
  if (!existsSync(dir)) return;
  const entries = await readdir(dir).catch((cause: unknown) => {
    throw new AegirError("ERR_DATA", `${dir}: not a folder that can be written`, { cause });
  });
  if (entries.length === 0) return;
  if (!overwrite) {
    throw new AegirError("ERR_DATA", `${dir}: not empty; choose another folder, or overwrite (--overwrite)`);
  }
  if (!entries.includes(LABELS_FILE)) {
    throw new AegirError("ERR_DATA", `${dir}: holds files but no ${LABELS_FILE}: no data set to overwrite`);
  }
}

function formatLabels(dataset: Dataset): string {
  const rows = SPLITS.flatMap((split) => dataset.splits[split].map((column) => ({ split, column })));
  const withMain = dataset.task === "cpa";
  const withDomain = rows.some(({ column }) => column.domain !== undefined);
  const names = ["table_name", "column_index", "label", "split"];
  if (withMain) names.push("main_column_index");
  if (withDomain) names.push("domain");
  const lines = [formatRecord([...names, "header"])];
  for (const { split, column } of rows) {
    const fields = [column.table, String(column.column), column.label, split];
    if (withMain) fields.push(String(column.mainColumn));
    if (withDomain) fields.push(column.domain ?? "");
    const table = dataset.tables.get(column.table);
    lines.push(formatRecord([...fields, table && hasHeader(table) ? "yes" : "no"]));
  }
  return lines.join("");
}
