import { largestOf } from "../data/logitAdjustment.js";
import { classificationReport } from "../data/metrics.js";
import { siteOf } from "../data/sotab.js";
import type { Dataset, Split } from "../data/types.js";
import type { LinearSpecialist } from "./linearSpecialist.js";
import { classIds, type LabelledRef, type Running, withBestTau } from "./linearTraining.js";
import { type NgramSpecialistOptions, trainNgramSpecialist } from "./ngramSpecialist.js";
import { trainStackedSpecialist } from "./stackedSpecialist.js";

/** Micro and macro F1 of one split. */
export interface Scores {
  micro: number;
  macro: number;
}

export interface BaselineScores {
  name: "own" | "context" | "context, τ" | `context + ${"CPA" | "CTA"}, τ`;
  /** Chosen on validation; 0: no adjustment. */
  tau: number;
  scores: Partial<Record<Split, Scores>>;
  /** Of features, fit and, where it is stacked, the model of the other task; on one core. */
  cpuSeconds: number;
  parameters: number;
}

export interface BaselineOptions {
  /** Labels of another task for the stacked baseline; their tables of sites in the data's validation and test splits are left out. */
  other?: Dataset;
  /** Splits that are scored. */
  splits?: readonly Split[];
  features?: Omit<NgramSpecialistOptions, "context" | "folds" | "tau">;
}

/** A baseline, trained. */
export interface TrainedBaseline extends Pick<BaselineScores, "name" | "cpuSeconds"> {
  specialist: LinearSpecialist;
}

/**
 * What people would use in place of a network, on the same files: n-gram TF-IDF with logistic regression of the column alone, with the
 * table's other columns, with logit adjustment, and with what a model of another task says of the same columns as further features.
 * @throws AegirError ERR_DATA, ERR_ABORTED
 */
export async function trainBaselines(
  dataset: Dataset,
  { other, features = {} }: Omit<BaselineOptions, "splits"> = {},
  running: Running = {},
): Promise<TrainedBaseline[]> {
  const data = { train: labelledRefs(dataset, "train"), labels: dataset.labels };
  const validation = labelledRefs(dataset, "validation");
  const plain = { ...features, folds: 0, tau: 0 };
  const own = await timed(() => trainNgramSpecialist(data, { ...plain, context: false }, running));
  const context = await timed(() => trainNgramSpecialist(data, { ...plain, context: true }, running));
  const { cpuSeconds } = context;
  const baselines: TrainedBaseline[] = [
    { name: "own", specialist: own.value, cpuSeconds: own.cpuSeconds },
    { name: "context", specialist: context.value, cpuSeconds },
    { name: "context, τ", specialist: await withBestTau(context.value, validation), cpuSeconds },
  ];
  if (!other) return baselines;
  const others = [{ name: other.task, train: withoutHeldOutSites(other, dataset) }];
  const settings = {
    ...features,
    folds: 0,
    readOwn: false,
    readerLength: 1,
    pairs: false,
    wordPairs: false,
    shapes: false,
    formats: false,
    places: false,
  };
  const stacked = await timed(() =>
    trainStackedSpecialist({ ...data, validation, others }, settings, running),
  );
  return [
    ...baselines,
    {
      name: `context + ${other.task === "cpa" ? "CPA" : "CTA"}, τ`,
      specialist: stacked.value,
      cpuSeconds: stacked.cpuSeconds,
    },
  ];
}

/** The scores of `trainBaselines`. @throws AegirError ERR_DATA, ERR_ABORTED */
export async function ngramBaselines(
  dataset: Dataset,
  { splits = ["validation"], ...options }: BaselineOptions = {},
  running: Running = {},
): Promise<BaselineScores[]> {
  const results: BaselineScores[] = [];
  for (const { name, specialist, cpuSeconds } of await trainBaselines(dataset, options, running)) {
    const scores: BaselineScores["scores"] = {};
    for (const split of splits) scores[split] = await scoresOf(specialist, labelledRefs(dataset, split));
    const { tau } = specialist.learned;
    results.push({ name, tau, scores, cpuSeconds, parameters: parametersOf(specialist) });
  }
  return results;
}

export function parametersOf({ learned: { weight, bias } }: LinearSpecialist): number {
  return weight.length + bias.length;
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

/** The training columns of `other` whose sites have no table in the validation or test split of `dataset`. */
export function withoutHeldOutSites(other: Dataset, dataset: Dataset): LabelledRef[] {
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

async function timed<T>(run: () => Promise<T>): Promise<{ value: T; cpuSeconds: number }> {
  const before = process.cpuUsage();
  const value = await run();
  const { user, system } = process.cpuUsage(before);
  return { value, cpuSeconds: (user + system) / 1e6 };
}
