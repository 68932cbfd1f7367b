import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { ABSTAIN, classificationReport } from "../data/metrics.js";
import { AegirError } from "../errors.js";
import { writeFileAtomic } from "./atomic.js";
import type { Prediction } from "./predict.js";
import { besideWeights } from "./runFolder.js";

/** What the answers should reach on validation: a share of them that is right, or a share of columns that gets one. */
export type AbstentionTarget = { accuracy: number } | { coverage: number };

/** A head that answers only where its confidence is at least `threshold`. */
export interface Abstention {
  threshold: number;
  target: AbstentionTarget;
  /** What the threshold gave on the validation columns that chose it. */
  validation: { columns: number; coverage: number; selectiveAccuracy: number };
}

/** Scores of a head that abstains. */
export interface SelectiveFigures {
  threshold: number;
  /** Share of columns that got an answer. */
  coverage: number;
  /** Share of the answers that are right; null where there is none. */
  selectiveAccuracy: number | null;
  /** With abstaining counted as a missed column, not as a wrong answer. */
  microF1: number;
  macroF1: number;
}

/**
 * The threshold on confidence that answers most columns while the share of right answers reaches the target, or the highest that
 * answers a share of the columns; halfway between two confidences, 0 where every column is answered. A tie is answered or left out
 * as a whole.
 * @param predictions on validation @param truth class ids, in the same order
 * @throws AegirError ERR_CONFIG for a target outside (0, 1]; ERR_DATA without columns, or where no threshold reaches the accuracy
 */
export function calibrateAbstention(
  predictions: readonly Pick<Prediction, "label" | "confidence">[],
  truth: ArrayLike<number>,
  target: AbstentionTarget,
): Abstention {
  const wanted = checkedTarget(target);
  const total = predictions.length;
  if (total === 0)
    throw new AegirError(
      "ERR_DATA",
      "abstention: there is no validation column to calibrate the threshold on",
    );
  const order = [...predictions.keys()].sort(
    (i, j) => predictions[j]!.confidence - predictions[i]!.confidence,
  );
  let right = 0;
  let best: Abstention | null = null;
  let highest = 0;
  for (const [at, i] of order.entries()) {
    const { label, confidence } = predictions[i]!;
    if (label === truth[i]) right++;
    const next = predictions[order[at + 1] ?? -1]?.confidence ?? 0;
    if (next === confidence) continue;
    const coverage = (at + 1) / total;
    const selectiveAccuracy = right / (at + 1);
    highest = Math.max(highest, selectiveAccuracy);
    const reached = "accuracy" in target ? selectiveAccuracy >= wanted : best === null && coverage >= wanted;
    if (!reached) continue;
    const threshold = at + 1 === total ? 0 : between(next, confidence);
    best = { threshold, target, validation: { columns: total, coverage, selectiveAccuracy } };
  }
  if (best) return best;
  throw new AegirError(
    "ERR_DATA",
    `abstention: no threshold on confidence gives a selective accuracy of ${wanted} on validation, ` +
      `the highest is ${highest.toFixed(3)}; ask for less or train further`,
  );
}

/** Halfway, so that rounding in a confidence changes no answer; never the lower one itself. */
function between(lower: number, upper: number): number {
  const middle = (lower + upper) / 2;
  return middle > lower ? middle : upper;
}

/** @throws AegirError ERR_CONFIG for a target outside (0, 1] */
export function checkedTarget(target: AbstentionTarget): number {
  const [name, value] = Object.entries(target)[0]! as [string, number];
  if (value > 0 && value <= 1) return value;
  throw new AegirError("ERR_CONFIG", `abstention target ${name}: expected a share in (0, 1], got ${value}`);
}

/** Class ids, ABSTAIN where the confidence is below the threshold. */
export function answers(
  predictions: readonly Pick<Prediction, "label" | "confidence">[],
  threshold: number,
): number[] {
  return predictions.map(({ label, confidence }) => (confidence >= threshold ? label : ABSTAIN));
}

export function selectiveFigures(
  predictions: readonly Prediction[],
  truth: ArrayLike<number>,
  labels: readonly string[],
  threshold: number,
): SelectiveFigures {
  const { coverage, accuracy, microF1, macroF1 } = classificationReport(
    truth,
    answers(predictions, threshold),
    labels,
  );
  const selectiveAccuracy = coverage > 0 ? accuracy / coverage : null;
  return { threshold, coverage, selectiveAccuracy, microF1, macroF1 };
}

const share = z.number().min(0).max(1);
const schema = z.object({
  threshold: share,
  target: z.union([z.strictObject({ accuracy: share }), z.strictObject({ coverage: share })]),
  validation: z.object({ columns: z.int().min(1), coverage: share, selectiveAccuracy: share }),
});

const fileOf = (dir: string) => besideWeights(dir, "abstention.json");

export async function saveAbstention(dir: string, abstention: Abstention): Promise<void> {
  await writeFileAtomic(fileOf(dir), `${JSON.stringify(abstention, null, 2)}\n`);
}

/** The threshold that a run was calibrated to; null: it was not. @throws AegirError ERR_CHECKPOINT where the file is damaged */
export async function readAbstention(dir: string): Promise<Abstention | null> {
  const path = fileOf(dir);
  if (!existsSync(path)) return null;
  try {
    return schema.parse(JSON.parse(await readFile(path, "utf8")));
  } catch (cause) {
    throw new AegirError(
      "ERR_CHECKPOINT",
      `${path} is damaged: calibrate again (evaluate --abstain-accuracy)`,
      {
        cause,
      },
    );
  }
}

/** The threshold to abstain below: one that was given, or the run's. @throws AegirError ERR_CONFIG where there is none */
export async function abstentionThreshold(dir: string, given: number | true): Promise<number> {
  if (given !== true) {
    if (given >= 0 && given <= 1) return given;
    throw new AegirError("ERR_CONFIG", `abstain: expected a confidence in [0, 1], got ${given}`);
  }
  const abstention = await readAbstention(dir);
  if (abstention) return abstention.threshold;
  throw new AegirError(
    "ERR_CONFIG",
    `${dir} was not calibrated to abstain: give a threshold, or run evaluate ${dir} --abstain-accuracy .95 first`,
  );
}
