import type { Dataset, Split } from "../data/types.js";
import { AegirError } from "../errors.js";
import { type Evaluation, evaluate, evaluationSet } from "./evaluate.js";
import { evaluateSwarm, type SwarmFigures } from "./evaluateSwarm.js";
import type { LoadedRun } from "./loadRun.js";
import type { PredictOptions } from "./predict.js";

export interface RunEvaluation extends Evaluation {
  /** Swarms only. */
  swarm?: SwarmFigures;
}

export interface RunEvaluationOptions extends PredictOptions {
  split?: Split;
  /** What happens to columns whose labels were absent from training; default "error". */
  unknownLabels?: "error" | "skip";
  /** Swarms: also score all-on, all-off and shuffled routing. */
  controls?: boolean;
  limit?: number;
}

/**
 * Scores a loaded run on a data set.
 * @throws AegirError ERR_DATA where the data is of another task or has labels that were absent from training; ERR_ABORTED
 */
export async function evaluateRun(
  run: LoadedRun,
  dataset: Dataset,
  { split = "test", unknownLabels, controls = true, limit, ...options }: RunEvaluationOptions = {},
): Promise<RunEvaluation> {
  if (dataset.task !== run.task) {
    throw new AegirError(
      "ERR_DATA",
      `${dataset.name} is ${dataset.task} data, but ${run.dir} was trained for ${run.task}`,
    );
  }
  const set = await evaluationSet(dataset, split, run.labels, run.serialiser, { unknownLabels, limit });
  return run.swarm
    ? evaluateSwarm(run.swarm, set, { controls, ...options })
    : evaluate(run.logitsOf, set, options);
}
