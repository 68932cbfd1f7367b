import { statSync } from "node:fs";
import { availableParallelism } from "node:os";
import path from "node:path";
import { type Command, Option } from "commander";
import type { Encoding } from "../data/csvSniff.js";
import { everydayTypes } from "../data/everyday.js";
import { AegirError } from "../errors.js";
import { terminalTable, truncate } from "../report/table.js";
import { abstentionThreshold } from "../train/abstention.js";
import { annotateFiles, type ColumnAnnotation } from "../train/annotate.js";
import { writeFileAtomic } from "../train/atomic.js";
import { type DefaultModel, loadDefaultModel } from "../train/defaultModel.js";
import { defined } from "../train/defined.js";
import { type LoadedRun, loadRun } from "../train/loadRun.js";
import { errorLine } from "./errorLine.js";
import { withInterrupt } from "./interrupt.js";
import { progressView } from "./progress.js";
import { number } from "./settings.js";

interface AnnotateFlags {
  json?: boolean;
  csv?: boolean;
  out?: string;
  mainColumn?: number;
  maxColumns?: number;
  header?: "yes" | "no";
  encoding?: Encoding;
  abstain?: number | true;
  quiet?: boolean;
  listTypes?: boolean;
}

/** `aegir-swarm annotate [RUN] FILE…`. */
export function register(program: Command): void {
  program
    .command("annotate")
    .description(
      "Say what the columns of CSV files mean: by a trained run, or by the model that comes with the package.",
    )
    .argument(
      "[run]",
      "run folder of a training (train supervised, distill, specialist or parl), or one of a demo's (runs/demo-1/swarm-both); absent: the default model",
    )
    .argument("[files...]", "CSV files")
    .option("--list-types", "print the types that the run, or the default model, knows")
    .option("--json", "print JSON")
    .addOption(new Option("--csv", "print CSV").conflicts("json"))
    .option("--main-column <n>", "runs of task cpa: the subject column (default: 0)", number)
    .option("--max-columns <n>", "refuse wider tables (default: 2000)", number)
    .addOption(
      new Option(
        "--header <answer>",
        "whether the first line names the columns (default: by what it looks like)",
      ).choices(["yes", "no"]),
    )
    .addOption(
      new Option(
        "--encoding <name>",
        "of the files (default: UTF-8, or UTF-16 where a byte order mark says so)",
      ).choices(["utf-8", "utf-16le", "utf-16be", "windows-1252"]),
    )
    .option(
      "--abstain [confidence]",
      "no type below this confidence (default: the run's calibrated one; the default model always abstains, below .8); stands behind the files",
      number,
    )
    .option("--out <file>", "write to this file, whole or not at all")
    .option("--quiet", "show no progress")
    .action(annotate);
}

async function annotate(first: string | undefined, rest: string[], flags: AnnotateFlags): Promise<void> {
  const { run, files } = runAndFiles(first, rest);
  if (flags.listTypes) return listTypes(run, flags);
  if (files.length === 0)
    throw new AegirError(
      "ERR_ARGUMENT",
      `annotate: no CSV file given${run ? `; ${run} is a folder and was taken for a run: give files after it, or ${run}/*.csv alone` : ""}`,
    );
  const view = progressView({ quiet: flags.quiet });
  try {
    const results = await withInterrupt(
      async (signal) => {
        using annotator = await loadAnnotator(run);
        const { mainColumn, maxColumns, abstain } = flags;
        const abstainBelow = await threshold(run, abstain);
        const { header, encoding } = flags;
        const csv = defined({ header: header === undefined ? undefined : header === "yes", encoding });
        const onProgress = view.update.bind(view);
        const options = { mainColumn, maxColumns, abstainBelow, csv, signal, onProgress };
        return await annotateFiles(annotator, files, options);
      },
      { saves: false },
    );
    for (const { file, warnings, error } of results)
      for (const warning of error ? [] : warnings) view.warn(`${file}: ${warning}`);
    const columns = results.flatMap((result) => result.columns);
    if (run === null && !flags.quiet) noteUnnamed(columns, (note) => view.note(note));
    view.stop();
    const errors = results.flatMap(({ error }) => error ?? []);
    // With no result at all the command fails as a whole, in the way of every other.
    if (errors.length === results.length) throw oneError(errors);
    for (const { code, message } of errors) process.stderr.write(errorLine(code, message));
    if (errors.length > 0) process.exitCode = 1;
    const text = format(columns, flags);
    if (flags.out) await writeFileAtomic(flags.out, text);
    else process.stdout.write(text);
  } finally {
    view.stop();
  }
}

/** What tables are stored in, by their files' names. */
const TABLE_ENDING = /^\.(?:csv|tsv|tab|txt)$/i;

/**
 * A first argument that is a folder is a run. One that is not there is taken for a run too where files follow and its name is no table's, so
 * that a run's misspelt name is not passed over in favour of the default model.
 */
function runAndFiles(first: string | undefined, rest: string[]): { run: string | null; files: string[] } {
  if (first === undefined) return { run: null, files: [] };
  const found = statSync(first, { throwIfNoEntry: false });
  const meant = found ? found.isDirectory() : rest.length > 0 && !TABLE_ENDING.test(path.extname(first));
  return meant ? { run: first, files: rest } : { run: null, files: [first, ...rest] };
}

async function loadAnnotator(run: string | null): Promise<LoadedRun | DefaultModel> {
  const options = { lanes: availableParallelism() };
  return run === null ? loadDefaultModel(options) : loadRun(run, options);
}

/** Undefined: the annotator's own. */
async function threshold(run: string | null, given: number | true | undefined): Promise<number | undefined> {
  if (given === undefined || (run === null && given === true)) return undefined;
  return abstentionThreshold(run ?? "", given);
}

function noteUnnamed(columns: readonly ColumnAnnotation[], note: (text: string) => void): void {
  const unnamed = columns.filter(({ type }) => type === null).length;
  if (unnamed > 0)
    note(
      `${unnamed} of ${columns.length} columns have no type: the default model is unsure, or knows none of their kind (annotate --list-types)`,
    );
}

async function listTypes(run: string | null, { json, csv }: AnnotateFlags): Promise<void> {
  using annotator = await loadAnnotator(run);
  const { labels, none } = annotator;
  const domains = run === null ? everydayTypes() : new Map<string, string>();
  const types = labels.filter((label) => label !== none);
  if (json) process.stdout.write(`${JSON.stringify(types, null, 2)}\n`);
  else if (csv || domains.size === 0) process.stdout.write(`${types.join("\n")}\n`);
  else {
    const domainOf = (type: string) => domains.get(type) ?? "";
    for (const domain of new Set([...domains.values()])) {
      const names = types.filter((type) => domainOf(type) === domain);
      if (names.length > 0) process.stdout.write(`${domain}: ${names.join(", ")}\n`);
    }
  }
}

function oneError(errors: AegirError[]): AegirError {
  if (errors.length === 1) return errors[0]!;
  return new AegirError(
    "ERR_DATA",
    `none of the files can be annotated:\n${errors.map(({ message }) => `  ${message}`).join("\n")}`,
  );
}

function format(annotations: ColumnAnnotation[], { json, csv }: AnnotateFlags): string {
  if (json) return `${JSON.stringify(annotations, null, 2)}\n`;
  const headers = ["table", "column", "header", "type", "confidence", "runner-up", "runner-up confidence"];
  const rows = annotations.map((a) => [
    a.table,
    a.column,
    a.header,
    a.type ?? "unknown",
    a.confidence,
    a.runnerUp,
    a.runnerUpConfidence,
  ]);
  if (csv) return `${[headers, ...rows].map((row) => row.map(csvField).join(",")).join("\n")}\n`;
  const shown = rows.map((row) => row.map((cell) => (typeof cell === "string" ? truncate(cell, 32) : cell)));
  return `${terminalTable({ headers, rows: shown, decimals: 2 })}\n`;
}

function csvField(value: string | number | null): string {
  const text = value === null ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
