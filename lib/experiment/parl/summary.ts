import { HARD_LABELS } from "../../data/families.js";
import { Random } from "../../data/random.js";
import { mean } from "../../train/statistics.js";
import { hardLabels } from "../hardLabels.js";
import { type Estimate, estimate, pairedDifference } from "../interval.js";
import {
  allOn,
  bestFixedRouting,
  confidenceQuantile,
  confidenceRouting,
  constantRouting,
  learnedRouting,
  meanScore,
  predictedUnder,
  type Routings,
  type Score,
  scoreOf,
  shuffledRouting,
} from "../routings.js";
import type { Arm, ArmResult, Curves } from "./arms.js";
import { type Contribution, contributions, meanContributions } from "./contribution.js";
import type { ExperimentResults, SeedResults } from "./experiment.js";
import {
  type Comparison,
  type Cost,
  compareFrontiers,
  type Frontier,
  frontierOf,
  meanCurve,
  ROUTERS,
  type RouterName,
} from "./frontier.js";
import { type Selectivity, selectivity } from "./selectivity.js";
import { judge, type Wanted } from "./wanted.js";

/** One line of the comparison: an arm, or a control of its swarm. */
export interface ReportRow {
  arm: Arm;
  control: Control;
  /** Steps of the primary. */
  steps: Estimate;
  macroF1: Estimate;
  microF1: Estimate;
  hardF1: Estimate;
  /** Macro F1 minus that of the primary alone at the same steps, by seed. */
  gain: Estimate;
  /** Of the columns' specialists; null without any. */
  activation: Estimate | null;
  criticalSteps: Estimate;
  work: Estimate;
}

/** "learned" also stands for a model alone. */
export const CONTROLS = ["learned", "all-on", "all-off", "best-fixed", "shuffled", "confidence"] as const;
export type Control = (typeof CONTROLS)[number];

export interface SwarmFigures {
  /** Mean over seeds, [group][specialist]. */
  activation: Record<string, Record<string, number>>;
  /** Bits. */
  information: {
    of: "group" | "label";
    bits: Estimate;
    shuffled: Estimate;
    entropy: Estimate;
    routing: Estimate;
  }[];
  frontier: {
    cost: Cost;
    curves: { name: RouterName; points: [number, number][] }[];
    comparisons: Comparison[];
  }[];
  curves: Curves;
}

export interface ParlReport {
  split: "test" | "validation";
  data: string;
  /** Whether the trainings were too short to tell anything. */
  quick: boolean;
  seeds: number;
  /** Columns scored, by seed. */
  columns: number[];
  specialists: { id: string; labels: number | null; validationF1: Estimate | null }[];
  rows: ReportRow[];
  /** By seed. */
  hardLabels: string[][];
  hardDefinition: string;
  /** Specialists of the routing that is best on validation, by arm and seed. */
  bestFixed: Partial<Record<Arm, string[]>>;
  /** Empty where nothing was set, as on data of one's own. */
  wanted: Wanted[];
  /** Of the swarm trained together, mean over seeds. */
  contributions: Contribution[];
  swarms: { arm: Arm; figures: SwarmFigures }[];
  cpuMinutes: number;
}

/** Swarms whose routing is looked at. */
const LEARNED_ARMS = ["together", "router"] as const;
const SHUFFLES = 5;
/** Ways to route at any rate, that the learned router is held against at equal cost. */
const RIVALS = ["random, same rates", "primary's confidence", "confidence and its pass"] as const;

/** Everything that the report says, from the results of the arms alone. */
export function summarise(
  { seeds, cpuSeconds }: ExperimentResults,
  { generated, ...about }: Pick<ParlReport, "split" | "data" | "quick"> & { generated: boolean },
): ParlReport {
  const known = generated ? [] : HARD_LABELS;
  const hard = seeds.map(({ arms: { alone } }) => {
    const predicted = predictedUnder(alone.validation, constantRouting(alone.validation, 0));
    return hardLabels({ ...alone.validation, predicted }, known);
  });
  const rows = reportRows(seeds, hard);
  const listed = hard[0]!.every((label) => known.includes(label));
  return {
    ...about,
    seeds: seeds.length,
    columns: seeds.map(({ arms }) => arms.alone.test.truth.length),
    specialists: specialistScores(seeds),
    rows,
    hardLabels: hard,
    hardDefinition: listed
      ? "labels that a character n-gram baseline leaves under F1 .40 (docs/parl.md)"
      : "the quarter of the labels with the lowest F1 of the primary alone (same steps) on validation",
    bestFixed: Object.fromEntries(
      LEARNED_ARMS.map((arm) => [arm, seeds.map((seed) => bestFixedName(seed.arms[arm]))]),
    ),
    wanted: generated ? judge(rows) : [],
    contributions: meanContributions(seeds.map(({ arms }) => contributions(arms.together.test))),
    swarms: LEARNED_ARMS.map((arm) => ({ arm, figures: swarmFigures(seeds, arm) })),
    cpuMinutes: cpuSeconds / 60,
  };
}

function reportRows(seeds: readonly SeedResults[], hard: readonly string[][]): ReportRow[] {
  const alone = seeds.map(({ arms }, i) =>
    scoreOf(arms.alone.test, constantRouting(arms.alone.test, 0), { hard: hard[i]! }),
  );
  const row = (arm: Arm, control: Control): ReportRow => {
    const scores = seeds.map((seed, i) => controlScore(seed, arm, control, hard[i]!));
    const of = (field: keyof Score) => estimate(scores.map((score) => score[field] ?? 0));
    const macroF1 = of("macroF1");
    return {
      arm,
      control,
      steps: estimate(seeds.map(({ arms }) => arms[arm].steps)),
      macroF1,
      microF1: of("microF1"),
      hardF1: of("hardF1"),
      gain: pairedDifference(
        macroF1.values,
        alone.map((score) => score.macroF1),
      ),
      activation: seeds[0]!.arms[arm].test.specialists.length > 0 ? of("activation") : null,
      criticalSteps: of("steps"),
      work: of("work"),
    };
  };
  return [
    row("alone", "learned"),
    row("alone-own", "learned"),
    row("alone-all", "learned"),
    ...LEARNED_ARMS.flatMap((arm) => CONTROLS.map((control) => row(arm, control))),
    row("random", "learned"),
    row("random", "all-on"),
  ];
}

function controlScore(
  { seed, arms }: SeedResults,
  arm: Arm,
  control: Control,
  hard: readonly string[],
): Score {
  const { test } = arms[arm];
  const score = (routings: Routings, firstPass = false) => scoreOf(test, routings, { hard, firstPass });
  const learned = learnedRouting(test);
  switch (control) {
    case "learned":
      return score(learned);
    case "all-on":
      return score(constantRouting(test, allOn(test)));
    case "all-off":
      return score(constantRouting(test, 0));
    case "best-fixed":
      return score(constantRouting(test, bestFixedRouting(arms[arm].validation)));
    case "confidence":
      return score(confidenceRouting(test, equalRateConfidence(arms[arm])), true);
    case "shuffled": {
      const random = new Random(seed, "shuffled routing");
      return meanScore(Array.from({ length: SHUFFLES }, () => score(shuffledRouting(learned, random))));
    }
  }
}

/** The confidence under which, on validation, as many are activated as the router activates there. */
function equalRateConfidence({ validation }: ArmResult): number {
  return confidenceQuantile(validation, scoreOf(validation, learnedRouting(validation)).activation);
}

function bestFixedName({ validation }: ArmResult): string {
  const best = bestFixedRouting(validation);
  const names = validation.specialists.filter((_, i) => (best >> i) & 1);
  return names.length > 0 ? names.join("+") : "none";
}

function specialistScores(seeds: readonly SeedResults[]): ParlReport["specialists"] {
  return seeds[0]!.arms.together.test.specialists.map((id) => {
    const own = seeds.flatMap(({ specialists }) => specialists[id] ?? []);
    const scores = own.flatMap(({ validationF1 }) => validationF1 ?? []);
    return {
      id,
      labels: own[0]?.labels ?? null,
      validationF1: scores.length > 0 ? estimate(scores) : null,
    };
  });
}

function swarmFigures(seeds: readonly SeedResults[], arm: Arm): SwarmFigures {
  const all = seeds.map(({ arms }) => selectivity(arms[arm].test, learnedRouting(arms[arm].test)));
  const frontiers = seeds.map(({ seed, arms }) => frontierOf(arms[arm].test, seed));
  return {
    activation: meanActivation(all),
    information: (["group", "label"] as const).map((of) => ({
      of,
      bits: estimate(all.map((each) => each[of].bits)),
      shuffled: estimate(all.map((each) => each[of].shuffled)),
      entropy: estimate(all.map((each) => each[of].entropyA)),
      routing: estimate(all.map((each) => each[of].entropyB)),
    })),
    frontier: (["work", "steps"] as const).map((cost) => frontierFigures(frontiers, cost)),
    curves: meanCurves(seeds.map(({ arms }) => arms[arm].curves ?? {})),
  };
}

function frontierFigures(frontiers: readonly Frontier[], cost: Cost): SwarmFigures["frontier"][number] {
  return {
    cost,
    curves: ROUTERS.map((name) => ({ name, points: meanCurve(frontiers, name, cost) })),
    comparisons: RIVALS.map((rival) => compareFrontiers(frontiers, rival, cost)),
  };
}

function meanActivation(all: readonly Selectivity[]): SwarmFigures["activation"] {
  const rows = all.flatMap(({ activation }) => Object.entries(activation));
  const names = [...new Set(rows.map(([group]) => group))].sort();
  return Object.fromEntries(
    names.map((name) => {
      const own = rows.filter(([group]) => group === name).map(([, rates]) => rates);
      return [name, Object.fromEntries(Object.keys(own[0]!).map((id) => [id, mean(own.map((r) => r[id]!))]))];
    }),
  );
}

/** Step by step, where all seeds have a value. */
function meanCurves(curves: readonly Curves[]): Curves {
  return Object.fromEntries(
    Object.keys(curves[0]!).map((name) => {
      const bySeed = curves.map((each) => new Map(each[name]));
      const steps = [...bySeed[0]!.keys()].filter((step) => bySeed.every((seed) => seed.has(step)));
      return [name, steps.map((step) => [step, mean(bySeed.map((seed) => seed.get(step)!))])];
    }),
  );
}
