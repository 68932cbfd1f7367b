import { join } from "node:path";
import { selectColumns } from "../data/dataset.js";
import type { Serialiser, SerialiserOptions } from "../data/serialise.js";
import type { Dataset, LabelledColumn, Table } from "../data/types.js";
import { AegirForColumnAnnotation } from "../model/index.js";
import { annotateTable, type ColumnAnnotation } from "./annotate.js";
import { type Evaluation, type EvaluationSet, evaluate, evaluationSet } from "./evaluate.js";
import { evaluateSwarm, type SwarmEvaluation } from "./evaluateSwarm.js";
import { trainableLabels } from "./examples.js";
import { monitorLag, type TimerLag } from "./lag.js";
import { loadRun } from "./loadRun.js";
import type { MetricValue } from "./metricsLog.js";
import { type SpecialistSource, type TrainedSwarm, trainParl } from "./parl.js";
import type { ParlOptions } from "./parlOptions.js";
import { runPool } from "./pool.js";
import { modelLogits } from "./predict.js";
import type { ProgressListener } from "./progress.js";
import { SharedCaches } from "./sharedCaches.js";
import { type SupervisedOptions, type SupervisedRun, trainSupervised } from "./supervised.js";
import { Scope } from "./tensors.js";

/** A specialist of the demo: its name and the columns it is trained on. */
export interface SpecialistGroup {
  id: string;
  keep: (column: LabelledColumn) => boolean;
}

/** Sizes of the demo's trainings. */
export interface DemoPlan {
  /** Geometry of every model. */
  model: NonNullable<SupervisedRun["model"]>;
  serialise: SerialiserOptions;
  specialist: SupervisedOptions;
  /** Of the primary alone and of every swarm: the same steps, batches and learning rates. */
  primary: Required<Pick<SupervisedOptions, "steps" | "batchRows" | "lr">>;
  parl: ParlOptions;
  /** Test columns at most. */
  testColumns: number;
}

export interface DemoRun {
  dataset: Dataset;
  groups: SpecialistGroup[];
  plan: DemoPlan;
  /** A table to annotate at the end. */
  example: Table;
  /** Folder for the runs and the report. */
  out: string;
  seed: number;
  dataSource?: { [key: string]: MetricValue };
  /** Trainings at a time, one thread each; default 2. */
  concurrency?: number;
  signal?: AbortSignal;
  onProgress?: ProgressListener;
  onNote?: (text: string) => void;
}

export interface DemoRow {
  name: string;
  macroF1: number;
  microF1: number;
  /** Share of (column, specialist) pairs activated; null without specialists. */
  activation: number | null;
}

export interface DemoResult {
  rows: DemoRow[];
  /** Macro F1 of each specialist on its own test columns. */
  specialists: { id: string; labels: number; columns: number; macroF1: number }[];
  /** Of the swarm with states. */
  swarm: SwarmEvaluation;
  annotations: ColumnAnnotation[];
  primarySteps: number;
  testColumns: number;
  seconds: number;
  lag: TimerLag;
}

const SWARMS = [
  { key: "states", name: "swarm, states fused", fuse: "states", random: false },
  { key: "outputs", name: "swarm, outputs fused", fuse: "outputs", random: false },
  { key: "both", name: "swarm, states and outputs", fuse: "states+outputs", random: false },
  { key: "random", name: "swarm, states of random specialists", fuse: "states", random: true },
] as const;

/**
 * The main job: specialists of parts of the labels and a primary of all of them, a router and fusion trained by PARL, the
 * result beside its controls on held-out columns, and a table annotated.
 * @throws AegirError ERR_CONFIG, ERR_DATA; ERR_ABORTED after saving what ran
 */
export async function runDemo(run: DemoRun): Promise<DemoResult> {
  const begin = performance.now();
  const lag = monitorLag();
  using scope = new Scope();
  try {
    run.onNote?.(`Training ${run.groups.length} specialists, and the primary alone.`);
    const { specialists, alone } = await trainModels(run, scope);
    run.onNote?.("Training the primary with router and fusion over frozen specialists, by PARL.");
    const swarms = await trainSwarms(run, specialists, scope);
    run.onNote?.("Evaluating on held-out columns.");
    const evaluated = await evaluateAll(run, specialists, alone, swarms);
    // As it was saved: what `annotate` says of the same table.
    using saved = await loadRun(join(run.out, "swarm-both"));
    const annotations = await annotateTable(saved, run.example, { signal: run.signal });
    return {
      ...evaluated,
      annotations,
      primarySteps: run.plan.primary.steps,
      seconds: (performance.now() - begin) / 1000,
      lag: lag.stop(),
    };
  } finally {
    lag.stop();
  }
}

interface Trained {
  specialists: SpecialistSource[];
  alone: { model: AegirForColumnAnnotation; serialiser: Serialiser; labels: readonly string[] };
}

/** The specialists, each on its own columns, and the primary alone on all: independent, so side by side. */
async function trainModels(run: DemoRun, scope: Scope): Promise<Trained> {
  const { dataset, groups, plan, out, seed, dataSource, signal, onProgress } = run;
  const common = {
    model: plan.model,
    serialise: plan.serialise,
    dataSource,
    signal,
    onProgress,
    patience: 0,
  };
  const jobs = groups.map((group, i) => async () => {
    const own = selectColumns(dataset, `${dataset.name}: ${group.id}`, group.keep);
    return trainSupervised({
      ...common,
      ...plan.specialist,
      seed: seed + 1 + i,
      dataset: own,
      out: join(out, "specialists", group.id),
      task: `specialist ${group.id}`,
    });
  });
  jobs.push(() =>
    trainSupervised({
      ...common,
      ...plan.primary,
      keep: "last",
      augment: false,
      validateEvery: plan.primary.steps,
      seed,
      dataset,
      out: join(out, "primary-alone"),
      task: "primary alone",
    }),
  );
  const trained = await runPool(jobs, run.concurrency ?? 2);
  for (const { model } of trained) scope.keep(model);
  const alone = trained.pop()!;
  return {
    specialists: trained.map(({ model, serialiser }, i) => ({ id: groups[i]!.id, model, serialiser })),
    alone,
  };
}

/** One swarm a way of fusing, and one over untrained specialists: the same steps, seed and batches as the primary alone. */
async function trainSwarms(
  run: DemoRun,
  specialists: SpecialistSource[],
  scope: Scope,
): Promise<TrainedSwarm[]> {
  const { dataset, plan, out, seed, dataSource, signal, onProgress } = run;
  const untrained = specialists.map(({ id, model, serialiser }, i) => ({
    id,
    serialiser,
    model: scope.keep(
      new AegirForColumnAnnotation(model.options, { seed: seed + 1001 + i, name: `random ${id}` }),
    ),
  }));
  using caches = new SharedCaches();
  const jobs = SWARMS.map(
    ({ key, fuse, random }) =>
      () =>
        trainParl({
          ...plan.parl,
          ...plan.primary,
          keep: "last",
          // Controls run as long as what they are compared with.
          collapsePatience: 0,
          seed,
          fuse,
          dataset,
          specialists: random ? untrained : specialists,
          caches: random ? undefined : caches,
          out: join(out, `swarm-${key}`),
          task: `swarm ${key}`,
          dataSource,
          signal,
          onProgress,
        }),
  );
  const swarms = await runPool(jobs, run.concurrency ?? 2);
  for (const swarm of swarms) scope.keep({ dispose: () => swarm[Symbol.dispose]() });
  return swarms;
}

async function evaluateAll(
  run: DemoRun,
  specialists: SpecialistSource[],
  alone: Trained["alone"],
  swarms: TrainedSwarm[],
): Promise<Pick<DemoResult, "rows" | "specialists" | "swarm" | "testColumns">> {
  const { dataset, plan, seed, signal, onProgress } = run;
  const options = { signal, onProgress };
  const labels = trainableLabels(dataset);
  const limit = { limit: plan.testColumns, unknownLabels: "skip" as const };
  const set = await evaluationSet(dataset, "test", labels, alone.serialiser, limit);
  const rows = [
    row("primary alone, same steps", await evaluate(modelLogits(alone.model), set, options), null),
  ];
  const scores: SwarmEvaluation[] = [];
  for (const [i, { swarm }] of swarms.entries()) {
    const { key, name } = SWARMS[i]!;
    const score = await evaluateSwarm(swarm, set, {
      ...options,
      task: `evaluation ${key}`,
      controls: key === "states",
      seed,
    });
    scores.push(score);
    rows.push(row(name, score, meanRate(score)));
  }
  const learned = scores[0]!;
  const { controls } = learned.swarm;
  for (const [control, name] of [
    ["all-on", "swarm, states, all specialists on"],
    ["all-off", "swarm, states, all off"],
    ["shuffled", "swarm, states, same rates shuffled over columns"],
  ] as const) {
    rows.push({ name, ...controls[control]! });
  }
  return {
    rows,
    swarm: learned,
    testColumns: set.examples.length,
    specialists: await scoreSpecialists(run, specialists, set),
  };
}

async function scoreSpecialists(run: DemoRun, specialists: SpecialistSource[], set: EvaluationSet) {
  const scores: DemoResult["specialists"] = [];
  for (const [i, { id, model, serialiser }] of specialists.entries()) {
    const known = new Set(model.labels);
    const columns = set.columns.filter((column) => run.groups[i]!.keep(column) && known.has(column.label));
    const own: Dataset = { ...run.dataset, splits: { ...run.dataset.splits, test: columns } };
    const ownSet = await evaluationSet(own, "test", model.labels, serialiser);
    const { macroF1 } = await evaluate(modelLogits(model), ownSet, { signal: run.signal });
    scores.push({ id, labels: model.labels.length, columns: columns.length, macroF1 });
  }
  return scores;
}

function row(name: string, { macroF1, microF1 }: Evaluation, activation: number | null): DemoRow {
  return { name, macroF1, microF1, activation };
}

function meanRate({ swarm }: SwarmEvaluation): number {
  const rates = Object.values(swarm.activationRate);
  return rates.reduce((sum, rate) => sum + rate / rates.length, 0);
}
