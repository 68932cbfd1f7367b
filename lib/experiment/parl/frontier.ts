import { Random } from "../../data/random.js";
import { mean } from "../../train/statistics.js";
import { type Estimate, pairedDifference } from "../interval.js";
import type { Outcomes } from "../outcomes.js";
import {
  allOn,
  confidenceQuantile,
  confidenceRouting,
  constantRouting,
  learnedRouting,
  meanScore,
  type Routings,
  randomRouting,
  ratesOf,
  type Score,
  scoreOf,
} from "../routings.js";

/** Blocks a column on the critical path, or all that are run. */
export type Cost = "steps" | "work";

/** Scores of a way to route as its rate grows from no specialist to all, by what it costs. */
export type FrontierCurve = Pick<Score, "macroF1" | "activation" | Cost>[];

/**
 * The ways to route that are compared; those of one point only are controls. The primary's confidence is known after its own forward
 * only: its curve stands twice, without that pass and with it.
 */
export const ROUTERS = [
  "learned",
  "learned, one at most",
  "random, same rates",
  "primary's confidence",
  "confidence and its pass",
  "all on",
  "all off",
] as const;
export type RouterName = (typeof ROUTERS)[number];

export type Frontier = Record<RouterName, FrontierCurve>;

const RATES = Array.from({ length: 25 }, (_, i) => i / 24);
const DRAWS = 8;

/**
 * Accuracy against cost of one seed's swarm. Thresholds of the router and of the confidence are those that activate a given share;
 * random routing has the learned one's rates, specialist by specialist.
 */
export function frontierOf(outcomes: Outcomes, seed: number): Frontier {
  const n = outcomes.specialists.length;
  const random = new Random(seed, "random routing");
  const scores = (routings: Routings[], firstPass = false): FrontierCurve =>
    routings.map((each) => scoreOf(outcomes, each, { firstPass }));
  const levels = thresholds(outcomes);
  const learned = levels.map((threshold) => learnedRouting(outcomes, threshold));
  const confident = RATES.map((rate) => confidenceRouting(outcomes, confidenceQuantile(outcomes, rate)));
  return {
    learned: scores(learned),
    "learned, one at most": scores(levels.map((threshold) => learnedRouting(outcomes, threshold, 1))),
    "random, same rates": learned.map((routings) => {
      const rates = ratesOf(routings, n);
      const draws = Array.from({ length: DRAWS }, () =>
        scoreOf(outcomes, randomRouting(routings.length, rates, random)),
      );
      return meanScore(draws);
    }),
    "primary's confidence": scores(confident),
    "confidence and its pass": scores(confident, true),
    "all on": scores([constantRouting(outcomes, allOn(outcomes))]),
    "all off": scores([constantRouting(outcomes, 0)]),
  };
}

/** Thresholds that activate each share of all (column, specialist) pairs, from none to all. */
function thresholds({ logits }: Outcomes): number[] {
  const sorted = logits.flat().sort((a, b) => b - a);
  return RATES.map((rate) => {
    const count = Math.round(rate * sorted.length);
    if (count === 0) return 1;
    if (count === sorted.length) return 0;
    return sigmoid((sorted[count - 1]! + sorted[count]!) / 2);
  });
}

/** A rival beside the learned router at equal cost, over the seeds. */
export interface Comparison {
  rival: RouterName;
  cost: Cost;
  /** Learned minus rival, macro F1, by cost. */
  gaps: { at: number; gap: Estimate }[];
}

const GRID = 25;

/** @param frontiers one a seed */
export function compareFrontiers(frontiers: readonly Frontier[], rival: RouterName, cost: Cost): Comparison {
  const own = frontiers.map(({ learned }) => polyline(learned, cost));
  const other = frontiers.map((frontier) => polyline(frontier[rival], cost));
  return {
    rival,
    cost,
    gaps: commonGrid([...own, ...other]).map((at) => ({
      at,
      gap: pairedDifference(
        own.map((points) => interpolate(points, at)),
        other.map((points) => interpolate(points, at)),
      ),
    })),
  };
}

/** The mean curve over seeds, where all have points. */
export function meanCurve(frontiers: readonly Frontier[], name: RouterName, cost: Cost): [number, number][] {
  const curves = frontiers.map((frontier) => polyline(frontier[name], cost));
  return commonGrid(curves).map((at) => {
    return [at, mean(curves.map((points) => interpolate(points, at)))];
  });
}

/** Points by growing cost; those of equal cost become their mean. */
function polyline(curve: FrontierCurve, cost: Cost): [number, number][] {
  const byCost = new Map<number, number[]>();
  for (const point of curve) {
    const at = Math.round(point[cost] * 1e9) / 1e9;
    byCost.set(at, [...(byCost.get(at) ?? []), point.macroF1]);
  }
  return [...byCost].sort(([a], [b]) => a - b).map(([at, values]) => [at, mean(values)]);
}

/** Evenly spaced costs that all curves reach; the middle of them where they meet in a point. */
function commonGrid(curves: readonly [number, number][][]): number[] {
  const low = Math.max(...curves.map((points) => points[0]![0]));
  const high = Math.min(...curves.map((points) => points.at(-1)![0]));
  if (high < low) return [];
  if (high === low) return [low];
  return Array.from({ length: GRID }, (_, i) => low + ((high - low) * i) / (GRID - 1));
}

function interpolate(points: readonly [number, number][], at: number): number {
  const right = points.findIndex(([x]) => x >= at);
  if (right <= 0) return (right === 0 ? points[0]! : points.at(-1)!)[1];
  const [[x0, y0], [x1, y1]] = [points[right - 1]!, points[right]!];
  return y0 + ((y1 - y0) * (at - x0)) / (x1 - x0);
}

/** Macro F1 below which a difference is not worth a word. */
const NEGLIGIBLE = 0.001;

/** What the mean curves show of a control that is one point: from which cost on the learned router is as accurate. */
export function controlText(
  curves: readonly { name: RouterName; points: readonly [number, number][] }[],
  rival: RouterName,
): string {
  const of = (name: RouterName) => curves.find((curve) => curve.name === name)!.points;
  const [at, f1] = of(rival)[0]!;
  const from = (least: number) =>
    of("learned")
      .find(([, value]) => value >= least)?.[0]
      .toFixed(1);
  const [whole, less] = [from(f1 - 1e-9), from(f1 - 0.01)];
  const learned =
    less === undefined
      ? "more than a point less at every cost"
      : `${whole === undefined ? "never as much" : `as much from ${whole} on`}, and a point less from ${less} on`;
  return `${rival[0]!.toUpperCase()}${rival.slice(1)}: macro F1 ${points(f1)} at ${at.toFixed(1)} blocks a column; the learned router has ${learned}.`;
}

/** What a comparison shows, in a sentence. */
export function comparisonText({ rival, cost, gaps }: Comparison): string {
  const what = cost === "work" ? "equal work" : "an equal critical path";
  if (gaps.length === 0) return `${rival}: no cost in common.`;
  const above = ranges(gaps, ({ gap }) => gap.mean > NEGLIGIBLE);
  const below = ranges(gaps, ({ gap }) => gap.mean < -NEGLIGIBLE);
  const best = gaps.reduce((a, b) => (b.gap.mean > a.gap.mean ? b : a));
  const lead =
    above === ""
      ? `nowhere above ${rival}`
      : `above ${rival} at ${above} blocks a column (by up to ${points(best.gap.mean)} at ${best.at.toFixed(1)})`;
  if (below === "") return `At ${what} the learned router is ${lead}, and nowhere below.`;
  const worst = gaps.reduce((a, b) => (b.gap.mean < a.gap.mean ? b : a));
  const half = worst.gap.half === null ? "" : ` ± ${points(worst.gap.half)}`;
  return `At ${what} the learned router is ${lead}, and below it at ${below} (by at most ${points(-worst.gap.mean)}${half}, at ${worst.at.toFixed(1)}).`;
}

/** The stretches of cost where something holds. */
function ranges(gaps: Comparison["gaps"], holds: (gap: Comparison["gaps"][number]) => boolean): string {
  const stretches: { from: number; to: number }[] = [];
  for (const [i, each] of gaps.entries()) {
    if (!holds(each)) continue;
    if (i > 0 && holds(gaps[i - 1]!)) stretches.at(-1)!.to = each.at;
    else stretches.push({ from: each.at, to: each.at });
  }
  return stretches
    .map(({ from, to }) => (from === to ? from.toFixed(1) : `${from.toFixed(1)}–${to.toFixed(1)}`))
    .join(", ");
}

/** In points of macro F1. */
function points(value: number): string {
  return (100 * value).toFixed(1);
}

function sigmoid(z: number): number {
  return 1 / (1 + Math.exp(-z));
}
