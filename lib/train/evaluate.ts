import { type ClassificationReport, classificationReport } from "../data/metrics.js";
import type { Serialiser } from "../data/serialise.js";
import type { Dataset, EncodedExample, LabelledColumn, Split, Task } from "../data/types.js";
import { type SelectiveFigures, selectiveFigures } from "./abstention.js";
import { expectedCalibrationError } from "./calibration.js";
import { encodeColumns, knownColumns, thin } from "./examples.js";
import { type LogitsOf, type Prediction, type PredictOptions, predict } from "./predict.js";

/** Labelled columns of one split, encoded with a model's class ids. */
export interface EvaluationSet {
  task: Task;
  split: Split;
  labels: readonly string[];
  columns: LabelledColumn[];
  examples: EncodedExample[];
  /** Columns left out because training had no column of their label. */
  skipped: number;
}

export interface Evaluation extends ClassificationReport {
  task: Task;
  split: Split;
  skipped: number;
  columnsPerSecond: number;
  /** Expected calibration error: how far confidence is from the share of right answers. */
  calibrationError: number;
  /** Where a threshold was given: the same predictions of a head that abstains below it. */
  abstention?: SelectiveFigures;
}

export interface EvaluateOptions extends PredictOptions {
  /** Confidence below which a head that abstains gives no answer. */
  abstainBelow?: number;
}

/**
 * Encodes a split for a model.
 * @param limit columns at most, evenly spaced
 * @throws AegirError ERR_DATA where labels were absent from training, unless `unknownLabels` is "skip"
 */
export async function evaluationSet(
  dataset: Dataset,
  split: Split,
  labels: readonly string[],
  serialiser: Serialiser,
  {
    unknownLabels = "error",
    limit = Number.POSITIVE_INFINITY,
  }: { unknownLabels?: "error" | "skip"; limit?: number } = {},
): Promise<EvaluationSet> {
  const known = knownColumns(dataset, split, labels, unknownLabels);
  const columns = thin(known.columns, limit);
  const examples = await encodeColumns(serialiser, dataset, columns, labels);
  return { task: dataset.task, split, labels, columns, examples, skipped: known.skipped };
}

/** Scores of one way to get logits over an evaluation set, with its speed. @throws AegirError ERR_ABORTED */
export async function evaluate(
  logitsOf: LogitsOf,
  set: EvaluationSet,
  { abstainBelow, ...options }: EvaluateOptions = {},
): Promise<Evaluation> {
  const begin = performance.now();
  const predictions = await predict(logitsOf, set.examples, set.labels.length, options);
  const seconds = (performance.now() - begin) / 1000;
  return scored(set, predictions, set.examples.length / seconds, abstainBelow);
}

/** Scores of predictions already made, in the order of the set's columns. */
export function scored(
  set: EvaluationSet,
  predictions: Prediction[],
  columnsPerSecond: number,
  abstainBelow?: number,
): Evaluation {
  const { task, split, skipped, labels } = set;
  const truth = set.examples.map((example) => example.label);
  const report = classificationReport(
    truth,
    predictions.map((prediction) => prediction.label),
    labels,
  );
  const calibrationError = expectedCalibrationError(
    predictions.map(({ confidence }) => confidence),
    predictions.map(({ label }, i) => label === truth[i]),
  );
  const evaluation = { task, split, skipped, ...report, columnsPerSecond, calibrationError };
  if (abstainBelow === undefined) return evaluation;
  return { ...evaluation, abstention: selectiveFigures(predictions, truth, labels, abstainBelow) };
}
