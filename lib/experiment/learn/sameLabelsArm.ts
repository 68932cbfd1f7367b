import { join } from "node:path";
import { learnFromValidation } from "../../data/split.js";
import type { Dataset } from "../../data/types.js";
import { parametersOf } from "../../specialists/index.js";
import { loadRun } from "../../train/loadRun.js";
import { type Answers, answersOf } from "./answers.js";
import type { Arm } from "./arm.js";
import { HALVES, type Half } from "./halves.js";
import { trainSpecialists } from "./specialistRuns.js";

const STACKED = "stacked";

/**
 * What a swarm that learns on half of the validation columns has to be held against: the strongest linear classifier, trained on the training
 * columns and on that half, judged as the swarm is. Its power of the prior is chosen on the judged columns.
 */
export const sameLabels: Arm = {
  id: "same-labels",
  title: "TF-IDF, stacked, τ, with the swarm's labels",
  saw: () => "labels, CPA labels, half of the validation columns",
  needs: () => [],
  specialists: () => [],
  onCurve: false,
  steps: () => 600,
  async train({ plan, dataset, cpa, seed, dir }, context) {
    for (const half of HALVES) {
      const data = { plan, dataset: withHalf(dataset, seed, half), cpa };
      await trainSpecialists(join(dir, "same-labels", half), [STACKED], data, context);
    }
  },
  async answers({ dataset, seed, dir }, split, context) {
    const parts: Answers[] = [];
    let parameters = 0;
    for (const half of split === "test" ? HALVES.slice(0, 1) : HALVES) {
      using run = await loadRun(join(dir, "same-labels", half, STACKED));
      parts.push(await answersOf([run], withHalf(dataset, seed, half), split, context));
      parameters = parametersOf(run.specialist!);
    }
    const all = (of: (part: Answers) => number[]) => parts.flatMap(of);
    return {
      truth: all(({ truth }) => truth),
      predicted: all(({ predicted }) => predicted),
      tau: null,
      parameters,
    };
  },
};

/** The training columns and one half of the validation columns to learn on, the other half to judge by. */
function withHalf(dataset: Dataset, seed: number, half: Half): Dataset {
  const { splits } = learnFromValidation(dataset, seed, half === "validation-rest");
  const train = [...dataset.splits.train, ...splits.train];
  return { ...dataset, splits: { ...splits, train } };
}
