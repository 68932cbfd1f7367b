import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { bestPriorPower, largestOf, lessPrior } from "../data/logitAdjustment.js";
import { AegirError } from "../errors.js";
import { writeFileAtomic } from "./atomic.js";
import type { LogitsOf } from "./predict.js";
import { besideWeights } from "./runFolder.js";

/**
 * How a run's logits become probabilities: p_c ∝ exp(z_c / T) / prior_c^(τ / T). Dividing by the prior to a power (logit adjustment, Menon
 * et al., arXiv:2007.07314) undoes the skew of the training labels; the temperature makes confidence a share of right answers. Both are
 * chosen on validation columns: τ by macro F1, then T by likelihood.
 */
export interface Calibration {
  temperature: number;
  priorPower: number;
  /** Log of each class's share of the training columns. */
  logPrior: number[];
  /** Of the validation columns, with the power of the prior. */
  macroF1: number;
  /** Expected calibration error on the validation columns, without and with the temperature. */
  calibrationError: { before: number; after: number };
  columns: number;
}

const fileOf = (dir: string) => besideWeights(dir, "calibration.json");

const schema = z.strictObject({
  temperature: z.number().positive(),
  priorPower: z.number(),
  macroF1: z.number(),
  logPrior: z.array(z.number()),
  calibrationError: z.strictObject({ before: z.number(), after: z.number() }),
  columns: z.number(),
});

/** Powers of the prior that are tried. Few: what is chosen among many on validation says little of other columns. */
const POWERS = [0, 0.25, 0.5, 0.75, 1];
/** Intervals of confidence that the calibration error is measured in (Guo et al., arXiv:1706.04599). */
const BINS = 15;

/**
 * @param logits (rows, classes) of validation columns, row-major
 * @param counts training columns of each class; a class without any counts as having one
 */
export function calibrate(
  logits: Float32Array,
  truth: readonly number[],
  counts: readonly number[],
): Calibration {
  const classes = counts.length;
  const total = counts.reduce((sum, count) => sum + Math.max(1, count), 0);
  const logPrior = counts.map((count) => Math.log(Math.max(1, count) / total));
  const { power, macroF1 } = bestPriorPower(logits, logPrior, truth, POWERS);
  const rows = rowsOf(lessPrior(logits, logPrior, power), classes);
  const temperature = bestTemperature(rows, truth);
  const errorAt = (t: number) =>
    expectedCalibrationError(
      rows.map((row) => Math.exp(logLikelihood(row, row.predicted, t))),
      rows.map((row, i) => row.predicted === truth[i]),
    );
  return {
    temperature,
    priorPower: power,
    macroF1,
    logPrior,
    calibrationError: { before: errorAt(1), after: errorAt(temperature) },
    columns: truth.length,
  };
}

/** (z - τ log prior) / T, row by row. */
export function adjust(
  logits: Float32Array,
  { temperature, priorPower, logPrior }: Pick<Calibration, "temperature" | "priorPower" | "logPrior">,
): Float32Array {
  const classes = logPrior.length;
  return logits.map((value, i) => (value - priorPower * logPrior[i % classes]!) / temperature);
}

export function calibrated(logitsOf: LogitsOf, calibration: Calibration | null): LogitsOf {
  if (!calibration) return logitsOf;
  return async (batch) => adjust(await logitsOf(batch), calibration);
}

/**
 * Mean over the columns of |confidence - share of right answers|, both averaged in each of 15 equal intervals of confidence; 0 for no
 * columns.
 */
export function expectedCalibrationError(confidence: readonly number[], right: readonly boolean[]): number {
  const sums = new Float64Array(BINS);
  for (const [i, value] of confidence.entries()) {
    const bin = Math.min(BINS - 1, Math.floor(value * BINS));
    sums[bin]! += value - (right[i] ? 1 : 0);
  }
  return sums.reduce((sum, gap) => sum + Math.abs(gap), 0) / Math.max(1, confidence.length);
}

/** The logits of one column, and the class of the largest. */
interface Row {
  logits: Float32Array;
  predicted: number;
}

/** Golden-section search over log T: the likelihood has one maximum in 1/T. */
function bestTemperature(rows: readonly Row[], truth: readonly number[]): number {
  const cost = (logT: number) =>
    -rows.reduce((sum, row, i) => sum + logLikelihood(row, truth[i]!, Math.exp(logT)), 0);
  const ratio = (Math.sqrt(5) - 1) / 2;
  let [low, high] = [Math.log(0.05), Math.log(20)];
  for (let i = 0; i < 40; i++) {
    const span = ratio * (high - low);
    if (cost(high - span) < cost(low + span)) high = low + span;
    else low = high - span;
  }
  return Math.exp((low + high) / 2);
}

function logLikelihood({ logits, predicted }: Row, label: number, temperature: number): number {
  const top = logits[predicted]!;
  const sum = logits.reduce((total, value) => total + Math.exp((value - top) / temperature), 0);
  return (logits[label]! - top) / temperature - Math.log(sum);
}

function rowsOf(values: Float32Array, classes: number): Row[] {
  return Array.from(largestOf(values, classes), (predicted, r) => ({
    logits: values.subarray(r * classes, (r + 1) * classes),
    predicted,
  }));
}

export async function saveCalibration(dir: string, calibration: Calibration): Promise<void> {
  await writeFileAtomic(fileOf(dir), `${JSON.stringify(calibration)}\n`);
}

/** Null where the run has none. @throws AegirError ERR_CHECKPOINT where the file is damaged */
export async function readCalibration(dir: string, classes: number): Promise<Calibration | null> {
  const path = fileOf(dir);
  if (!existsSync(path)) return null;
  try {
    const calibration = schema.parse(JSON.parse(await readFile(path, "utf8")));
    if (calibration.logPrior.length !== classes)
      throw new Error(`is of ${calibration.logPrior.length} classes`);
    return calibration;
  } catch (cause) {
    const why =
      cause instanceof z.ZodError
        ? `${cause.issues[0]!.path.join(".")}: ${cause.issues[0]!.message}`
        : (cause as Error).message;
    throw new AegirError(
      "ERR_CHECKPOINT",
      `${path} is not a calibration (${why}): remove it, or train the run again`,
      { cause },
    );
  }
}
