import { z } from "zod";
import { parseOptions } from "../../config.js";
import { checkHeaders } from "../../data/headers.js";
import { AegirError } from "../../errors.js";
import { SPECIALIST_KINDS } from "../../specialists/index.js";
import type { DataSource } from "../../train/dataSource.js";
import { distillOptions } from "../../train/distill.js";
import { supervisedOptions } from "../../train/supervisedOptions.js";
import type { CellRecord } from "../cells.js";
import { Datasets } from "../datasets.js";
import { openExperiment } from "../folder.js";
import { type RunCellsOptions, runCells } from "../runCells.js";
import type { ScoredSplit } from "./answers.js";
import { LearnCells } from "./learnCells.js";
import type { LearnPlan } from "./plan.js";

export interface LearnExperiment extends Omit<RunCellsOptions, "task"> {
  source: DataSource;
  /** Tables with labels of the other task: for the stacked baseline and teacher, and read without labels for distillation. */
  other?: DataSource;
  /** Further tables that distillation reads without their labels. */
  unlabelled?: readonly DataSource[];
  /** Repetitions, with seeds 0, 1, …; ablations and the learning curve have seed 0 alone. */
  seeds: number;
  /** Columns of the report's main table; everything is chosen on validation, and what follows from it is shown on it. */
  split: ScoredSplit;
  plan: LearnPlan;
  /** Folder of the experiment; what is done in it is not done again. */
  out: string;
}

export interface LearnResults {
  labels: string[];
  /** The other task, in capitals; null where there are no labels of it. */
  other: string | null;
  trainColumns: number;
  records: ReadonlyMap<string, CellRecord>;
}

/** What a long part would refuse is refused before anything is written. @throws AegirError ERR_CONFIG */
function checkPlan({ train, distill, specialists, ngrams }: LearnPlan): void {
  parseOptions("experiment learn: train", supervisedOptions, train);
  const ofDistilled = z.strictObject({ ...supervisedOptions.shape, ...distillOptions.shape });
  parseOptions("experiment learn: distill", ofDistilled, { ...train, ...distill });
  for (const [name, { kind, options }] of Object.entries(specialists))
    parseOptions(`experiment learn: specialists.${name}`, SPECIALIST_KINDS[kind].options, {
      ...(kind === "format" ? {} : ngrams),
      ...options,
    });
}

/**
 * Baselines, the single model on labels alone and distilled, ensembles, ablations and the learning curve; or finds them done. A folder may
 * get more seeds, ablations, points of the curve, and the other split, later: nothing is trained again.
 * @throws AegirError ERR_CONFIG, ERR_DATA before anything is trained; ERR_ABORTED: the same call goes on
 */
export async function runLearnExperiment(experiment: LearnExperiment): Promise<LearnResults> {
  const { seeds, source, other: otherSource, unlabelled: more = [], split, plan, out } = experiment;
  if (!(Number.isInteger(seeds) && seeds >= 1))
    throw new AegirError("ERR_CONFIG", `seeds: expected a whole number from 1, got ${seeds}`);
  checkPlan(plan);
  // Opened before the folder is made: data that cannot be read leave nothing behind.
  const datasets = new Datasets();
  const dataset = await datasets.get(source);
  if (plan.ngrams.headers) checkHeaders(dataset, "target");
  const other = otherSource ? await datasets.get(otherSource) : null;
  const unlabelled = [source, ...(otherSource ? [otherSource] : []), ...more];
  const cells = new LearnCells(plan, out, { dataset, other, unlabelled }).all(seeds, split);
  // Which ablations and points of the curve there are changes nothing of the other parts.
  const { ablations: _, curve: __, ...recipe } = plan;
  const options = { source, other: otherSource ?? null, unlabelled: more, recipe };
  const { store, close } = await openExperiment(out, { kind: "learn", options });
  try {
    const records = await runCells(cells, store, { ...experiment, task: "experiment learn" });
    const { labels } = dataset;
    const otherTask = other?.task.toUpperCase() ?? null;
    return { labels, other: otherTask, trainColumns: dataset.splits.train.length, records };
  } finally {
    await close();
  }
}
