import type { Dataset, Split } from "../data/types.js";
import { AegirError } from "../errors.js";
import {
  type Abstention,
  type AbstentionTarget,
  calibrateAbstention,
  checkedTarget,
  readAbstention,
  saveAbstention,
} from "./abstention.js";
import { type Evaluation, evaluate, evaluationSet } from "./evaluate.js";
import { evaluateSwarm, type SwarmFigures } from "./evaluateSwarm.js";
import type { LoadedRun } from "./loadRun.js";
import { type PredictOptions, predict } from "./predict.js";

export interface RunEvaluation extends Evaluation {
  /** Swarms only. */
  swarm?: SwarmFigures;
}

export interface RunEvaluationOptions extends PredictOptions {
  split?: Split;
  /** What happens to columns whose labels were absent from training; default "error". */
  unknownLabels?: "error" | "skip";
  /** Swarms: also score all-on, all-off, shuffled routing and each specialist as the only one. */
  controls?: boolean;
  limit?: number;
}

/**
 * Scores a loaded run on a data set; beside it as a head that abstains, where the run was calibrated to.
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
  const abstainBelow = (await readAbstention(run.dir))?.threshold;
  return run.swarm
    ? evaluateSwarm(run.swarm, set, { controls, abstainBelow, calibration: run.calibration, ...options })
    : evaluate(run.logitsOf, set, { abstainBelow, ...options });
}

/**
 * Calibrates a run's threshold on the validation columns of its data and stores it in the run's folder.
 * @throws AegirError ERR_CONFIG, ERR_DATA as `calibrateAbstention`; ERR_ABORTED
 */
export async function calibrateRun(
  run: LoadedRun,
  dataset: Dataset,
  target: AbstentionTarget,
  options: PredictOptions = {},
): Promise<Abstention> {
  checkedTarget(target);
  const set = await evaluationSet(dataset, "validation", run.labels, run.serialiser, {
    unknownLabels: "skip",
  });
  const predictions = await predict(run.logitsOf, set.examples, run.labels.length, {
    task: "calibration",
    ...options,
  });
  const truth = set.examples.map(({ label }) => label);
  const abstention = calibrateAbstention(predictions, truth, target);
  await saveAbstention(run.dir, abstention);
  return abstention;
}
