import { existsSync } from "node:fs";
import { join } from "node:path";
import { Serialiser } from "../../data/serialise.js";
import type { Dataset, LabelledColumn } from "../../data/types.js";
import { AegirError } from "../../errors.js";
import { AegirForColumnAnnotation } from "../../model/index.js";
import { ColumnSpecialist } from "../../swarm/index.js";
import { specialistOf } from "../../train/columnModel.js";
import { countBlocks } from "../../train/criticalSteps.js";
import { type EvaluationSet, evaluationSet } from "../../train/evaluate.js";
import { loadRun } from "../../train/loadRun.js";
import { readMetrics } from "../../train/metricsLog.js";
import { type ParlRun, type SpecialistSource, type TrainedSwarm, trainParl } from "../../train/parl.js";
import { parlOptions } from "../../train/parlOptions.js";
import { modelLogits } from "../../train/predict.js";
import { type SupervisedOptions, supervisedOptions, trainSupervised } from "../../train/supervised.js";
import { Scope } from "../../train/tensors.js";
import type { CellContext } from "../cells.js";
import { aloneOutcomes, type Outcomes, reroutedOutcomes, swarmOutcomes } from "../outcomes.js";
import { multiplyAdds, parlCompute, TRAINED_COLUMN } from "./compute.js";
import type { ParlPlan } from "./plan.js";

/** The arms of a seed that are trained and compared. */
export const ARMS = ["alone", "alone-own", "alone-all", "together", "router", "random"] as const;
export type Arm = (typeof ARMS)[number];

/** Curves of a training by name: (step, value) pairs. */
export type Curves = Record<string, [number, number][]>;

/** What an arm leaves: all the report needs of it. */
export interface ArmResult {
  validation: Outcomes;
  /** Of the split that the report is about. */
  test: Outcomes;
  /** Steps of its primary. */
  steps: number;
  /** Forwards of the primary over a column that its training took (compute.ts), without its specialists' own training. */
  compute: number;
  curves?: Curves;
}

/** What a specialist's training leaves. */
export interface SpecialistResult {
  labels: number;
  steps: number;
  /** Best macro F1 on the validation columns of its own labels. */
  validationF1: number | null;
}

/** What the arms of one seed share. */
export interface ArmSetting {
  plan: ParlPlan;
  seed: number;
  dataset: Dataset;
  /** Domain or label family of a column. */
  groupOf: (column: LabelledColumn) => string;
  /** Run folders of the specialists. */
  specialists: readonly { id: string; run: string }[];
  split: "test" | "validation";
  /** Folder of the seed's runs. */
  dir: string;
}

/** A specialist of some columns of some data. */
export async function trainSpecialist(
  { plan, dir }: Pick<ArmSetting, "plan" | "dir">,
  id: string,
  dataset: Dataset,
  seed: number,
  context: CellContext,
): Promise<SpecialistResult> {
  const validateEvery = Math.ceil(supervisedOptions.parse(plan.specialist).steps / 5);
  const { model, outcome } = await trainSupervised({
    validateEvery,
    saveEvery: validateEvery,
    ...plan.specialist,
    ...common(plan, join(dir, id), context),
    seed,
    dataset,
    task: `specialist ${id}`,
  });
  using _ = model;
  return { labels: model.labels.length, steps: outcome.steps, validationF1: outcome.best?.score ?? null };
}

/** The primary alone. Where it trains longer than a swarm, it may augment and keeps its best weights: the most that it can. */
export async function trainAlone(
  setting: ArmSetting,
  name: string,
  steps: number,
  context: CellContext,
): Promise<ArmResult> {
  const { plan, seed, dataset } = setting;
  const longer = steps > plan.primary.steps;
  const options: SupervisedOptions = longer
    ? { augment: true, keep: "best", validateEvery: Math.ceil(steps / 8) }
    : { augment: false, keep: "last", validateEvery: steps };
  const { model } = await trainSupervised({
    ...plan.primary,
    ...options,
    saveEvery: Math.ceil(steps / 5),
    ...common(plan, join(setting.dir, name), context),
    steps,
    seed,
    dataset,
    task: name,
  });
  using _ = model;
  const outcomes = await bySplit(setting, model, (set, groups) =>
    aloneOutcomes(modelLogits(model), set, groups, countBlocks(model.native), context),
  );
  return { ...outcomes, steps, compute: TRAINED_COLUMN * steps * plan.primary.batchRows };
}

/** Primary, fusion and router together. @param untrained over specialists with random weights */
export async function trainTogether(
  setting: ArmSetting,
  name: string,
  untrained: boolean,
  context: CellContext,
): Promise<ArmResult> {
  using scope = new Scope();
  const specialists = await loadSpecialists(setting, untrained, scope);
  const run = swarmRun(setting, name, specialists, context);
  using swarm = await trainParl({ ...run, ...setting.plan.together, ...setting.plan.primary });
  // Of random specialists no routing but their router's is looked at.
  const evaluated = untrained ? "decided" : "all";
  const outcomes = await bySplit(setting, swarm.swarm.primary, (set, groups) =>
    swarmOutcomes(swarm.swarm, set, groups, { ...context, evaluated }),
  );
  return { ...outcomes, ...(await trainingFigures(setting, swarm, run)) };
}

/**
 * The router alone: primary and fusion are those of the swarm trained together, frozen, and a new router learns from p = .5. What the
 * swarm says under each routing is what it said before.
 * @param together name and result of that swarm's arm
 */
export async function trainRouter(
  setting: ArmSetting,
  name: string,
  together: { name: string; result: ArmResult },
  context: CellContext,
): Promise<ArmResult> {
  const { router, together: trained } = setting.plan;
  using scope = new Scope();
  const specialists = await loadSpecialists(setting, false, scope);
  const run: ParlRun = {
    ...swarmRun(setting, name, specialists, context),
    ...router,
    fuse: trained.fuse,
    fusionMode: trained.fusionMode,
    freezePrimary: true,
    init: join(setting.dir, together.name),
    freshRouter: true,
  };
  using swarm = await trainParl(run);
  const outcomes = await bySplit(setting, swarm.swarm.primary, (set, _, split) =>
    reroutedOutcomes(swarm.swarm, set, together.result[split], context),
  );
  return { ...outcomes, ...(await trainingFigures(setting, swarm, run)) };
}

async function trainingFigures(
  { plan, dataset }: ArmSetting,
  { swarm }: TrainedSwarm,
  run: ParlRun,
): Promise<Omit<ArmResult, "validation" | "test">> {
  const own = multiplyAdds(swarm.primary.native);
  const settings = parlOptions.parse({ ...plan.together, ...plan.primary });
  return {
    steps: plan.primary.steps,
    compute: parlCompute(settings, {
      specialistCosts: swarm.specialists.map(({ model: one }) => (one ? multiplyAdds(one.native) / own : 0)),
      trainColumns: dataset.splits.train.length,
    }),
    curves: await curvesOf(run.out!),
  };
}

const CURVES = [
  "rPerf",
  "reward",
  "rParallel",
  "rFinish",
  "lambdaParallel",
  "lambdaFinish",
  "activation",
  "entropy",
];

async function curvesOf(dir: string): Promise<Curves> {
  const records = (await readMetrics(join(dir, "metrics.jsonl"))).filter(({ kind }) => kind === "train");
  return Object.fromEntries(
    CURVES.map((name) => [
      name,
      records.flatMap(({ step, [name]: value }): [number, number][] =>
        typeof value === "number" ? [[step, value]] : [],
      ),
    ]),
  );
}

function swarmRun(
  { plan, seed, dataset, dir }: ArmSetting,
  name: string,
  specialists: SpecialistSource[],
  context: CellContext,
): ParlRun {
  return {
    ...common(plan, join(dir, name), context),
    // All arms run as long as what they are compared with.
    keep: "last",
    collapsePatience: 0,
    validateEvery: Math.ceil(plan.primary.steps / 4),
    saveEvery: Math.ceil(plan.primary.steps / 4),
    seed,
    dataset,
    specialists,
    task: name,
  };
}

/** What every training is given; one that began before goes on. */
function common(plan: ParlPlan, out: string, { signal, onProgress }: CellContext) {
  return {
    model: plan.model,
    serialise: plan.serialise,
    validationColumns: plan.columns.validation,
    out,
    resume: existsSync(join(out, "config.json")),
    signal,
    onProgress,
  };
}

async function loadSpecialists(
  { specialists, seed }: ArmSetting,
  untrained: boolean,
  scope: Scope,
): Promise<SpecialistSource[]> {
  const sources: SpecialistSource[] = [];
  for (const [i, { id, run }] of specialists.entries()) {
    const source = specialistOf(scope.keep(await loadRun(run, { name: id })), id, `specialist '${id}'`);
    if (source instanceof ColumnSpecialist)
      throw new AegirError("ERR_CONFIG", `specialist '${id}': ${run} holds no model`);
    const { model, serialiser } = source;
    const used = untrained
      ? scope.keep(
          new AegirForColumnAnnotation(model.options, { seed: seed + 1001 + i, name: `random ${id}` }),
        )
      : model;
    sources.push({ id, serialiser, model: used });
  }
  return sources;
}

/** Outcomes on validation, for every choice, and on the split that is reported. */
async function bySplit(
  { plan, dataset, split, groupOf }: ArmSetting,
  model: AegirForColumnAnnotation,
  outcomesOf: (set: EvaluationSet, groups: string[], split: "validation" | "test") => Promise<Outcomes>,
): Promise<Pick<ArmResult, "validation" | "test">> {
  const serialiser = new Serialiser(plan.serialise);
  const of = async (name: "validation" | "test") => {
    const set = await evaluationSet(dataset, name, model.labels, serialiser, {
      limit: plan.columns[name],
    });
    return outcomesOf(set, set.columns.map(groupOf), name);
  };
  const validation = await of("validation");
  return { validation, test: split === "validation" ? validation : await of("test") };
}
