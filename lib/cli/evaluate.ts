import { type Command, Option } from "commander";
import { formatReport } from "../data/metrics.js";
import type { Split, Task } from "../data/types.js";
import { terminalTable } from "../report/table.js";
import type { AbstentionTarget, SelectiveFigures } from "../train/abstention.js";
import { openDataSource, recordedSource } from "../train/dataSource.js";
import { calibrateRun, evaluateRun, type RunEvaluation } from "../train/evaluateRun.js";
import type { SwarmFigures } from "../train/evaluateSwarm.js";
import { loadRun } from "../train/loadRun.js";
import type { Progress } from "../train/progress.js";
import { mean } from "../train/statistics.js";
import { sourceFrom } from "./dataOptions.js";
import { withInterrupt } from "./interrupt.js";
import { progressView } from "./progress.js";
import { number } from "./settings.js";

interface EvaluateFlags {
  data?: string;
  task?: Task;
  split: Split;
  unknownLabels: "error" | "skip";
  controls: boolean;
  limit?: number;
  abstainAccuracy?: number;
  abstainCoverage?: number;
  threads: number;
  json?: boolean;
  quiet?: boolean;
}

/** `aegir-swarm evaluate RUN --data DIR`. */
export function register(program: Command): void {
  program
    .command("evaluate")
    .description("Score a trained run on labelled columns.")
    .argument(
      "<run>",
      "run folder of a training (train supervised, distill, specialist or parl), or one of a demo's (runs/demo-1/swarm-both)",
    )
    .option("--data <dir>", "folder of labelled tables; absent: the data that the run was trained on")
    .addOption(new Option("--task <task>", "task of --data (default: the run's)").choices(["cta", "cpa"]))
    .addOption(
      new Option("--split <split>", "columns to score")
        .choices(["train", "validation", "test"])
        .default("test"),
    )
    .addOption(
      new Option("--unknown-labels <what>", "columns of labels that were absent from training")
        .choices(["error", "skip"])
        .default("error"),
    )
    .option(
      "--no-controls",
      "swarms: leave out what the primary says with all specialists, with none, with each as its only one, and by the routing of other columns",
    )
    .option("--limit <n>", "columns at most, evenly spaced", number)
    .addOption(
      new Option(
        "--abstain-accuracy <share>",
        "calibrate on validation to abstain: a share of the answers that is right; stored in the run",
      )
        .argParser(number)
        .conflicts("abstainCoverage"),
    )
    .addOption(
      new Option(
        "--abstain-coverage <share>",
        "the same for a share of columns that gets an answer",
      ).argParser(number),
    )
    .option("--threads <n>", "threads of each lane", number, 1)
    .option("--json", "print JSON")
    .option("--quiet", "show no progress")
    .action(evaluateCommand);
}

async function evaluateCommand(dir: string, flags: EvaluateFlags): Promise<void> {
  const view = progressView({ quiet: flags.quiet });
  try {
    const evaluation = await withInterrupt(
      async (signal) => {
        using run = await loadRun(dir, { threads: flags.threads });
        const source =
          flags.data === undefined
            ? await recordedSource(dir)
            : sourceFrom({ data: flags.data, task: flags.task ?? run.task });
        const { split, unknownLabels, controls, limit } = flags;
        const dataset = await openDataSource(source);
        const running = { signal, onProgress: (progress: Progress) => view.update(progress) };
        const target = abstentionTarget(flags);
        if (target) await calibrateRun(run, dataset, target, running);
        return await evaluateRun(run, dataset, {
          split,
          unknownLabels,
          controls,
          limit,
          ...running,
        });
      },
      { saves: false },
    );
    view.stop();
    process.stdout.write(flags.json ? `${JSON.stringify(evaluation)}\n` : `${evaluationText(evaluation)}\n`);
  } finally {
    view.stop();
  }
}

function abstentionTarget({ abstainAccuracy, abstainCoverage }: EvaluateFlags): AbstentionTarget | null {
  if (abstainAccuracy !== undefined) return { accuracy: abstainAccuracy };
  return abstainCoverage === undefined ? null : { coverage: abstainCoverage };
}

function evaluationText(evaluation: RunEvaluation): string {
  const { split, skipped, columnsPerSecond, calibrationError, abstention } = evaluation;
  const left = skipped > 0 ? `; ${skipped} columns of unknown labels left out` : "";
  const lines = [
    formatReport(evaluation),
    `${split} split, ${columnsPerSecond.toFixed(0)} columns a second, calibration error ${calibrationError.toFixed(3)}${left}`,
  ];
  if (abstention) lines.push("", abstentionText(abstention));
  if (evaluation.swarm) lines.push("", swarmText(evaluation, evaluation.swarm));
  return lines.join("\n");
}

function abstentionText({
  threshold,
  coverage,
  selectiveAccuracy,
  microF1,
  macroF1,
}: SelectiveFigures): string {
  const right = selectiveAccuracy === null ? "none" : selectiveAccuracy.toFixed(3);
  return (
    `abstaining below a confidence of ${threshold.toFixed(3)}: coverage ${coverage.toFixed(3)}, ` +
    `selective accuracy ${right}, macro F1 ${macroF1.toFixed(3)}, micro F1 ${microF1.toFixed(3)}`
  );
}

function swarmText(
  { macroF1, microF1 }: RunEvaluation,
  { activationRate, activationByDomain, criticalPath, controls }: SwarmFigures,
): string {
  const ids = Object.keys(activationRate);
  const activation = terminalTable({
    headers: ["activation", ...ids],
    rows: [
      ["all columns", ...Object.values(activationRate)],
      ...Object.entries(activationByDomain).map(([domain, rates]) => [domain, ...Object.values(rates)]),
    ],
    decimals: 2,
  });
  const compared = terminalTable({
    headers: ["routing", "macro F1", "micro F1", "activation"],
    rows: [
      ["the router's", macroF1, microF1, mean(Object.values(activationRate))],
      ...Object.entries(controls).map(([name, c]) => [name, c.macroF1, c.microF1, c.activation]),
    ],
  });
  const { ideal, measured, work, wall } = criticalPath;
  const path = `critical path ${ideal.toFixed(1)} ms ideal, ${measured.toFixed(1)} ms measured; work ${work.toFixed(1)} ms, wall ${wall.toFixed(1)} ms a batch`;
  const meaning =
    "every line is what the swarm says with its specialists routed otherwise; shuffled: the router's decisions given to other columns; " +
    "what a specialist says alone, 'evaluate' of its own run tells";
  return [activation, ...(Object.keys(controls).length > 0 ? [compared, meaning] : []), path].join("\n\n");
}
