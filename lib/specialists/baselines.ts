import { largestOf } from "../data/logitAdjustment.js";
import { classificationReport } from "../data/metrics.js";
import { siteOf } from "../data/sotab.js";
import type { ColumnRef, Dataset, Split } from "../data/types.js";
import type { LinearSpecialist } from "./linearSpecialist.js";
import { classIds, type LabelledRef, type Running, trainLinear, withBestTau } from "./linearTraining.js";
import { NgramFeatures } from "./ngramFeatures.js";
import {
  type NgramSpecialistOptions,
  ngramSpecialistOptions,
  trainNgramSpecialist,
} from "./ngramSpecialist.js";
import { StackedFeatures } from "./stackedFeatures.js";

/** Micro and macro F1 of one split. */
export interface Scores {
  micro: number;
  macro: number;
}

export interface BaselineScores {
  name: "own" | "context" | "context, τ" | "context + CPA, τ";
  /** Chosen on validation; 0: no adjustment. */
  tau: number;
  scores: Partial<Record<Split, Scores>>;
  /** Of features, fit and, where it is stacked, the CPA model; on one core. */
  cpuSeconds: number;
  parameters: number;
}

export interface BaselineOptions {
  /** A CPA data set for the stacked baseline, of whose sites those in the test split of the CTA data are left out. */
  cpa?: Dataset;
  /** Splits that are scored. */
  splits?: readonly Split[];
  features?: Omit<NgramSpecialistOptions, "context" | "folds" | "tau">;
}

/**
 * What people would use in place of a network, on the same files: n-gram TF-IDF with logistic regression of the column alone, with the
 * table's other columns, with logit adjustment, and with what a CPA model says of the same columns as further features.
 * @throws AegirError ERR_DATA, ERR_ABORTED
 */
export async function ngramBaselines(
  dataset: Dataset,
  { cpa, splits = ["validation"], features = {} }: BaselineOptions = {},
  running: Running = {},
): Promise<BaselineScores[]> {
  const results: BaselineScores[] = [];
  const data = { train: labelledRefs(dataset, "train"), labels: dataset.labels };
  const validation = labelledRefs(dataset, "validation");
  const add = async (name: BaselineScores["name"], specialist: LinearSpecialist, cpuSeconds: number) => {
    const scores: BaselineScores["scores"] = {};
    for (const split of splits) scores[split] = await scoresOf(specialist, labelledRefs(dataset, split));
    const { weight, bias } = specialist.learned;
    results.push({
      name,
      tau: specialist.learned.tau,
      scores,
      cpuSeconds,
      parameters: weight.length + bias.length,
    });
  };
  const plain = { ...features, folds: 0, tau: 0 };
  const own = await timed(() => trainNgramSpecialist(data, { ...plain, context: false }, running));
  await add("own", own.value, own.cpuSeconds);
  const context = await timed(() => trainNgramSpecialist(data, { ...plain, context: true }, running));
  await add("context", context.value, context.cpuSeconds);
  await add("context, τ", await withBestTau(context.value, validation), context.cpuSeconds);
  if (cpa) {
    const stacked = await timed(() => trainStacked(dataset, cpa, features, running));
    await add("context + CPA, τ", await withBestTau(stacked.value, validation), stacked.cpuSeconds);
  }
  return results;
}

/** The columns of a split with their tables. */
export function labelledRefs(dataset: Dataset, split: Split): LabelledRef[] {
  return dataset.splits[split].map(({ table, column, mainColumn, label }) => ({
    table: dataset.tables.get(table)!,
    column,
    ...(mainColumn === undefined ? {} : { mainColumn }),
    label,
  }));
}

/** The training columns of `other` whose sites have no table in the test split of `dataset`. */
export function withoutTestSites(other: Dataset, dataset: Dataset): LabelledRef[] {
  const sites = new Set(dataset.splits.test.map(({ table }) => siteOf(table)));
  return labelledRefs(other, "train").filter(({ table }) => !sites.has(siteOf(table.name)));
}

/** The training columns of `other` whose sites have no table in the validation or test split of `dataset`. */
export function withoutHeldSites(other: Dataset, dataset: Dataset): LabelledRef[] {
  const { validation, test } = dataset.splits;
  const sites = new Set([...validation, ...test].map(({ table }) => siteOf(table)));
  return labelledRefs(other, "train").filter(({ table }) => !sites.has(siteOf(table.name)));
}

/** @throws AegirError ERR_DATA for labels that training had no column of */
export async function scoresOf(
  specialist: LinearSpecialist,
  columns: readonly LabelledRef[],
): Promise<Scores> {
  const { labels } = specialist;
  const predicted = largestOf(await specialist.logProbabilities(columns), labels.length);
  const { microF1, macroF1 } = classificationReport(classIds(columns, labels), predicted, labels);
  return { micro: microF1, macro: macroF1 };
}

/** Parts of the CPA data's sites: a column is read by a model that saw no table of its site. */
const SITE_FOLDS = 4;

/**
 * A CPA model of columns by themselves reads the other task's columns as if each had a subject among the others, and says which property
 * each may be. Many tables are in both tasks' training sets: without the folds it would be surer of training columns than of new ones.
 */
async function trainStacked(
  dataset: Dataset,
  cpa: Dataset,
  features: BaselineOptions["features"],
  running: Running,
): Promise<LinearSpecialist> {
  const properties = withoutTestSites(cpa, dataset);
  const labels = [...new Set(properties.map(({ label }) => label))].sort();
  const foldOf = new Map([...new Set(properties.map(siteOfRef))].map((site, i) => [site, i % SITE_FOLDS]));
  const settings = { ...features, folds: 0, tau: 0 };
  const without = (fold: number) => {
    const train = properties.filter((ref) => foldOf.get(siteOfRef(ref)) !== fold);
    return trainNgramSpecialist({ train, labels }, { ...settings, context: false, id: "cpa" }, running);
  };
  const models: LinearSpecialist[] = [];
  for (let fold = 0; fold <= SITE_FOLDS; fold++) models.push(await without(fold));
  const columns = labelledRefs(dataset, "train");
  const checked = ngramSpecialistOptions.parse(settings);
  const ngrams = NgramFeatures.fit(columns, checked).features;
  const reader = { labels, of: (ref: ColumnRef) => models[foldOf.get(siteOfRef(ref)) ?? SITE_FOLDS]! };
  const stacked = new StackedFeatures(ngrams, [reader], false);
  const data = { train: columns, labels: dataset.labels };
  return trainLinear("stacked", stacked, stacked.transform(columns), data, checked, running);
}

function siteOfRef({ table }: ColumnRef): string {
  return siteOf(table.name);
}

async function timed<T>(run: () => Promise<T>): Promise<{ value: T; cpuSeconds: number }> {
  const before = process.cpuUsage();
  const value = await run();
  const { user, system } = process.cpuUsage(before);
  return { value, cpuSeconds: (user + system) / 1e6 };
}
