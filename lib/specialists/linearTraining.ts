import { z } from "zod";
import { bestPriorPower } from "../data/logitAdjustment.js";
import { classCounts } from "../data/metrics.js";
import { Random } from "../data/random.js";
import { siteOf } from "../data/sotab.js";
import type { ColumnRef } from "../data/types.js";
import { AegirError } from "../errors.js";
import { gramOf } from "./gram.js";
import { columnKey, type Extractor, type Learned, LinearSpecialist } from "./linearSpecialist.js";
import { fitRows } from "./softmaxRegression.js";
import { type SparseRows, transposedTimesDense } from "./sparse.js";

/** A column with its type. */
export interface LabelledRef extends ColumnRef {
  label: string;
}

export const linearSettings = z.strictObject({
  c: z.number().positive().default(30).describe("inverse of the L2 penalty"),
  /** Each part is told by a fit on the others what to say of its columns; 0: none. */
  folds: z.int().min(0).max(100).default(4).describe("parts of the training sites that are held out in turn"),
  /** Absent: what gives the best macro F1 on validation, 0 where there is none. */
  tau: z
    .number()
    .min(0)
    .max(10)
    .optional()
    .describe("logit adjustment: divide by prior^tau (default: best on validation)"),
  seed: z.int().default(0).describe("seed of the folds"),
});
export type LinearSettings = z.output<typeof linearSettings>;

export interface LinearData {
  train: readonly LabelledRef[];
  validation?: readonly LabelledRef[];
  /** Absent: those of `train`, sorted. */
  labels?: readonly string[];
}

export interface Running {
  signal?: AbortSignal;
  /** Fits done and in all. */
  onProgress?: (done: number, total: number) => void;
}

const TAUS = Array.from({ length: 9 }, (_, i) => i / 4);

/**
 * Fits a linear classifier to the columns' features, and one for each fold.
 * @param rows features of `train`
 * @throws AegirError ERR_DATA without training columns or for an unknown label; ERR_NON_FINITE; ERR_ABORTED
 */
export async function trainLinear(
  id: string,
  extractor: Extractor,
  rows: SparseRows,
  { train, validation = [], labels = labelsOf(train) }: LinearData,
  { c, folds, tau, seed }: LinearSettings,
  { signal, onProgress }: Running = {},
): Promise<LinearSpecialist> {
  if (train.length === 0) throw new AegirError("ERR_DATA", `specialist '${id}': no columns to train on`);
  const truth = classIds(train, labels);
  const classes = labels.length;
  using gram = gramOf(rows);
  const whole = await fitRows(gram, truth, classes, { c, signal });
  const total = 1 + folds;
  onProgress?.(1, total);
  const held = new Map<string, Float32Array>();
  const foldOf = foldsOf(train, folds, seed);
  for (let fold = 0; fold < folds; fold++) {
    const weights = foldOf.map((own) => (own === fold ? 0 : 1));
    if (weights.includes(1)) {
      const { logits } = await fitRows(gram, truth, classes, { c, weights, signal });
      for (const [i, weight] of weights.entries()) {
        if (weight > 0) continue;
        held.set(columnKey(train[i]!), Float32Array.from(logits.subarray(i * classes, (i + 1) * classes)));
      }
    }
    onProgress?.(2 + fold, total);
  }
  const learned: Learned = {
    labels,
    weight: Float32Array.from(transposedTimesDense(rows, whole.rows, classes)),
    bias: Float32Array.from(whole.bias),
    logPrior: logPriorOf(truth, classes),
    tau: tau ?? 0,
    held,
  };
  if (!learned.weight.every(Number.isFinite)) {
    throw new AegirError(
      "ERR_NON_FINITE",
      `specialist '${id}': its weights are not finite; smaller lengths of features, or a smaller c, keep them so`,
    );
  }
  const specialist = new LinearSpecialist(id, extractor, learned);
  return tau !== undefined || validation.length === 0 ? specialist : withBestTau(specialist, validation);
}

/** The specialist with the adjustment that gives the best macro F1 on labelled columns; the least one among equals. */
export async function withBestTau(
  specialist: LinearSpecialist,
  columns: readonly LabelledRef[],
): Promise<LinearSpecialist> {
  const { id, extractor, labels, learned } = specialist;
  const known = columns.filter(({ label }) => labels.includes(label));
  const logits = await specialist.logits(known);
  const { power, macroF1 } = bestPriorPower(logits, learned.logPrior, classIds(known, labels), TAUS);
  return new LinearSpecialist(id, extractor, { ...learned, tau: power, validationF1: macroF1 });
}

/** @throws AegirError ERR_DATA */
export function classIds(columns: readonly LabelledRef[], labels: readonly string[]): Int32Array {
  const idOf = new Map(labels.map((label, id) => [label, id]));
  return Int32Array.from(columns, ({ label }) => {
    const id = idOf.get(label);
    if (id === undefined)
      throw new AegirError("ERR_DATA", `label '${label}' is not among the ${labels.length} labels`);
    return id;
  });
}

/** Sorted. */
export function labelsOf(columns: readonly LabelledRef[]): string[] {
  return [...new Set(columns.map(({ label }) => label))].sort();
}

/** A class without training columns counts as one of half a column. */
function logPriorOf(truth: Int32Array, classes: number): Float32Array {
  return Float32Array.from(classCounts(truth, classes), (count) =>
    Math.log(Math.max(count, 0.5) / truth.length),
  );
}

/** The fold of each column: whole sites of SOTAB's, of other data whole tables, in random order. */
function foldsOf(columns: readonly ColumnRef[], folds: number, seed: number): number[] {
  const sites = columns.map(({ table }) => siteOf(table.name));
  const order = new Random(seed, "folds").shuffle([...new Set(sites)]);
  const positions = new Map(order.map((name, position) => [name, position]));
  return sites.map((site) => (folds === 0 ? 0 : positions.get(site)! % folds));
}
