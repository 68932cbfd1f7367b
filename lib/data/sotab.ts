import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { AegirError } from "../errors.js";
import { SPLITS } from "./dataset.js";
import { type GroundTruthRow, readGroundTruth } from "./groundTruth.js";
import type { Column, Dataset, LabelledColumn, Split, Table, Task } from "./types.js";

const SPLIT_PATTERNS: Record<Split, RegExp> = {
  train: /(?:^|[_-])train(?:ing)?(?:[_.-]|$)/i,
  validation: /(?:^|[_-])(?:validation|valid|val|dev)(?:[_.-]|$)/i,
  test: /(?:^|[_-])test(?:[_.-]|$)/i,
};

export interface SotabOptions {
  task: Task;
  /** "full", "small" (`…_small.csv`), or the name of a training ground-truth file. */
  trainFile?: string;
  /** Sites (the middle part of table names) whose tables are left out of training. */
  excludeSites?: Iterable<string>;
  /** Rows of a table that are read. */
  maxRows?: number;
}

/** True where a folder holds ground-truth CSVs in SOTAB's manner. */
export async function isSotabFolder(dir: string): Promise<boolean> {
  return (await groundTruthFiles(dir)).length > 0;
}

/**
 * Reads a folder in SOTAB's layout: one gzipped JSON-lines file per table under Train, Validation and Test (keys "0", "1", … are columns),
 * and ground-truth CSVs beside them, found by the words train, val and test in their names. Only labelled tables are read.
 *
 * Columns that the ground truth gives several labels keep the first, with the others as `alternatives`. What else is odd about the data
 * (contents that carry several labels, test contents that occur in training) is counted in `warnings` and left as it is.
 * @throws AegirError ERR_DATA naming the file
 */
export async function readSotab(dir: string, options: SotabOptions): Promise<Dataset> {
  const files = await groundTruthFiles(dir);
  const tables = new Map<string, Table>();
  const splits: Record<Split, LabelledColumn[]> = { train: [], validation: [], test: [] };
  const warnings: string[] = [];
  const excluded = new Set(options.excludeSites ?? []);
  const splitOf = new Map<string, Split>();
  for (const split of SPLITS) {
    const file = chooseFile(dir, files, split, options.trainFile ?? "full");
    if (!file) continue;
    const { rows, doubled } = await readGroundTruth(path.join(dir, file), options.task);
    if (doubled > 0)
      warnings.push(`${file}: ${doubled} further labels on columns that have one; kept as alternatives`);
    const kept = rows.filter((row) => split !== "train" || !excluded.has(siteOf(row.table)));
    for (const row of kept) claimSplit(splitOf, split, row, file);
    await readTables(dir, kept, file, tables, options.maxRows ?? 2000);
    splits[split] = kept.map((row) => toLabelled(row, tables.get(row.table)!, file));
  }
  const labels = new Set(SPLITS.flatMap((split) => splits[split].map((column) => column.label)));
  const dataset = {
    name: path.basename(path.resolve(dir)),
    task: options.task,
    labels: [...labels].sort(),
    tables,
    splits,
    warnings,
  };
  warnings.push(...contentWarnings(dataset));
  return dataset;
}

/**
 * The site of a SOTAB table: `Book_11x17.pt_September2020_CTA.json.gz` is of 11x17.pt. Any other table is a site by itself, whether it is
 * named with `.csv` or without.
 */
export function siteOf(table: string): string {
  return /^[^_]+_(.+)_[A-Z][a-z]+\d{4}_/.exec(table)?.[1] ?? withoutExtension(table);
}

/** Of a CSV file, which `labels.csv` may name either way. */
export function withoutExtension(table: string): string {
  return table.replace(/\.csv$/i, "");
}

async function groundTruthFiles(dir: string): Promise<string[]> {
  const entries = await readdir(dir).catch(() => []);
  return entries.filter(
    (name) =>
      /\.csv$/i.test(name) &&
      !/^manifest/i.test(name) &&
      SPLITS.some((split) => SPLIT_PATTERNS[split].test(name)),
  );
}

/** The ground-truth file of a split; null where the folder has none. */
function chooseFile(dir: string, files: readonly string[], split: Split, trainFile: string): string | null {
  const candidates = files
    .filter((name) => SPLIT_PATTERNS[split].test(name))
    .sort((a, b) => a.length - b.length);
  if (split !== "train") return candidates[0] ?? null;
  const isSmall = (name: string) => /_small\.csv$/i.test(name);
  const chosen =
    trainFile === "full"
      ? candidates.find((name) => !isSmall(name))
      : trainFile === "small"
        ? candidates.find(isSmall)
        : candidates.find((name) => name === trainFile);
  if (chosen || (trainFile === "full" && candidates.length === 0)) return chosen ?? null;
  throw new AegirError(
    "ERR_DATA",
    `${dir}: no training file '${trainFile}'; it has ${candidates.join(", ") || "none"}`,
  );
}

/** Notes the split of a row's table; a table in two splits would leak. */
function claimSplit(splitOf: Map<string, Split>, split: Split, row: GroundTruthRow, file: string): void {
  const other = splitOf.get(row.table) ?? split;
  if (other !== split) {
    throw new AegirError(
      "ERR_DATA",
      `${file}, line ${row.line}: table '${row.table}' is in the splits ${other} and ${split}, expected in one`,
    );
  }
  splitOf.set(row.table, split);
}

/** Files read at a time. */
const CONCURRENCY = 32;

async function readTables(
  dir: string,
  rows: readonly GroundTruthRow[],
  file: string,
  tables: Map<string, Table>,
  maxRows: number,
): Promise<void> {
  const first = new Map(rows.map((row) => [row.table, row]));
  const wanted = [...first.values()].filter((row) => !tables.has(row.table));
  for (let start = 0; start < wanted.length; start += CONCURRENCY) {
    const part = wanted.slice(start, start + CONCURRENCY);
    for (const table of await Promise.all(part.map((row) => readTable(dir, row, file, maxRows)))) {
      tables.set(table.name, table);
    }
  }
}

async function readTable(dir: string, row: GroundTruthRow, file: string, maxRows: number): Promise<Table> {
  const where = `${file}, line ${row.line}`;
  if (path.basename(row.table) !== row.table) {
    throw new AegirError("ERR_DATA", `${where}: table_name '${row.table}' leaves the folder`);
  }
  const candidates = ["Train", "Validation", "Test", "."].map((folder) => path.join(dir, folder, row.table));
  const found = candidates.find((candidate) => existsSync(candidate));
  if (!found)
    throw new AegirError(
      "ERR_DATA",
      `${where}: no table '${row.table}' in Train, Validation or Test of ${dir}`,
    );
  return parseJsonLines(row.table, found, await readFile(found), maxRows);
}

function parseJsonLines(name: string, file: string, bytes: Uint8Array, maxRows: number): Table {
  let text: string;
  try {
    text = (file.endsWith(".gz") ? gunzipSync(bytes) : Buffer.from(bytes)).toString("utf8");
  } catch (cause) {
    throw new AegirError("ERR_DATA", `${file}: not a readable gzip file: ${(cause as Error).message}`, {
      cause,
    });
  }
  const columns: Column[] = [];
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const rows = lines.slice(0, maxRows).map((line, i) => parseRow(line, file, i));
  for (const [i, row] of rows.entries()) {
    for (const [key, value] of Object.entries(row)) {
      const index = Number(key);
      if (!Number.isInteger(index) || index < 0 || index > 20_000) {
        throw new AegirError("ERR_DATA", `${file}, row ${i + 1}: key '${key}', expected a column number`);
      }
      while (columns.length <= index) {
        columns.push({ header: null, cells: new Array<string>(rows.length).fill("") });
      }
      columns[index]!.cells[i] = cellText(value);
    }
  }
  if (columns.length === 0) throw new AegirError("ERR_DATA", `${file}: a table without rows`);
  return { name, columns };
}

function parseRow(line: string, file: string, row: number): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(line);
    if (typeof parsed === "object" && parsed !== null) return parsed as Record<string, unknown>;
  } catch (cause) {
    throw new AegirError("ERR_DATA", `${file}, row ${row + 1}: not JSON: ${(cause as Error).message}`, {
      cause,
    });
  }
  throw new AegirError("ERR_DATA", `${file}, row ${row + 1}: not an object of columns`);
}

function cellText(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function toLabelled(row: GroundTruthRow, table: Table, file: string): LabelledColumn {
  for (const index of [row.column, row.mainColumn ?? row.column]) {
    if (index >= table.columns.length) {
      throw new AegirError(
        "ERR_DATA",
        `${file}, line ${row.line}: column ${index} of '${row.table}', which has columns 0 to ${table.columns.length - 1}`,
      );
    }
  }
  const { table: name, column, mainColumn, label, alternatives, header } = row;
  if (header) table.columns[column]!.header = header;
  return {
    table: name,
    column,
    ...(mainColumn === undefined ? {} : { mainColumn }),
    label,
    ...(alternatives ? { alternatives } : {}),
  };
}

/** What a column says, for finding equal ones; a CPA pair says its subject too. */
export function columnContent(dataset: Dataset, labelled: LabelledColumn): string {
  const { columns } = dataset.tables.get(labelled.table)!;
  const cells = (index: number) => [...new Set(columns[index]!.cells.filter((cell) => cell !== ""))].sort();
  const subject = labelled.mainColumn === undefined ? [] : cells(labelled.mainColumn);
  return JSON.stringify([cells(labelled.column), subject]);
}

function contentWarnings(dataset: Dataset): string[] {
  const labelsOf = new Map<string, Set<string>>();
  const trained = new Set<string>();
  const seen = { validation: 0, test: 0 };
  for (const split of SPLITS) {
    for (const labelled of dataset.splits[split]) {
      const content = columnContent(dataset, labelled);
      if (split === "train") trained.add(content);
      else if (trained.has(content)) seen[split]++;
      labelsOf.set(content, (labelsOf.get(content) ?? new Set()).add(labelled.label));
    }
  }
  const conflicting = [...labelsOf.values()].filter((labels) => labels.size > 1).length;
  const warnings: string[] = [];
  if (conflicting > 0) warnings.push(`${conflicting} contents carry several labels`);
  for (const split of ["validation", "test"] as const) {
    if (seen[split] > 0) {
      warnings.push(
        `${seen[split]} of ${dataset.splits[split].length} ${split} columns have contents that occur in training`,
      );
    }
  }
  return warnings;
}
