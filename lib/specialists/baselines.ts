import { largestOf } from "../data/logitAdjustment.js";
import { classificationReport } from "../data/metrics.js";
import { siteOf } from "../data/sotab.js";
import type { ColumnRef, Dataset, Split, Table } from "../data/types.js";
import type { Extractor, LinearSpecialist } from "./linearSpecialist.js";
import { classIds, type LabelledRef, type Running, trainLinear, withBestTau } from "./linearTraining.js";
import { NgramFeatures } from "./ngramFeatures.js";
import {
  type NgramSpecialistOptions,
  ngramSpecialistOptions,
  trainNgramSpecialist,
} from "./ngramSpecialist.js";
import { besides, SparseBuilder, type SparseRows } from "./sparse.js";

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
  /** A CPA data set for the stacked baseline, of whose sites those in the CTA data's validation and test splits are left out. */
  cpa?: Dataset;
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
 * table's other columns, with logit adjustment, and with what a CPA model says of the same columns as further features.
 * @throws AegirError ERR_DATA, ERR_ABORTED
 */
export async function trainBaselines(
  dataset: Dataset,
  { cpa, features = {} }: Omit<BaselineOptions, "splits"> = {},
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
  if (!cpa) return baselines;
  const stacked = await timed(() => trainStacked(dataset, cpa, features, running));
  return [
    ...baselines,
    { name: "context + CPA, τ", specialist: stacked.value, cpuSeconds: stacked.cpuSeconds },
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

/** Parts of the CPA data's sites: a column is read by a model that saw no table of its site. */
const SITE_FOLDS = 4;

/**
 * A CPA model of columns by themselves reads the other task's columns as if each had a subject among the others, and says which property
 * each may be. Many tables are in both tasks' training sets: without the folds it would be surer of training columns than of new ones.
 */
export async function trainStacked(
  dataset: Dataset,
  cpa: Dataset,
  features: BaselineOptions["features"],
  running: Running,
): Promise<LinearSpecialist> {
  const properties = withoutHeldOutSites(cpa, dataset);
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
  const stacked = new Stacked(
    ngrams,
    labels.length,
    (ref) => models[foldOf.get(siteOfRef(ref)) ?? SITE_FOLDS]!,
  );
  const data = { train: columns, labels: dataset.labels };
  const specialist = await trainLinear(
    "stacked",
    stacked,
    stacked.transform(columns),
    data,
    checked,
    running,
  );
  return withBestTau(specialist, labelledRefs(dataset, "validation"));
}

function siteOfRef({ table }: ColumnRef): string {
  return siteOf(table.name);
}

/**
 * n-grams, and two blocks of length 1: square roots of another task's probabilities of the column, and of the other columns of its table
 * on average.
 */
class Stacked implements Extractor {
  readonly kind = "stacked";
  readonly options = {};

  constructor(
    private readonly ngrams: NgramFeatures,
    /** Labels of the other task. */
    private readonly width: number,
    private readonly modelOf: (ref: ColumnRef) => LinearSpecialist,
  ) {}

  get columns(): number {
    return this.ngrams.columns + 2 * this.width;
  }

  tensors() {
    return {};
  }

  transform(refs: readonly ColumnRef[]): SparseRows {
    const blocks = [new SparseBuilder(this.width), new SparseBuilder(this.width)] as const;
    const read = new Map<Table, Float64Array[]>();
    for (const { table, column } of refs) {
      const said = read.get(table) ?? this.rootsOf(table);
      read.set(table, said);
      pushUnit(blocks[0], said[column]!);
      pushUnit(
        blocks[1],
        meanOf(
          said.filter((_, other) => other !== column),
          this.width,
        ),
      );
    }
    return besides([this.ngrams.transform(refs), ...blocks.map((block) => block.build())]);
  }

  /** Of every column of a table. */
  private rootsOf(table: Table): Float64Array[] {
    const refs = table.columns.map((_, column) => ({ table, column }));
    const { width } = this;
    const said = refs.length > 0 ? this.modelOf(refs[0]!).logProbabilitiesOf(refs) : new Float32Array(0);
    return refs.map((_, i) =>
      Float64Array.from(said.subarray(i * width, (i + 1) * width), (logp) => Math.exp(logp / 2)),
    );
  }
}

function pushUnit(block: SparseBuilder, values: Float64Array): void {
  const length = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0)) || 1;
  for (const [k, value] of values.entries()) block.push(k, value / length);
  block.endRow();
}

function meanOf(rows: readonly Float64Array[], width: number): Float64Array {
  const mean = new Float64Array(width);
  for (const row of rows) for (let k = 0; k < width; k++) mean[k]! += row[k]! / rows.length;
  return mean;
}

async function timed<T>(run: () => Promise<T>): Promise<{ value: T; cpuSeconds: number }> {
  const before = process.cpuUsage();
  const value = await run();
  const { user, system } = process.cpuUsage(before);
  return { value, cpuSeconds: (user + system) / 1e6 };
}
