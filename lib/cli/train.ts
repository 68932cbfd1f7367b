import { resolve } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import type { Task } from "../data/types.js";
import { type DataSource, folderSource, openDataSource } from "../train/dataSource.js";
import { distill, distillOptions } from "../train/distill.js";
import { type LoadedRun, loadRun } from "../train/loadRun.js";
import { pretrain, pretrainOptions } from "../train/pretrain.js";
import { readRunConfig } from "../train/runFolder.js";
import { type AlsoTask, supervisedOptions, trainSupervised } from "../train/supervised.js";
import { Scope } from "../train/tensors.js";
import { checkMainOption, settingsFrom } from "./settings.js";
import { calibratedOutcome, runTraining, type TrainFlags, trainingCommand } from "./trainingCommand.js";
import { addParl } from "./trainParl.js";
import { addSpecialist } from "./trainSpecialist.js";

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
        const ofUnlabelled = flags.unlabelledTask ? ["--unlabelled-task"] : [];
        checkMainOption("--unlabelled", flags.unlabelled.length > 0 || flags.resume === true, ofUnlabelled);
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
