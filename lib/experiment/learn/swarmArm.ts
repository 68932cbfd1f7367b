import { join } from "node:path";
import { Random } from "../../data/random.js";
import { learnFromValidation } from "../../data/split.js";
import type { Dataset } from "../../data/types.js";
import { LinearSpecialist, labelledRefs, parametersOf as linearParameters } from "../../specialists/index.js";
import type { ColumnSpecialist } from "../../swarm/index.js";
import { evaluationSet } from "../../train/evaluate.js";
import { thin } from "../../train/examples.js";
import { type LoadedRun, loadRun } from "../../train/loadRun.js";
import { type ParlRun, trainParl } from "../../train/parl.js";
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
import { type Arm, runSettings } from "./arm.js";
import { HALVES } from "./halves.js";

/**
 * Linear specialists and the distilled net, all frozen, asked by a small primary that reads sequences. Two swarms are trained, each on a half
 * of the validation sites, because the net knows the training columns by heart: a validation column is judged by the swarm that did not learn on
 * its site, the test columns by the first.
 */
export const swarm: Arm = {
  id: "swarm",
  title: "swarm",
  saw: (plan) =>
    `as its members (${[...Object.keys(plan.specialists), "distilled net"].join(", ")}), half of the validation columns`,
  needs: () => ["distilled"],
  specialists: (plan) => Object.keys(plan.specialists),
  onCurve: false,
  steps: ({ swarm: { primary, parl } }) => (primary.train.steps ?? 0) / 2 + (parl.steps ?? 0),
  async train(study, context) {
    const { plan, dataset, seed } = study;
    const { primary, parl } = plan.swarm;
    const own = join(study.dir, "swarm");
    const first = runSettings(join(own, "primary"), primary, context);
    (await trainSupervised({ ...primary.train, ...first, dataset, seed })).model.dispose();
    using scope = new Scope();
    const specialists: ParlRun["specialists"] = [];
    for (const id of Object.keys(plan.specialists))
      specialists.push((await loadRun(join(study.specialists, id), { name: id })).specialist!);
    const { model, serialiser, calibration } = scope.keep(await loadRun(join(study.dir, "distilled")));
    specialists.push({ id: "net", model: model!, serialiser, calibration });
    for (const learnFrom of HALVES) {
      const settings = { ...parl, ...runSettings(join(own, learnFrom), primary, context), specialists };
      const trained = await trainParl({ ...settings, dataset, seed, learnFrom, init: join(own, "primary") });
      trained[Symbol.dispose]();
    }
  },
  async answers(study, split, context) {
    const { dataset, seed } = study;
    const own = join(study.dir, "swarm");
    const parts: Outcomes[] = [];
    // Both swarms have the same specialists and sizes.
    let costs: { times: number[]; parameters: number } | undefined;
    for (const learnFrom of split === "test" ? HALVES.slice(0, 1) : HALVES) {
      using run = await loadRun(join(own, learnFrom));
      const judged = learnFromValidation(dataset, seed, learnFrom === "validation-rest");
      parts.push(await outcomesOf(run, judged, split, context));
      costs ??= { times: await timesOf(run, dataset, context), parameters: parametersOf(run) };
    }
    const { times, parameters } = costs!;
    return routedResult(parts, times, seed, parameters);
  },
};

async function outcomesOf(
  { swarm: orchestrator, serialiser, labels }: LoadedRun,
  dataset: Dataset,
  split: ScoredSplit,
  context: CellContext,
): Promise<Outcomes> {
  const set = await evaluationSet(dataset, split, labels, serialiser);
  const groups = set.columns.map(() => "");
  return swarmOutcomes(orchestrator!, set, groups, context);
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
 * What the columns are said to be as the router decides, and under the controls; each part by its own swarm.
 * @param times (n) what each specialist costs
 */
export function routedResult(
  parts: readonly Outcomes[],
  times: readonly number[],
  seed: number,
  parameters: number,
): SystemResult {
  const { specialists } = parts[0]!;
  const total = times.reduce((sum, time) => sum + time, 0);
  const of = (routingsOf: (part: Outcomes) => Routings): RoutedAnswers => {
    const routings = parts.map(routingsOf);
    const predicted = parts.flatMap((part, i) => predictedUnder(part, routings[i]!));
    const rates = ratesOf(routings.flat(), specialists.length);
    const work = rates.reduce((sum, rate, i) => sum + (rate * times[i]!) / total, 0);
    return { predicted, rates, work };
  };
  const random = new Random(seed, "shuffled routing");
  const learned = of((part) => learnedRouting(part));
  return {
    truth: parts.flatMap(({ truth }) => truth),
    predicted: learned.predicted,
    tau: null,
    parameters,
    specialists: [...specialists],
    times: [...times],
    routings: {
      "the router's": learned,
      "all on": of((part) => constantRouting(part, allOn(part))),
      "best fixed subset (of these very columns)": of((part) =>
        constantRouting(part, bestFixedRouting(part)),
      ),
      "the router's, of other columns": of((part) => shuffledRouting(learnedRouting(part), random)),
      "all off": of((part) => constantRouting(part, 0)),
    },
  };
}
