import { type Command, Option } from "commander";
import type { z } from "zod";
import { writeRunSummary } from "../report/runSummary.js";
import type { Calibration } from "../train/calibration.js";
import { openDataSource, recordedSource } from "../train/dataSource.js";
import { defined } from "../train/defined.js";
import type { TrainingOutcome } from "../train/loop.js";
import { readRunConfig } from "../train/runFolder.js";
import type { TrainedAnnotator, trainSupervised } from "../train/supervised.js";
import { addDataOptions, type DataFlags, sourceFrom } from "./dataOptions.js";
import { withInterrupt } from "./interrupt.js";
import { progressView } from "./progress.js";
import { addModelOptions, addSettings, checkMainOption, modelFrom, number } from "./settings.js";

export interface TrainFlags extends DataFlags {
  out: string;
  resume?: boolean;
  init?: string;
  quiet?: boolean;
  json?: boolean;
  maxTokens?: number;
  maxContext?: number;
  targetCells?: number;
  contextCells?: number;
  cellBytes?: number;
  contextCellBytes?: number;
  contextChoice?: "relevant" | "sampled";
  sharedColumns?: boolean;
  columns?: boolean;
  headers?: boolean;
}

/** What every training command shares. */
export function trainingCommand(train: Command, name: string, settings: z.ZodObject): Command {
  const command = train
    .command(name)
    .requiredOption("--out <run>", "run folder")
    .option("--resume", "continue the run in --out: its recorded data and options hold")
    .option("--max-tokens <n>", "tokens of a serialised column at most", number)
    .option("--max-context <n>", "context columns at most", number)
    .option("--target-cells <n>", "cells of the target column at most (default: 8)", number)
    .option("--context-cells <n>", "cells of a context column at most (default: 3)", number)
    .option("--cell-bytes <n>", "bytes of a cell at most (default: 48)", number)
    .option("--context-cell-bytes <n>", "the same of context columns", number)
    .addOption(
      new Option("--context-choice <how>", "context columns: by relevance, or a sample").choices([
        "relevant",
        "sampled",
      ]),
    )
    .option("--shared-columns", "column-wise: write context columns as targets, so that each is encoded once")
    .option("--headers", "let the model read column headers")
    .option("--quiet", "show no progress")
    .option("--json", "print the outcome as JSON");
  addDataOptions(command);
  addModelOptions(command);
  return addSettings(command, settings);
}

/** What a training command prints. */
type CommandOutcome = TrainingOutcome & { calibration?: Omit<Calibration, "logPrior"> };

export function calibratedOutcome({
  outcome,
  calibration,
}: Pick<TrainedAnnotator, "outcome" | "calibration">): CommandOutcome {
  if (!calibration) return outcome;
  const { logPrior: _, ...said } = calibration;
  return { ...outcome, calibration: said };
}

/** Opens the data, trains under Ctrl-C, prints the outcome. */
export async function runTraining(
  command: Command,
  flags: TrainFlags,
  train: (common: CommonRun, warn: (text: string) => void) => Promise<CommandOutcome>,
): Promise<void> {
  const source = flags.resume ? await recordedSource(flags.out) : sourceFrom(flags);
  const view = progressView({ quiet: flags.quiet });
  try {
    const outcome = await withInterrupt(async (signal) => {
      const dataset = await openDataSource(source);
      const common: CommonRun = {
        dataset,
        dataSource: { ...source },
        model: modelFrom(command.opts()),
        serialise: serialiseFrom(flags),
        out: flags.out,
        resume: flags.resume,
        signal,
        onProgress: (progress) => view.update(progress),
      };
      return train(common, (text) => view.warn(text));
    });
    view.stop();
    await writeRunSummary(flags.out, outcome);
    await printOutcome(flags, outcome);
  } finally {
    view.stop();
  }
}

/** The part of a training's options that all commands give. */
type CommonRun = Pick<
  Parameters<typeof trainSupervised>[0],
  "dataset" | "dataSource" | "model" | "serialise" | "out" | "resume" | "signal" | "onProgress"
>;

/** @throws AegirError ERR_CONFIG */
function serialiseFrom(flags: TrainFlags) {
  const hasColumns = flags.columns === true || flags.resume === true;
  checkMainOption("--columns", hasColumns, flags.sharedColumns ? ["--shared-columns"] : []);
  const { maxTokens, maxContext, targetCells, contextCells, cellBytes, contextCellBytes, headers } = flags;
  return defined({
    maxTokens,
    maxContext,
    targetCells,
    contextCells,
    cellBytes,
    contextCellBytes,
    headers,
    choose: flags.contextChoice,
    shared: flags.sharedColumns,
    form: flags.columns ? ("columns" as const) : undefined,
  });
}

async function printOutcome(flags: TrainFlags, outcome: CommandOutcome): Promise<void> {
  if (flags.json) {
    process.stdout.write(`${JSON.stringify({ out: flags.out, ...outcome })}\n`);
    return;
  }
  const { steps, best, seconds, lag, stoppedEarly, stopReason, calibration } = outcome;
  const score = best ? `, best validation score ${best.score.toFixed(3)} at step ${best.step}` : "";
  const early = stoppedEarly ? ` (stopped early${stopReason ? `: ${stopReason}` : ""})` : "";
  process.stdout.write(
    `${flags.out}: ${steps} steps${early} in ${seconds.toFixed(0)} s${score}; timer lag p99 ${lag.p99.toFixed(1)} ms\n`,
  );
  if (!calibration) return;
  // A swarm that learns on held-out sites is judged by validation; what holds them out, by them.
  const { kind, options } = await readRunConfig(flags.out);
  const where = kind !== "parl" && "holdOut" in options ? "the held-out sites" : "validation";
  const { priorPower, temperature, macroF1, calibrationError } = calibration;
  process.stdout.write(
    `calibrated on ${where}: prior to the power ${priorPower} by macro F1, ${macroF1.toFixed(3)}; temperature ${temperature.toFixed(2)} by likelihood; ` +
      `expected calibration error ${calibrationError.after.toFixed(3)}, without ${calibrationError.before.toFixed(3)}\n`,
  );
}
