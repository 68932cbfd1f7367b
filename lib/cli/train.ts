import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { z } from "zod";
import type { Dataset, Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import { writeRunSummary } from "../report/runSummary.js";
import { SPECIALIST_KINDS, type SpecialistKind } from "../specialists/index.js";
import type { Calibration } from "../train/calibration.js";
import { specialistOf } from "../train/columnModel.js";
import { type DataSource, folderSource, openDataSource, recordedSource } from "../train/dataSource.js";
import { defined } from "../train/defined.js";
import { distill, distillOptions } from "../train/distill.js";
import { type LoadedRun, loadRun } from "../train/loadRun.js";
import type { TrainingOutcome } from "../train/loop.js";
import { holdOut } from "../train/loopOptions.js";
import { type ParlRun, trainParl } from "../train/parl.js";
import { parlOptions } from "../train/parlOptions.js";
import { pretrain, pretrainOptions } from "../train/pretrain.js";
import { readRunConfig } from "../train/runFolder.js";
import { trainSpecialist } from "../train/specialistRun.js";
import {
  type AlsoTask,
  supervisedOptions,
  type TrainedAnnotator,
  trainSupervised,
} from "../train/supervised.js";
import { Scope } from "../train/tensors.js";
import { addDataOptions, type DataFlags, sourceFrom } from "./dataOptions.js";
import { withInterrupt } from "./interrupt.js";
import { progressView } from "./progress.js";
import {
  addModelOptions,
  addSettings,
  checkMainOption,
  modelFrom,
  number,
  settingsFrom,
} from "./settings.js";

interface TrainFlags extends DataFlags {
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

interface DistillFlags {
  teacher: string[];
  unlabelled: string[];
  unlabelledTask?: Task;
}

interface AlsoFlags {
  also: DataSource[];
}

/** Multi-task learning. */
const ALSO: [flags: string, description: string, parse: typeof alsoFlag, initial: DataSource[]] = [
  "--also <task=dir>",
  "labels of another task (cta or cpa) to learn on the same backbone; repeat for each (--resume: the recorded ones)",
  alsoFlag,
  [],
];

function alsoFlag(text: string, former: DataSource[]): DataSource[] {
  const [, task, dir] = /^(cta|cpa)=(.+)$/.exec(text) ?? [];
  if (!task) throw new InvalidArgumentError("expected task=dir, as in cpa=tables");
  return [...former, folderSource(dir!, task as Task)];
}

async function otherTasks({ also, resume, out }: TrainFlags & AlsoFlags): Promise<AlsoTask[]> {
  const recorded = resume ? (await readRunConfig(out)).also : undefined;
  const sources = (recorded as { source: DataSource }[] | undefined)?.map(({ source }) => source) ?? also;
  const tasks: AlsoTask[] = [];
  for (const [i, source] of sources.entries()) {
    const { task } = source as DataSource & { kind: "folder" };
    const name = sources.length > 1 ? `${i + 1}-${task}` : task;
    tasks.push({ name, dataset: await openDataSource(source), source: { ...source } });
  }
  return tasks;
}

/** `aegir-swarm train pretrain | supervised | distill | specialist | parl`. */
export function register(program: Command): void {
  const train = program
    .command("train")
    .description("Train models: pretrain, supervised and specialist (phase 1), distill, parl (phase 3).");
  addSupervised(train);
  addDistill(train);
  addSpecialist(train);
  addPretrain(train);
  addParl(train);
}

function addSupervised(train: Command): void {
  const command = trainingCommand(train, "supervised", supervisedOptions)
    .description("Train an annotation model on labelled columns.")
    .option("--init <run>", "start from the weights of this run (pretraining or supervised)")
    .option(...ALSO)
    .action(async (flags: TrainFlags & AlsoFlags) => {
      await runTraining(command, flags, async (common) => {
        const given = settingsFrom(command, supervisedOptions);
        const also = await otherTasks(flags);
        const trained = await trainSupervised({ ...common, ...given, init: flags.init, also });
        trained.model.dispose();
        return calibratedOutcome(trained);
      });
    });
}

function addDistill(train: Command): void {
  const settings = supervisedOptions.extend(distillOptions.shape);
  const command = trainingCommand(train, "distill", settings)
    .description(
      "Train an annotation model on labelled columns and on what trained runs say of columns without labels.",
    )
    .option(
      "--teacher <run...>",
      "run folders that teach; their mean is learnt (--resume: the recorded ones)",
      [],
    )
    .option(
      "--unlabelled <dir...>",
      "folders of labelled tables whose training tables are read without their labels (--resume: the recorded ones)",
      [],
    )
    .option("--unlabelled-task <task>", "which labels' tables those are: cta or cpa (default: --task)")
    .option(...ALSO)
    .action(async (flags: TrainFlags & DistillFlags & AlsoFlags) => {
      await runTraining(command, flags, async (common) => {
        const recorded = flags.resume ? (await readRunConfig(flags.out)).distill : undefined;
        const given = settingsFrom(command, settings);
        const task = flags.unlabelledTask ?? flags.task;
        const unlabelled =
          (recorded?.unlabelled as DataSource[] | undefined) ??
          flags.unlabelled.map((dir) => folderSource(dir, task));
        using scope = new Scope();
        const teachers: LoadedRun[] = [];
        for (const run of (recorded?.teachers as string[] | undefined) ??
          flags.teacher.map((dir) => resolve(dir)))
          teachers.push(scope.keep(await loadRun(run, { name: run })));
        const also = await otherTasks(flags);
        const trained = await distill({ ...common, ...given, teachers, unlabelled, also });
        trained.model.dispose();
        return calibratedOutcome(trained);
      });
    });
}

function addPretrain(train: Command): void {
  const command = trainingCommand(train, "pretrain", pretrainOptions)
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
}

function addParl(train: Command): void {
  const command = trainingCommand(train, "parl", parlOptions)
    .description("Train a primary, a router and fusion over frozen specialists by reinforcement learning.")
    .option(
      "--specialist <name=run>",
      "a run to freeze as a specialist (supervised or specialist); repeat for each",
      specialistFlag,
      [],
    )
    .option(
      "--stand-in <name=run>",
      "with --learn-from held-out: a run that was trained as the specialist, with --hold-out; repeat for each",
      specialistFlag,
      [],
    )
    .option(
      "--init <run>",
      "start from this run: a model for the primary, or a swarm of the same specialists",
    )
    .action(async (flags: TrainFlags & { specialist: SpecialistFlag[]; standIn: SpecialistFlag[] }) => {
      await runTraining(command, flags, async (common, note) => {
        const named = flags.resume ? await recordedSpecialists(flags.out) : flags.specialist;
        using scope = new Scope();
        const specialists: ParlRun["specialists"] = [];
        for (const { id, run } of named) {
          const loaded = scope.keep(await loadRun(run, { name: id }));
          specialists.push(specialistOf(loaded, id, `--specialist ${id}`));
        }
        const standing = flags.resume ? ((await readRunConfig(flags.out)).standIns ?? []) : flags.standIn;
        const standIns: Record<string, LoadedRun> = {};
        for (const { id, run } of standing) standIns[id] = scope.keep(await loadRun(run, { name: id }));
        const given = settingsFrom(command, parlOptions);
        if (given.learnFrom === "held-out") note(answering(named, standing));
        const trained = await trainParl({
          ...common,
          ...given,
          specialists,
          standIns,
          init: flags.init,
          onWarning: note,
        });
        trained[Symbol.dispose]();
        return calibratedOutcome(trained);
      });
    });
}

/** Who speaks on the held-out sites while a swarm learns. */
function answering(specialists: readonly SpecialistFlag[], standIns: readonly SpecialistFlag[]): string {
  const stood = standIns.map(({ id }) => id);
  const rest = specialists.map(({ id }) => id).filter((id) => !stood.includes(id));
  const themselves = `${rest.join(", ")} answer for themselves, linear ones by fits without a column's site, models by what they know, by heart where they were trained on it`;
  const parts = [
    ...(stood.length > 0 ? [`stand-ins answer for ${stood.join(", ")}`] : []),
    ...(rest.length > 0 ? [themselves] : []),
  ];
  return `on the held-out sites ${parts.join("; ")}`;
}

interface SpecialistTrainFlags extends DataFlags {
  kind: SpecialistKind;
  otherTask?: Task;
  out: string;
  quiet?: boolean;
  json?: boolean;
}

/** Options of every kind, each once; those of another kind than --kind are errors. */
function addSpecialist(train: Command): void {
  const kinds = Object.keys(SPECIALIST_KINDS);
  const ofKinds = z.strictObject(
    Object.assign({}, ...Object.values(SPECIALIST_KINDS).map((kind) => kind.options.shape)),
  );
  const shared = z.strictObject({ holdOut });
  const command = train
    .command("specialist")
    .description(
      "Train a specialist that reads columns and not tokens, in seconds to minutes; for train parl --specialist.",
    )
    .addOption(new Option("--kind <name>", "what it reads").choices(kinds).default("ngram"))
    .addOption(
      new Option("--other-task <task>", "stacked: labels of the same folder that are read too").choices([
        "cta",
        "cpa",
      ]),
    )
    .requiredOption("--out <run>", "run folder")
    .option("--quiet", "show no progress")
    .option("--json", "print the outcome as JSON");
  addDataOptions(command);
  addSettings(addSettings(command, ofKinds), shared).action(async (flags: SpecialistTrainFlags) => {
    const source = sourceFrom(flags);
    const view = progressView({ quiet: flags.quiet });
    try {
      const before = process.cpuUsage();
      const specialist = await withInterrupt(
        async (signal) =>
          trainSpecialist({
            kind: flags.kind,
            dataset: await openDataSource(source),
            others: flags.otherTask ? [await openOtherTask(flags, flags.otherTask)] : [],
            dataSource: { ...source },
            options: settingsFrom(command, ofKinds),
            ...settingsFrom(command, shared),
            out: flags.out,
            signal,
            onProgress: (progress) => view.update(progress),
          }),
        { saves: false },
      );
      view.stop();
      const { user, system } = process.cpuUsage(before);
      const { labels, learned, extractor } = specialist;
      const figures = {
        labels: labels.length,
        features: extractor.columns,
        tau: learned.tau,
        ...defined({ macroF1: learned.validationF1 }),
        cpuSeconds: (user + system) / 1e6,
      };
      const judge = "holdOut" in settingsFrom(command, shared) ? "the held-out sites" : "validation";
      const judged =
        learned.validationF1 === undefined
          ? ""
          : ` (chosen on ${judge}: macro F1 ${learned.validationF1.toFixed(3)})`;
      process.stdout.write(
        flags.json
          ? `${JSON.stringify({ out: flags.out, kind: flags.kind, ...figures })}\n`
          : `${flags.out}: ${flags.kind}, ${figures.labels} labels, ${figures.features} features, ` +
              `tau ${figures.tau}${judged}, ${figures.cpuSeconds.toFixed(1)} CPU seconds\n`,
      );
    } finally {
      view.stop();
    }
  });
}

/** @throws AegirError ERR_CONFIG where the folder has one task's labels alone */
function openOtherTask(flags: SpecialistTrainFlags, task: Task): Promise<Dataset> {
  const { data } = flags;
  if (data === undefined || task === flags.task) {
    throw new AegirError(
      "ERR_CONFIG",
      `--other-task ${task}: expected another task than --task ${flags.task}, and a folder of tables in --data; generated tables have labels of cta alone`,
    );
  }
  if (!existsSync(join(data, task.toUpperCase()))) {
    throw new AegirError(
      "ERR_CONFIG",
      `--other-task ${task}: ${data} has no labels of it; expected folders CTA and CPA in ${data}, each with the tables and labels of its task`,
    );
  }
  return openDataSource(sourceFrom({ ...flags, task }));
}

interface SpecialistFlag {
  id: string;
  run: string;
}

function specialistFlag(text: string, former: SpecialistFlag[]): SpecialistFlag[] {
  const at = text.indexOf("=");
  if (at <= 0) throw new InvalidArgumentError("expected name=run, as in people=runs/people");
  return [...former, { id: text.slice(0, at), run: text.slice(at + 1) }];
}

/** A swarm's run folder holds its specialists. */
async function recordedSpecialists(dir: string): Promise<SpecialistFlag[]> {
  const { swarm } = await readRunConfig(dir);
  const ids = (swarm?.specialists ?? []) as string[];
  return ids.map((id) => ({ id, run: join(dir, "specialists", id) }));
}

/** What every training command shares. */
function trainingCommand(train: Command, name: string, settings: z.ZodObject): Command {
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

function calibratedOutcome({
  outcome,
  calibration,
}: Pick<TrainedAnnotator, "outcome" | "calibration">): CommandOutcome {
  if (!calibration) return outcome;
  const { logPrior: _, ...said } = calibration;
  return { ...outcome, calibration: said };
}

/** Opens the data, trains under Ctrl-C, prints the outcome. */
async function runTraining(
  command: Command,
  flags: TrainFlags,
  train: (common: CommonRun, note: (text: string) => void) => Promise<CommandOutcome>,
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
      return train(common, (text) => view.note(text));
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
