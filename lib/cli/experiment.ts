import { basename } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import type { Task } from "../data/types.js";
import { Datasets, groupNames } from "../experiment/datasets.js";
import {
  type ParlExperiment,
  runParlExperiment,
  type SpecialistChoice,
} from "../experiment/parl/experiment.js";
import { generatedPlan, generatedTables, type ParlPlan, realPlan } from "../experiment/parl/plan.js";
import { type ParlReport, summarise } from "../experiment/parl/summary.js";
import { parlText, writeParlReport } from "../report/parlReport.js";
import { type DataSource, folderSource, generatedSource } from "../train/dataSource.js";
import { defined } from "../train/defined.js";
import { registerLearn } from "./experimentLearn.js";
import { type ExperimentFlags, reportExperiment } from "./experimentReport.js";
import type { progressView } from "./progress.js";
import { number } from "./settings.js";

interface ParlFlags extends ExperimentFlags {
  data?: string;
  task: Task;
  trainFile?: string;
  seeds: number;
  specialist: SpecialistChoice[];
  specialistData: SpecialistChoice[];
  groups: boolean;
  fuse?: "states" | "outputs" | "states+outputs";
  cost?: number;
  steps?: number;
  specialistSteps?: number;
  routerSteps?: number;
  split: "test" | "validation";
  quick?: boolean;
  jobs: number;
}

/** `aegir-swarm experiment parl | learn`. */
export function register(program: Command): void {
  const experiment = program
    .command("experiment")
    .description("Experiments that anyone can rerun; interrupted, the same command continues.");
  registerLearn(experiment);
  experiment
    .command("parl")
    .description(
      "A swarm beside its controls over several seeds: accuracy, what its router has learned, and what routing buys (docs/parl.md).",
    )
    .option("--data <dir>", "folder of labelled tables; absent: generated ones, anew for each seed")
    .addOption(new Option("--task <task>", "what is annotated").choices(["cta", "cpa"]).default("cta"))
    .option(
      "--train-file <name>",
      "SOTAB's layout: full, small, or a training ground-truth file (default: full)",
    )
    .option("--seeds <n>", "repetitions; more can be added later", number, 3)
    .option("--specialist <name=run>", "a supervised run as a specialist; repeat for each", runFlag, [])
    .option(
      "--specialist-data <name=dir>",
      "labelled tables to train a further specialist on; repeat for each",
      dataFlag,
      [],
    )
    .option("--no-groups", "no specialists of domains (generated tables) or label families (real ones)")
    .addOption(
      new Option("--fuse <what>", "what of the specialists enters the primary").choices([
        "states",
        "outputs",
        "states+outputs",
      ]),
    )
    .option("--cost <c>", "what activating every specialist costs a row, in both ways of training", number)
    .option("--steps <n>", "steps of every primary", number)
    .option("--specialist-steps <n>", "steps of every specialist", number)
    .option("--router-steps <n>", "steps of the router alone", number)
    .addOption(
      new Option("--split <split>", "columns of the report; validation while something is still chosen")
        .choices(["test", "validation"])
        .default("test"),
    )
    .option("--quick", "a smaller run: it shows that all works, not what a swarm can do")
    .option("--jobs <n>", "parts at a time, one thread each", number, 2)
    .option("--out <dir>", "folder of the experiment", "runs/experiment-parl")
    .option("--quiet", "show no progress")
    .option("--json", "print the report as JSON")
    .action((flags: ParlFlags) =>
      reportExperiment(flags, (signal, view) => runParl(flags, signal, view), {
        write: writeParlReport,
        text: parlText,
      }),
    );
}

async function runParl(
  flags: ParlFlags,
  signal: AbortSignal,
  view: ReturnType<typeof progressView>,
): Promise<ParlReport> {
  const { data, task, trainFile, quick = false, seeds, split, jobs, out } = flags;
  const generated = data === undefined;
  const source = (seed: number): DataSource =>
    generated ? generatedSource(generatedTables(quick, seed)) : folderSource(data, task, trainFile);
  const groups = generated ? "domains" : "families";
  const datasets = new Datasets();
  const dataset = await datasets.get(source(0));
  const specialists = [
    ...(flags.groups ? groupNames(dataset, groups).map((id) => ({ id, kind: "group" }) as const) : []),
    ...flags.specialist,
    ...flags.specialistData,
  ];
  const plan = planOf(flags, generated ? generatedPlan(quick) : realPlan(quick));
  const experiment: ParlExperiment = { source, groups, specialists, seeds, split, plan, jobs, out };
  const results = await runParlExperiment({
    ...experiment,
    datasets,
    signal,
    onProgress: (progress) => view.update(progress),
    onNote: (text) => view.note(text),
  });
  return summarise(results, { split, data: dataset.name, quick, generated });
}

function planOf(flags: ParlFlags, plan: ParlPlan): ParlPlan {
  const { fuse, cost, steps, specialistSteps, routerSteps } = flags;
  return {
    ...plan,
    specialist: { ...plan.specialist, ...defined({ steps: specialistSteps }) },
    primary: { ...plan.primary, ...defined({ steps }) },
    together: { ...plan.together, ...defined({ fuse, cost }) },
    router: { ...plan.router, ...defined({ cost, steps: routerSteps }) },
  };
}

function runFlag(text: string, former: SpecialistChoice[]): SpecialistChoice[] {
  const [id, run] = named(text, "run");
  return [...former, { id, kind: "run", run }];
}

function dataFlag(text: string, former: SpecialistChoice[]): SpecialistChoice[] {
  const [id, dir] = named(text, "dir");
  return [...former, { id, kind: "data", source: folderSource(dir) }];
}

/** `name=path`, or a path whose last part is the name. */
function named(text: string, what: string): [id: string, path: string] {
  const at = text.indexOf("=");
  const id = at < 0 ? basename(text) : text.slice(0, at);
  const path = text.slice(at + 1);
  if (id === "" || path === "")
    throw new InvalidArgumentError(`expected name=${what}, as in people=runs/people`);
  return [id, path];
}
