import { availableParallelism } from "node:os";
import { type Command, Option } from "commander";
import { AegirError } from "../errors.js";
import { terminalTable, truncate } from "../report/table.js";
import { abstentionThreshold } from "../train/abstention.js";
import { annotateFiles, type ColumnAnnotation } from "../train/annotate.js";
import { writeFileAtomic } from "../train/atomic.js";
import { loadRun } from "../train/loadRun.js";
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
  abstain?: number | true;
  quiet?: boolean;
}

/** `aegir-swarm annotate RUN FILE…`. */
export function register(program: Command): void {
  program
    .command("annotate")
    .description("Say what the columns of CSV files mean, by a trained run.")
    .argument(
      "<run>",
      "run folder of train supervised or train parl, or one of a demo's (runs/demo-1/swarm-both)",
    )
    .argument("<files...>", "CSV files")
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
    .option(
      "--abstain [confidence]",
      "no type below this confidence (default: the run's calibrated one)",
      number,
    )
    .option("--out <file>", "write to this file, whole or not at all")
    .option("--quiet", "show no progress")
    .action(annotate);
}

async function annotate(run: string, files: string[], flags: AnnotateFlags): Promise<void> {
  const view = progressView({ quiet: flags.quiet });
  try {
    const results = await withInterrupt(async (signal) => {
      using annotator = await loadRun(run, { lanes: availableParallelism() });
      const { mainColumn, maxColumns, abstain } = flags;
      const abstainBelow = abstain === undefined ? undefined : await abstentionThreshold(run, abstain);
      const csv = flags.header === undefined ? {} : { header: flags.header === "yes" };
      const onProgress = view.update.bind(view);
      const options = { mainColumn, maxColumns, abstainBelow, csv, signal, onProgress };
      return await annotateFiles(annotator, files, options);
    });
    for (const { file, warnings } of flags.quiet ? [] : results)
      for (const warning of warnings) view.note(`${file}: ${warning}`);
    view.stop();
    const errors = results.flatMap(({ error }) => error ?? []);
    // With no result at all the command fails as a whole, in the way of every other.
    if (errors.length === results.length) throw oneError(errors);
    for (const { code, message } of errors) process.stderr.write(errorLine(code, message));
    if (errors.length > 0) process.exitCode = 1;
    const text = format(
      results.flatMap(({ columns }) => columns),
      flags,
    );
    if (flags.out) await writeFileAtomic(flags.out, text);
    else process.stdout.write(text);
  } finally {
    view.stop();
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
