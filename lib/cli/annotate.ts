import { type Command, Option } from "commander";
import { readCsv } from "../data/csv.js";
import { terminalTable, truncate } from "../report/table.js";
import { annotateTable, type ColumnAnnotation } from "../train/annotate.js";
import { writeFileAtomic } from "../train/atomic.js";
import { loadRun } from "../train/loadRun.js";
import { withInterrupt } from "./interrupt.js";
import { progressView } from "./progress.js";
import { number } from "./settings.js";

interface AnnotateFlags {
  json?: boolean;
  csv?: boolean;
  out?: string;
  mainColumn?: number;
  maxColumns?: number;
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
    .option("--out <file>", "write to this file, whole or not at all")
    .option("--quiet", "show no progress")
    .action(annotateFiles);
}

async function annotateFiles(run: string, files: string[], flags: AnnotateFlags): Promise<void> {
  const view = progressView({ quiet: flags.quiet });
  try {
    const annotations = await withInterrupt(async (signal) => {
      using annotator = await loadRun(run);
      const all: ColumnAnnotation[] = [];
      for (const file of files) {
        const table = await readCsv(file);
        const { mainColumn, maxColumns } = flags;
        const options = { mainColumn, maxColumns, signal, onProgress: view.update.bind(view) };
        if (!flags.quiet) for (const warning of table.warnings) view.note(`${file}: ${warning}`);
        all.push(...(await annotateTable(annotator, table, options)));
      }
      return all;
    });
    view.stop();
    const text = format(annotations, flags);
    if (flags.out) await writeFileAtomic(flags.out, text);
    else process.stdout.write(text);
  } finally {
    view.stop();
  }
}

function format(annotations: ColumnAnnotation[], { json, csv }: AnnotateFlags): string {
  if (json) return `${JSON.stringify(annotations, null, 2)}\n`;
  const headers = ["table", "column", "header", "type", "confidence", "runner-up", "runner-up confidence"];
  const rows = annotations.map((a) => [
    a.table,
    a.column,
    a.header,
    a.type,
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
