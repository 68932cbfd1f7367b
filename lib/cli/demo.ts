import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Command, Option } from "commander";
import { readCsv } from "../data/csv.js";
import type { Task } from "../data/types.js";
import { demoText, writeDemoReport } from "../report/demoReport.js";
import { folderSource, generatedSource, openDataSource } from "../train/dataSource.js";
import { runDemo } from "../train/demo.js";
import { demoPlan, demoTables, domainGroups, familyGroups, realPlan } from "../train/demoPlan.js";
import { withInterrupt } from "./interrupt.js";
import { progressView } from "./progress.js";
import { number } from "./settings.js";

interface DemoFlags {
  quick?: boolean;
  seed: number;
  data?: string;
  task: Task;
  trainFile?: string;
  out?: string;
  quiet?: boolean;
  json?: boolean;
}

const EXAMPLE = fileURLToPath(new URL("../../examples/data/orders.csv", import.meta.url));

/** `aegir-swarm demo`: the main job. */
export function register(program: Command): void {
  program
    .command("demo")
    .description(
      "Train specialists, a primary and a swarm; compare them on held-out columns; annotate a table. At most 8 minutes on 2 free cores.",
    )
    .option("--quick", "a smaller run, about 90 seconds: it shows that all works, not what a swarm can do")
    .option("--seed <n>", "seed of the data and of all trainings", number, 0)
    .option("--data <dir>", "real tables in SOTAB's layout; specialists are trained on families of labels")
    .addOption(new Option("--task <task>", "what is annotated").choices(["cta", "cpa"]).default("cta"))
    .option(
      "--train-file <name>",
      "SOTAB's layout: full, small, or a training ground-truth file (default: full)",
    )
    .option("--out <dir>", "folder for runs and report (default: runs/demo-<n>, the first free)")
    .option("--quiet", "show no progress")
    .option("--json", "print the result as JSON")
    .action(demo);
}

async function demo({
  quick = false,
  seed,
  data,
  task,
  trainFile,
  out = freeFolder(),
  quiet,
  json,
}: DemoFlags): Promise<void> {
  const source =
    data === undefined ? generatedSource(demoTables(quick, seed)) : folderSource(data, task, trainFile);
  const view = progressView({ quiet });
  try {
    const result = await withInterrupt(async (signal) => {
      const dataset = await openDataSource(source);
      return runDemo({
        dataset,
        dataSource: { ...source },
        groups: data === undefined ? domainGroups() : familyGroups(dataset),
        plan: data === undefined ? demoPlan(quick) : realPlan(quick),
        example: await readCsv(EXAMPLE),
        out,
        seed,
        signal,
        onProgress: (progress) => view.update(progress),
        onNote: (text) => view.note(text),
      });
    });
    view.stop();
    await writeDemoReport(out, result);
    process.stdout.write(
      json
        ? `${JSON.stringify({ out, ...result })}\n`
        : `\n${demoText(result)}\n\nRuns and report: ${out}\nAnnotate a table of your own: npx aegir-swarm annotate ${join(out, "swarm-both")} FILE.csv\n`,
    );
  } finally {
    view.stop();
  }
}

function freeFolder(): string {
  for (let i = 1; ; i++) if (!existsSync(`runs/demo-${i}`)) return `runs/demo-${i}`;
}
