import { classificationReport } from "../data/metrics.js";
import type { Random } from "../data/random.js";
import { CappedBernoulli } from "../rl/policy.js";
import { mean } from "../train/statistics.js";
import type { Outcomes } from "./outcomes.js";

/** (R) a routing a column: bit i says whether specialist i is activated. */
export type Routings = readonly number[];

export function constantRouting(outcomes: Outcomes, routing: number): Routings {
  return outcomes.truth.map(() => routing);
}

export function allOn({ specialists }: Outcomes): number {
  return 2 ** specialists.length - 1;
}

/** As the router decides: the up to `cap` largest scores above the threshold. */
export function learnedRouting(
  { logits, specialists }: { logits: readonly number[][]; specialists: readonly unknown[] },
  threshold = 0.5,
  cap = specialists.length,
): Routings {
  return logits.map((z) => {
    let routing = 0;
    for (const [i, on] of new CappedBernoulli(z, cap).mode(threshold).entries()) routing |= on << i;
    return routing;
  });
}

/** All specialists where the primary alone is less confident than `below`. */
export function confidenceRouting(outcomes: Outcomes, below: number): Routings {
  return outcomes.confidence.map((confidence) => (confidence < below ? allOn(outcomes) : 0));
}

/** The confidence under which a share `rate` of the columns lies. */
export function confidenceQuantile({ confidence }: Outcomes, rate: number): number {
  const sorted = confidence.toSorted((a, b) => a - b);
  const count = Math.round(rate * sorted.length);
  return count >= sorted.length ? Number.POSITIVE_INFINITY : sorted[count]!;
}

/** Every specialist by itself, with its rate. */
export function randomRouting(rows: number, rates: readonly number[], random: Random): Routings {
  return Array.from({ length: rows }, () =>
    rates.reduce((routing, rate, i) => routing | ((random.chance(rate) ? 1 : 0) << i), 0),
  );
}

/** The same routings given to other columns. */
export function shuffledRouting(routings: Routings, random: Random): Routings {
  return random.shuffle([...routings]);
}

/** The one routing that is best for all columns; of equals the one with fewer specialists. */
export function bestFixedRouting(outcomes: Outcomes): number {
  let [best, bestScore] = [0, -1];
  for (const routing of outcomes.predicted.keys()) {
    const { macroF1 } = scoreOf(outcomes, constantRouting(outcomes, routing));
    if (macroF1 > bestScore || (macroF1 === bestScore && bits(routing) < bits(best))) {
      [best, bestScore] = [routing, macroF1];
    }
  }
  return best;
}

/** (n) share of the columns that activate each specialist. */
export function ratesOf(routings: Routings, n: number): number[] {
  return Array.from({ length: n }, (_, i) => mean(routings.map((routing) => (routing >> i) & 1)));
}

export interface Score {
  macroF1: number;
  microF1: number;
  /** Mean F1 of the hard labels, over all predictions; null where none are given. */
  hardF1: number | null;
  /** Share of (column, specialist) pairs activated. */
  activation: number;
  /** Critical path a column: blocks of the primary and of the deepest activated specialist. */
  steps: number;
  /** Blocks a column, all of them. */
  work: number;
}

/**
 * Scores of the columns under their routings.
 * @param hard names of the hard labels
 * @param firstPass routings that need the primary alone first: where a specialist is activated, what follows the prefix runs again
 */
export function scoreOf(
  outcomes: Outcomes,
  routings: Routings,
  { hard = [], firstPass = false }: { hard?: readonly string[]; firstPass?: boolean } = {},
): Score {
  const { truth, labels, specialists, steps } = outcomes;
  const report = classificationReport(truth, predictedUnder(outcomes, routings), labels);
  const again = firstPass ? steps.main - steps.prefix : 0;
  const subs = routings.map((routing) => steps.sub.filter((_, i) => (routing >> i) & 1));
  const f1Of = new Map(report.perClass.map(({ label, f1 }) => [label, f1]));
  return {
    macroF1: report.macroF1,
    microF1: report.microF1,
    hardF1: hard.length > 0 ? mean(hard.map((label) => f1Of.get(label) ?? 0)) : null,
    activation: specialists.length > 0 ? mean(ratesOf(routings, specialists.length)) : 0,
    steps: mean(subs.map((sub) => steps.main + (sub.length > 0 ? again + Math.max(...sub) : 0))),
    work: mean(subs.map((sub) => steps.main + (sub.length > 0 ? again : 0) + sub.reduce((a, b) => a + b, 0))),
  };
}

/** (R) classes under the columns' routings. @throws Error for a routing that was not evaluated */
export function predictedUnder({ predicted }: Outcomes, routings: Routings): number[] {
  return routings.map((routing, row) => {
    const label = predicted[routing]![row];
    if (label == null) throw new Error(`routing ${routing} of column ${row} was not evaluated`);
    return label;
  });
}

/** The mean of scores of several draws. */
export function meanScore(scores: readonly Score[]): Score {
  const of = (field: keyof Score) => mean(scores.map((score) => score[field] ?? 0));
  return {
    macroF1: of("macroF1"),
    microF1: of("microF1"),
    hardF1: scores[0]!.hardF1 === null ? null : of("hardF1"),
    activation: of("activation"),
    steps: of("steps"),
    work: of("work"),
  };
}

function bits(routing: number): number {
  return routing.toString(2).replaceAll("0", "").length;
}
