import { type ClassificationReport, classificationReport } from "../../data/metrics.js";
import { mean } from "../../train/statistics.js";
import type { CellRecord } from "../cells.js";
import { hardLabels } from "../hardLabels.js";
import { type Estimate, estimate } from "../interval.js";
import type { ScoredSplit, SystemResult } from "./answers.js";
import type { Arm } from "./arm.js";
import { ARMS } from "./arms.js";
import type { LearnExperiment, LearnResults } from "./experiment.js";
import {
  ablationKey,
  armKey,
  armsNeeded,
  baselinesKey,
  curveCounts,
  curvePrefix,
  ENSEMBLES,
  ensembleKey,
  ONE_SEED,
  SPECIALISTS,
  STAND_INS,
} from "./learnCells.js";

/** The simple baseline that a net has to beat. */
const SIMPLE = "context, τ";

export interface Scores {
  micro: Estimate;
  macro: Estimate;
  /** Mean F1 over the hard labels. */
  hard: Estimate;
}

export interface SystemRow extends Scores {
  system: string;
  /** What it learnt from. */
  saw: string;
  /** Mean; with everything that it was taught by. */
  cpuMinutes: number;
  parameters: number;
  tau: number | null;
}

/** A change of the recipe beside the recipe, both with seed 0, on validation. */
export interface AblationRow {
  name: string;
  of: string;
  scores: Scores;
  /** Macro F1, the change less the recipe. */
  difference: number;
}

/** A swarm when its specialists are activated in one way, over seeds. */
export interface RoutingRow extends Scores {
  system: string;
  routing: string;
  /** Share of the columns that activate each specialist. */
  rates: Record<string, number>;
  /** Share of the specialists' time. */
  work: Estimate;
}

export interface CurvePoint {
  columns: number;
  system: string;
  micro: number;
  macro: number;
}

export interface ConfusionCounts {
  system: string;
  truth: number[];
  predicted: number[];
}

export interface LearnReport {
  data: string;
  split: ScoredSplit;
  seeds: number;
  trainColumns: number;
  labels: string[];
  hard: string[];
  systems: SystemRow[];
  ablations: AblationRow[];
  curve: CurvePoint[];
  /** Trainings were too small for figures to mean anything. */
  quick?: boolean;
  /** Of the swarms. */
  routings: RoutingRow[];
  /** Of the simple baseline, and of the first seed's swarm. */
  confusions: ConfusionCounts[];
  cpuMinutes: number;
}

/** Everything that the report says, from the records of the cells. */
export function summarise(
  { seeds, split, plan }: Pick<LearnExperiment, "seeds" | "split" | "plan">,
  { labels, other, trainColumns, records }: LearnResults,
  data: string,
): LearnReport {
  const resultOf = (key: string) => records.get(key)!.result as SystemResult;
  const baselines = (prefix: string) => records.get(prefix)!.result as Record<string, SystemResult>;
  const validationBaselines = baselines(baselinesKey("validation"));
  const hard = hardLabels({ ...validationBaselines[SIMPLE]!, labels });
  const scores = (results: readonly SystemResult[]) => scoresOf(results, labels, hard);
  const numbers = Array.from({ length: seeds }, (_, seed) => seed);
  const minutes = (id: string) => mean(numbers.map((seed) => minutesWithTeachers(records, id, seed, plan)));

  const systems: SystemRow[] = Object.entries(baselines(baselinesKey(split))).map(([name, result]) => ({
    system: `TF-IDF, ${name}`,
    saw: name.includes("+") ? `labels, ${other} labels` : "labels",
    ...scores([result]),
    cpuMinutes: result.cpuSeconds! / 60,
    parameters: result.parameters,
    tau: result.tau,
  }));
  for (const { id, title, saw } of ARMS.filter(({ means }) => !means)) {
    const results = numbers.map((seed) => resultOf(armKey(id, seed, split)));
    const { parameters } = results[0]!;
    const taus = results.map(({ tau }) => tau);
    const row = { system: title, saw: saw(plan, other), parameters, cpuMinutes: minutes(id) };
    systems.push({ ...row, ...scores(results), tau: taus.includes(null) ? null : mean(taus as number[]) });
    if (seeds < 2 || !ENSEMBLES.some((arm) => arm.id === id)) continue;
    const together = resultOf(ensembleKey(id, seeds, split));
    systems.push({
      ...row,
      system: `${title}, ${seeds} together`,
      ...scores([together]),
      cpuMinutes: seeds * minutes(id),
      parameters: together.parameters,
      tau: null,
    });
  }

  const routings = ARMS.flatMap(({ id, title }) =>
    routingRows(
      title,
      numbers.map((seed) => resultOf(armKey(id, seed, split))),
      scores,
    ),
  );

  const ablations = plan.ablations.map(({ name, of }): AblationRow => {
    const whole = scores([resultOf(armKey(of, ONE_SEED, "validation"))]);
    const changed = scores([resultOf(ablationKey(name))]);
    return { name, of, scores: changed, difference: changed.macro.mean - whole.macro.mean };
  });

  const curve: CurvePoint[] = [];
  const onCurve = ARMS.filter((arm) => arm.onCurve);
  const point = (columns: number, system: string, result: SystemResult) => {
    const { microF1, macroF1 } = classificationReport(result.truth, result.predicted, labels);
    curve.push({ columns, system, micro: microF1, macro: macroF1 });
  };
  for (const count of curveCounts(plan, trainColumns)) {
    const prefix = curvePrefix(count);
    point(count, `TF-IDF, ${SIMPLE}`, baselines(`${prefix}/baselines`)[SIMPLE]!);
    for (const { id, title } of onCurve) point(count, title, resultOf(`${prefix}/${id}`));
  }
  point(trainColumns, `TF-IDF, ${SIMPLE}`, validationBaselines[SIMPLE]!);
  for (const { id, title } of onCurve)
    point(trainColumns, title, resultOf(armKey(id, ONE_SEED, "validation")));

  const swarm = ARMS.find(({ id }) => id === "swarm")!;
  const confusions = [
    { system: `TF-IDF, ${SIMPLE}`, ...baselines(baselinesKey(split))[SIMPLE]! },
    { system: swarm.title, ...resultOf(armKey(swarm.id, 0, split)) },
  ].map(({ system, truth, predicted }) => ({ system, truth, predicted }));
  const cpuSeconds = [...records.values()].reduce((sum, record) => sum + record.cpuSeconds, 0);
  const shared = { data, split, seeds, trainColumns, labels, hard };
  return { ...shared, systems, ablations, curve, routings, confusions, cpuMinutes: cpuSeconds / 60 };
}

/** Of a swarm's results, seed by seed; none of other systems'. */
function routingRows(
  system: string,
  results: readonly SystemResult[],
  scores: (results: readonly SystemResult[]) => Scores,
): RoutingRow[] {
  const { specialists = [], routings = {} } = results[0]!;
  return Object.keys(routings).map((routing) => {
    const own = results.map((result) => ({ ...result, ...result.routings![routing]! }));
    const rates = specialists.map((id, i): [string, number] => [id, mean(own.map((one) => one.rates[i]!))]);
    const work = estimate(own.map((one) => one.work));
    return { system, routing, ...scores(own), rates: Object.fromEntries(rates), work };
  });
}

/** Of an arm, of the arms that it needs, and of the linear specialists and their stand-ins where it reads any. */
function minutesWithTeachers(
  records: ReadonlyMap<string, CellRecord>,
  id: string,
  seed: number,
  plan: LearnExperiment["plan"],
): number {
  const arm = ARMS.find((each) => each.id === id)!;
  const minutesOf = (key: string) => records.get(key)!.cpuSeconds / 60;
  const needed = armsNeeded(arm, plan);
  const reads = (of: Arm["standIns"]) => (of?.(plan) ?? []).length > 0;
  const linear = needed.some(({ specialists }) => reads(specialists)) ? minutesOf(SPECIALISTS) : 0;
  const held = needed.some(({ standIns }) => reads(standIns)) ? minutesOf(STAND_INS) : 0;
  return needed.reduce((sum, each) => sum + minutesOf(armKey(each.id, seed, "validation")), linear + held);
}

function scoresOf(
  results: readonly SystemResult[],
  labels: readonly string[],
  hard: readonly string[],
): Scores {
  const reports = results.map(({ truth, predicted }) => classificationReport(truth, predicted, labels));
  return {
    micro: estimate(reports.map(({ microF1 }) => microF1)),
    macro: estimate(reports.map(({ macroF1 }) => macroF1)),
    hard: estimate(reports.map((report) => hardF1(report, hard))),
  };
}

/** Over those of the labels that occur in truth or answers. */
function hardF1({ perClass }: ClassificationReport, hard: readonly string[]): number {
  const own = perClass.filter(({ label }) => hard.includes(label)).map(({ f1 }) => f1);
  return own.length === 0 ? 0 : mean(own);
}
