import { join } from "node:path";
import { Random } from "../../data/random.js";
import type { Dataset } from "../../data/types.js";
import { LinearSpecialist, labelledRefs, parametersOf as linearParameters } from "../../specialists/index.js";
import type { ColumnSpecialist } from "../../swarm/index.js";
import { specialistOf } from "../../train/columnModel.js";
import { evaluationSet } from "../../train/evaluate.js";
import { thin } from "../../train/examples.js";
import { type LoadedRun, loadRun } from "../../train/loadRun.js";
import { type ParlRun, trainParl } from "../../train/parl.js";
import type { ParlOptions } from "../../train/parlOptions.js";
import { trainSupervised } from "../../train/supervised.js";
import { Scope } from "../../train/tensors.js";
import type { CellContext } from "../cells.js";
import { type Outcomes, swarmOutcomes } from "../outcomes.js";
import {
  allOn,
  bestFixedRouting,
  constantRouting,
  learnedRouting,
  predictedUnder,
  type Routings,
  ratesOf,
  shuffledRouting,
} from "../routings.js";
import type { RoutedAnswers, ScoredSplit, SystemResult } from "./answers.js";
import { type Arm, runSettings, type Study } from "./arm.js";
import type { LearnPlan } from "./plan.js";

/** Of the swarms, which reads sequences; it held out the sites that they learn on. */
export const primary: Arm = {
  id: "primary",
  title: "primary",
  saw: () => "labels, but for the sites that the swarm learns on",
  means: true,
  needs: () => [],
  specialists: () => [],
  onCurve: false,
  steps: ({ swarm }) => (swarm.primary.train.steps ?? 0) / 2,
  async train({ plan, dataset, seed, dir }, context) {
    const { primary } = plan.swarm;
    const settings = { ...primary.train, ...runSettings(join(dir, "primary"), primary, context) };
    const { holdOut } = plan.standIn;
    (await trainSupervised({ ...settings, dataset, seed, holdOut })).model.dispose();
  },
};

/** Every specialist costs the same, or its time. */
export const swarms: readonly Arm[] = [
  swarmArm("swarm", "swarm", () => ({})),
  swarmArm("swarm-by-time", "swarm that pays for time", ({ swarm }) => swarm.byTime),
];

/**
 * Linear specialists and the distilled net, all frozen, asked by a small primary. All of them know their training columns by heart, so the swarm
 * learns on sites that the primary and a stand-in of every specialist held out.
 * @param own over the plan's options of PARL
 */
function swarmArm(id: string, title: string, own: (plan: LearnPlan) => ParlOptions): Arm {
  const linear = (plan: LearnPlan) => Object.keys(plan.specialists);
  return {
    id,
    title,
    saw: (plan) =>
      `as its members (${[...linear(plan), "distilled net"].join(", ")}), whose labels it learns on again`,
    needs: () => ["distilled", "stand-in", "primary"],
    specialists: linear,
    standIns: linear,
    onCurve: false,
    steps: ({ swarm }) => swarm.parl.steps ?? 0,
    train: (study, context) => trainSwarm(id, study, own(study.plan), context),
    answers: (study, split, context) => swarmAnswers(id, study, split, context),
  };
}

async function trainSwarm(id: string, study: Study, own: ParlOptions, context: CellContext): Promise<void> {
  const { plan, dataset, seed, dir } = study;
  const { primary, parl } = plan.swarm;
  const { holdOut } = plan.standIn;
  const init = join(dir, "primary");
  using scope = new Scope();
  const specialists: ParlRun["specialists"] = [];
  const standIns: Record<string, LoadedRun> = {};
  for (const id of Object.keys(plan.specialists)) {
    const run = await loadRun(join(study.specialists, id), { name: id });
    specialists.push(specialistOf(run, id, id));
    standIns[id] = await loadRun(join(study.standIns, id), { name: id });
  }
  const net = scope.keep(await loadRun(join(dir, "distilled")));
  specialists.push(specialistOf(net, "net", "net"));
  standIns.net = scope.keep(await loadRun(join(dir, "stand-in")));
  const settings = { ...parl, ...own, ...runSettings(join(dir, id), primary, context), task: id };
  const learning = { learnFrom: "held-out", holdOut, specialists, standIns } as const;
  (await trainParl({ ...settings, ...learning, dataset, seed, init }))[Symbol.dispose]();
}

async function swarmAnswers(
  id: string,
  { dataset, seed, dir }: Study,
  split: ScoredSplit,
  context: CellContext,
): Promise<SystemResult> {
  using run = await loadRun(join(dir, id));
  const { swarm: orchestrator, serialiser, labels, calibration } = run;
  const set = await evaluationSet(dataset, split, labels, serialiser);
  const groups = set.columns.map(() => "");
  const outcomes = await swarmOutcomes(orchestrator!, set, groups, { calibration, ...context });
  const result = routedResult(outcomes, await timesOf(run, dataset, context), seed);
  return { ...result, tau: calibration!.priorPower, parameters: parametersOf(run) };
}

/** Of the trained parts and of the specialists. */
function parametersOf({ swarm: orchestrator }: LoadedRun): number {
  const trained = Object.values(orchestrator!.modules()).map(({ numParameters }) => numParameters);
  const frozen = orchestrator!.specialists.map((specialist) =>
    specialist instanceof LinearSpecialist ? linearParameters(specialist) : specialist.model!.numParameters,
  );
  return [...trained, ...frozen].reduce((sum, count) => sum + count, 0);
}

/** Columns that specialists are timed on. */
const TIMED = 200;

/** (n) milliseconds that each specialist takes for a column. */
async function timesOf(
  { swarm: orchestrator }: LoadedRun,
  dataset: Dataset,
  { signal }: CellContext,
): Promise<number[]> {
  const columns = thin(labelledRefs(dataset, "validation"), TIMED);
  const times: number[] = [];
  for (const specialist of orchestrator!.specialists as readonly ColumnSpecialist[]) {
    const start = performance.now();
    await specialist.logProbabilities(columns, signal);
    times.push((performance.now() - start) / columns.length);
  }
  return times;
}

/**
 * What the columns are said to be as the router decides, and under the controls.
 * @param times (n) what each specialist costs
 */
export function routedResult(
  outcomes: Outcomes,
  times: readonly number[],
  seed: number,
): Omit<SystemResult, "tau" | "parameters"> {
  const { specialists, truth } = outcomes;
  const total = times.reduce((sum, time) => sum + time, 0);
  const of = (routing: Routings): RoutedAnswers => {
    const rates = ratesOf(routing, specialists.length);
    const work = rates.reduce((sum, rate, i) => sum + (rate * times[i]!) / total, 0);
    return { predicted: predictedUnder(outcomes, routing), rates, work };
  };
  const constant = (routing: number) => of(constantRouting(outcomes, routing));
  const learned = learnedRouting(outcomes);
  const routings = {
    "the router's": of(learned),
    "all on": constant(allOn(outcomes)),
    "best fixed subset (of these very columns)": constant(bestFixedRouting(outcomes)),
    "the router's, of other columns": of(shuffledRouting(learned, new Random(seed, "shuffled routing"))),
    "all off": constant(0),
  };
  const { predicted } = routings["the router's"];
  return { truth, predicted, specialists: [...specialists], times: [...times], routings };
}
