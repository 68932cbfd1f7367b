import { Command } from "commander";
import type { z } from "zod";
import { AegirError } from "../errors.js";
import { writeRunSummary } from "../report/runSummary.js";
import { type DataSource, dataSourceSchema, openDataSource } from "../train/dataSource.js";
import type { TrainingOutcome } from "../train/loop.js";
import { pretrain, pretrainOptions } from "../train/pretrain.js";
import { readRunConfig } from "../train/runFolder.js";
import { supervisedOptions, trainSupervised } from "../train/supervised.js";
import { addDataOptions, type DataFlags, sourceFrom } from "./dataOptions.js";
import { withInterrupt } from "./interrupt.js";
import { progressView } from "./progress.js";
import { addModelOptions, addSettings, modelFrom, number, settingsFrom } from "./settings.js";

interface TrainFlags extends DataFlags {
  out: string;
  resume?: boolean;
  init?: string;
  quiet?: boolean;
  json?: boolean;
  maxTokens?: number;
  maxContext?: number;
  headers?: boolean;
}

/** `aegir-swarm train pretrain | supervised | parl`. */
export function register(program: Command): void {
  const train = program
    .command("train")
    .description("Train models: pretrain, supervised (phase 1), parl (phase 3).");
  train.addCommand(supervisedCommand());
  train.addCommand(pretrainCommand());
}

function supervisedCommand(): Command {
  const command = trainingCommand("supervised", supervisedOptions)
    .description("Train an annotation model on labelled columns.")
    .option("--init <run>", "start from the weights of this run (pretraining or supervised)")
    .action(async (flags: TrainFlags) => {
      await runTraining(command, flags, async (common) => {
        const given = settingsFrom(command, supervisedOptions);
        const { model, outcome } = await trainSupervised({ ...common, ...given, init: flags.init });
        model.dispose();
        return outcome;
      });
    });
  return command;
}

function pretrainCommand(): Command {
  const command = trainingCommand("pretrain", pretrainOptions)
    .description(
      "Pretrain a byte-level language model on the columns of tables; --init of supervised training.",
    )
    .action(async (flags: TrainFlags) => {
      await runTraining(command, flags, async (common) => {
        const given = settingsFrom(command, pretrainOptions);
        const { model, outcome } = await pretrain({ ...common, ...given });
        model.dispose();
        return outcome;
      });
    });
  return command;
}

/** What every training command shares. */
export function trainingCommand(name: string, settings: z.ZodObject): Command {
  const command = new Command(name)
    .requiredOption("--out <run>", "run folder")
    .option("--resume", "continue the run in --out: its recorded data and options hold")
    .option("--max-tokens <n>", "tokens of a serialised column at most", number)
    .option("--max-context <n>", "context columns at most", number)
    .option("--headers", "let the model read column headers")
    .option("--quiet", "show no progress")
    .option("--json", "print the outcome as JSON");
  addDataOptions(command);
  addModelOptions(command);
  return addSettings(command, settings);
}

/** Opens the data, trains under Ctrl-C, prints the outcome. */
export async function runTraining(
  command: Command,
  flags: TrainFlags,
  train: (common: CommonRun) => Promise<TrainingOutcome>,
): Promise<void> {
  const source = flags.resume ? await recordedSource(flags.out) : sourceFrom(flags);
  const view = progressView({ quiet: flags.quiet });
  try {
    const outcome = await withInterrupt(async (signal) => {
      const dataset = await openDataSource(source);
      return train({
        dataset,
        dataSource: { ...source },
        model: modelFrom(command.opts()),
        serialise: serialiseFrom(flags),
        out: flags.out,
        resume: flags.resume,
        signal,
        onProgress: (progress) => view.update(progress),
      });
    });
    view.stop();
    await writeRunSummary(flags.out, outcome);
    printOutcome(flags, outcome);
  } finally {
    view.stop();
  }
}

/** The part of a training's options that all commands give. */
export type CommonRun = Pick<
  Parameters<typeof trainSupervised>[0],
  "dataset" | "dataSource" | "model" | "serialise" | "out" | "resume" | "signal" | "onProgress"
>;

async function recordedSource(dir: string): Promise<DataSource> {
  const { data } = await readRunConfig(dir);
  const parsed = dataSourceSchema.safeParse(data);
  if (parsed.success) return parsed.data;
  throw new AegirError(
    "ERR_CONFIG",
    `${dir} does not record where its data came from; resume it from TypeScript`,
  );
}

function serialiseFrom({ maxTokens, maxContext, headers }: TrainFlags) {
  return {
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(maxContext === undefined ? {} : { maxContext }),
    ...(headers === undefined ? {} : { headers }),
  };
}

function printOutcome(flags: TrainFlags, outcome: TrainingOutcome): void {
  if (flags.json) {
    process.stdout.write(`${JSON.stringify({ out: flags.out, ...outcome })}\n`);
    return;
  }
  const { steps, best, seconds, lag, stoppedEarly } = outcome;
  const score = best ? `, best validation score ${best.score.toFixed(3)} at step ${best.step}` : "";
  const early = stoppedEarly ? " (stopped early)" : "";
  process.stdout.write(
    `${flags.out}: ${steps} steps${early} in ${seconds.toFixed(0)} s${score}; timer lag p99 ${lag.p99.toFixed(1)} ms\n`,
  );
}
