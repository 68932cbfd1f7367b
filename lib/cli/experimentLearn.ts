import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Command, Option } from "commander";
import type { Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import type { ScoredSplit } from "../experiment/learn/answers.js";
import { runLearnExperiment } from "../experiment/learn/experiment.js";
import { type LearnPlan, learnPlan } from "../experiment/learn/plan.js";
import { type LearnReport, summarise } from "../experiment/learn/summary.js";
import { learnText, writeLearnReport } from "../report/learnReport.js";
import { type DataSource, folderSource, generatedSource } from "../train/dataSource.js";
import { defined } from "../train/defined.js";
import { type ExperimentFlags, reportExperiment } from "./experimentReport.js";
import type { progressView } from "./progress.js";
import { number } from "./settings.js";

interface LearnFlags extends ExperimentFlags {
  data?: string;
  trainFile?: string;
  task: Task;
  other?: string | false;
  unlabelled: string[];
  seeds: number;
  steps?: number;
  distillSteps?: number;
  latent?: number;
  headers?: boolean;
  ablations?: string[];
  curve?: number[];
  split: ScoredSplit;
  quick?: boolean;
  jobs: number;
}

/** `aegir-swarm experiment learn`. */
export function registerLearn(experiment: Command): void {
  const { ablations } = learnPlan(false);
  experiment
    .command("learn")
    .description(
      "What a single model learns from few labelled columns: beside n-gram baselines, distilled, in ensembles, with ablations and a learning curve (docs/learning.md).",
    )
    .option("--data <dir>", "folder of labelled tables; absent: generated ones")
    .addOption(new Option("--task <task>", "what is annotated").choices(["cta", "cpa"]).default("cta"))
    .option(
      "--train-file <name>",
      "SOTAB's layout: full, small, or a training ground-truth file (default: full)",
    )
    .option(
      "--other <dir>",
      "folder of tables with labels of the other task (cpa for cta), which stacked classifiers and unlabelled columns are taken from (default: those of --data)",
    )
    .option("--no-other", "use none")
    .option("--unlabelled <dir...>", "further folders of tables that distillation reads without labels", [])
    .option("--seeds <n>", "repetitions; more can be added later", number, 3)
    .option("--steps <n>", "steps of the model on labels alone", number)
    .option(
      "--latent <n>",
      "dimensions of a latent space that the n-gram and stacked specialists read too: for data of names, with few columns",
      number,
    )
    .option("--headers", "let every system read column headers, the baselines too")
    .option("--distill-steps <n>", "steps of the distilled model", number)
    .option(
      "--ablations <name,…>",
      `changes of the recipe to try, or none: ${ablations.map(({ name }) => name.replaceAll(",", "")).join(", ")} (default: all)`,
      (text: string) => (text === "none" ? [] : text.split(",").map((name) => name.trim())),
    )
    .option("--curve <n,…>", "labelled columns of the learning curve, or none", counts)
    .addOption(
      new Option("--split <split>", "columns of the main table; test once, when nothing is left to choose")
        .choices(["validation", "test"])
        .default("validation"),
    )
    .option("--quick", "small trainings: they show that all works, not what a model can learn")
    .option("--jobs <n>", "parts at a time, one thread each", number, 2)
    .option("--out <dir>", "folder of the experiment", "runs/experiment-learn")
    .option("--quiet", "show no progress")
    .option("--json", "print the report as JSON")
    .action((flags: LearnFlags) =>
      reportExperiment(flags, (signal, view) => runLearn(flags, signal, view), {
        write: writeLearnReport,
        text: learnText,
      }),
    );
}

async function runLearn(
  flags: LearnFlags,
  signal: AbortSignal,
  view: ReturnType<typeof progressView>,
): Promise<LearnReport> {
  const { data, task, trainFile, quick = false, seeds, split, jobs, out } = flags;
  const tables = quick ? 90 : 600;
  const source =
    data === undefined
      ? generatedSource({ tables, validation: 0.2, test: 0.2 })
      : folderSource(data, task, trainFile);
  // Every column of generated tables has a label: others are read without theirs, those whose names are not taken.
  const more = data === undefined ? [generatedSource({ seed: 1, tables: 2 * tables })] : [];
  const unlabelled = [...more, ...flags.unlabelled.map((dir) => folderSource(dir))];
  const other = otherSource(flags);
  const plan = planOf(flags, quick, other !== undefined);
  const results = await runLearnExperiment({
    source,
    ...defined({ other }),
    unlabelled,
    seeds,
    split,
    plan,
    jobs,
    out,
    signal,
    onProgress: (progress) => view.update(progress),
    onNote: (text) => view.note(text),
  });
  return { ...summarise({ seeds, split, plan }, results, data ?? "generated tables"), quick };
}

/** Labels of the other task: of --other, or of --data where it has them. */
function otherSource({ data, task, other }: LearnFlags): DataSource | undefined {
  if (other === false) return undefined;
  const name = task === "cta" ? "cpa" : "cta";
  const dir = other ?? (data !== undefined && existsSync(join(data, name.toUpperCase())) ? data : undefined);
  return dir === undefined ? undefined : folderSource(dir, name);
}

function planOf(
  { steps, distillSteps, latent, headers = false, ablations, curve }: LearnFlags,
  quick: boolean,
  withOther: boolean,
): LearnPlan {
  const plan = headers ? withHeaders(learnPlan(quick)) : learnPlan(quick);
  const specialists = latent === undefined ? plan.specialists : withLatent(plan.specialists, latent);
  const { properties: _, ...without } = specialists;
  const nameOf = (name: string) => name.replaceAll(",", "");
  const unknown = ablations?.find((name) => !plan.ablations.some((each) => nameOf(each.name) === name));
  if (unknown !== undefined) {
    const known = plan.ablations.map(({ name }) => nameOf(name)).join(", ");
    throw new AegirError("ERR_CONFIG", `--ablations: no change is called '${unknown}'; they are ${known}`);
  }
  return {
    ...plan,
    train: { ...plan.train, ...defined({ steps }) },
    distill: { ...plan.distill, ...defined({ steps: distillSteps }) },
    specialists: withOther ? specialists : without,
    ablations: plan.ablations.filter(
      ({ name, also }) => (withOther || !also) && (ablations?.includes(nameOf(name)) ?? true),
    ),
    ...defined({ curve }),
  };
}

function withHeaders({ serialise, ngrams, swarm, ...plan }: LearnPlan): LearnPlan {
  const { primary } = swarm;
  return {
    ...plan,
    serialise: { ...serialise, headers: true },
    ngrams: { ...ngrams, headers: true },
    swarm: { ...swarm, primary: { ...primary, serialise: { ...primary.serialise, headers: true } } },
  };
}

function withLatent(specialists: LearnPlan["specialists"], latent: number): LearnPlan["specialists"] {
  const changed = ["ngram", "stacked"].map((name) => {
    const { kind, options } = specialists[name]!;
    return [name, { kind, options: { ...options, latent } }] as const;
  });
  return { ...specialists, ...Object.fromEntries(changed) };
}

function counts(text: string): number[] {
  return text === "none" ? [] : text.split(",").map(number);
}
