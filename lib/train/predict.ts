import { evaluationBatches, isColumnWise } from "../data/batches.js";
import type { Batch, EncodedExample } from "../data/types.js";
import { AegirError } from "../errors.js";
import type { AegirForColumnAnnotation } from "../model/index.js";
import { batchInput } from "../model/index.js";
import type { ColumnSpecialist } from "../swarm/index.js";
import type { Lane } from "../tensor/lane.js";
import { defined } from "./defined.js";
import { runPool } from "./pool.js";
import { Meter, type ProgressListener } from "./progress.js";

/** What a head says of one column. */
export interface Prediction {
  /** Class id. */
  label: number;
  /** Softmax probability of the class. */
  confidence: number;
  /** Second most probable class; the class itself where there is one only. */
  runnerUp: number;
  runnerUpConfidence: number;
}

/** Tokens of a column-wise batch at most: what one batch of 64 long rows has. */
const COLUMN_TOKENS = 32_768;

/** The logits (B,C) of a batch, row-major. */
export type LogitsOf = (batch: Batch) => Promise<Float32Array>;

export interface PredictOptions {
  /** Rows of a batch at most; default 64, column-wise 512. */
  rows?: number;
  /** Batches under way at a time, default 1. */
  concurrency?: number;
  signal?: AbortSignal;
  onProgress?: ProgressListener;
  /** Name in progress. */
  task?: string;
}

/** Predictions in the order of the examples. @throws AegirError ERR_ABORTED */
export async function predict(
  logitsOf: LogitsOf,
  examples: readonly EncodedExample[],
  classes: number,
  options: PredictOptions = {},
): Promise<Prediction[]> {
  return predictionsOf(await allLogits(logitsOf, examples, classes, options), classes);
}

/** The logits (examples, classes) in the order of the examples, row-major. @throws AegirError ERR_ABORTED */
export async function allLogits(
  logitsOf: LogitsOf,
  examples: readonly EncodedExample[],
  classes: number,
  { rows, concurrency = 1, signal, onProgress, task = "evaluation" }: PredictOptions = {},
): Promise<Float32Array> {
  const all = new Float32Array(examples.length * classes);
  const meter = new Meter(task, examples.length, onProgress);
  // The larger a batch of columns, the more targets share the encoding of their context.
  const limits = isColumnWise(examples) ? { rows: 512, tokens: COLUMN_TOKENS } : { rows: 64 };
  const batches = evaluationBatches(examples, { ...limits, ...defined({ rows }) });
  let done = 0;
  const takeBatches = async () => {
    for (const batch of batches) {
      if (signal?.aborted) throw new AegirError("ERR_ABORTED", `${task}: interrupted after ${done} columns`);
      const logits = await logitsOf(batch);
      for (const [i, row] of batch.rows.entries())
        all.set(logits.subarray(i * classes, (i + 1) * classes), row * classes);
      done += batch.size;
      meter.report(done);
    }
  };
  await runPool(
    Array.from({ length: concurrency }, () => takeBatches),
    concurrency,
  );
  return all;
}

/** The logits of a model by itself; with `lanes`, of a model whose parameters stay, each batch on the lane with the least to do. */
export function modelLogits(model: AegirForColumnAnnotation, lanes: readonly Lane[] = []): LogitsOf {
  return async (batch) => {
    using inputs = batchInput(batch);
    const lane = lanes.toSorted((a, b) => a.pending - b.pending)[0];
    using output = await model.forward(inputs, { lane });
    return output.logits.data() as Float32Array;
  };
}

/** The log-probabilities of a specialist by itself. */
export function columnLogits(specialist: ColumnSpecialist): LogitsOf {
  return async ({ sources }) => {
    if (sources) return specialist.logProbabilities(sources);
    throw new AegirError(
      "ERR_ARGUMENT",
      `specialist '${specialist.id}': reads columns, but the batch does not say whose they are`,
    );
  };
}

/**
 * @param logits (rows,C) row by row
 * @param none class that is never predicted, though it has its share of the probability; default: none
 */
export function predictionsOf(logits: Float32Array, classes: number, none = -1): Prediction[] {
  return Array.from({ length: logits.length / classes }, (_, row) =>
    twoBest(logits.subarray(row * classes, (row + 1) * classes), none),
  );
}

function twoBest(logits: Float32Array, none: number): Prediction {
  let label = -1;
  let runnerUp = -1;
  for (let c = 0; c < logits.length; c++) {
    if (c === none) continue;
    if (label < 0 || logits[c]! > logits[label]!) [label, runnerUp] = [c, label];
    else if (runnerUp < 0 || logits[c]! > logits[runnerUp]!) runnerUp = c;
  }
  if (runnerUp < 0) runnerUp = label;
  const top = logits.reduce((most, value) => Math.max(most, value));
  const sum = logits.reduce((total, value) => total + Math.exp(value - top), 0);
  const share = (c: number) => Math.exp(logits[c]! - top) / sum;
  return { label, confidence: share(label), runnerUp, runnerUpConfidence: share(runnerUp) };
}
