import { Serialiser } from "../data/serialise.js";
import type { Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import type { AegirForColumnAnnotation, ModelRuntime } from "../model/index.js";
import type { SwarmOrchestrator } from "../swarm/index.js";
import { type LogitsOf, modelLogits } from "./predict.js";
import { type RunConfig, readRunConfig } from "./runFolder.js";
import { swarmLogits } from "./swarmPredict.js";
import { loadAnnotatorModel, loadSwarm } from "./swarmRun.js";

/** A trained run with what it needs to read tables as in training. */
export interface LoadedRun extends Disposable {
  dir: string;
  config: RunConfig;
  task: Task;
  labels: readonly string[];
  serialiser: Serialiser;
  /** The model; of a swarm, the primary. */
  model: AegirForColumnAnnotation;
  /** Null for a single model. */
  swarm: SwarmOrchestrator | null;
  logitsOf: LogitsOf;
  dispose(): void;
}

/**
 * The model of a supervised run, or the swarm of a parl run, with its best weights.
 * @throws AegirError ERR_CHECKPOINT where `dir` is no run folder, has no weights, a file is damaged, or the weights are of
 *   other geometry than its configuration; ERR_CONFIG for a pretraining run, which has no labels
 */
export async function loadRun(dir: string, runtime: ModelRuntime = {}): Promise<LoadedRun> {
  const config = await readRunConfig(dir);
  const task = config.task ?? "cta";
  const serialiser = new Serialiser(config.serialise);
  if (config.kind === "pretrain") {
    throw new AegirError(
      "ERR_CONFIG",
      `${dir} is a pretraining run, which knows no labels: train on it first (train supervised --init ${dir})`,
    );
  }
  const shared = { dir, config, task, serialiser };
  if (config.kind === "parl") {
    const { swarm, dispose } = await loadSwarm(dir, config, runtime);
    const { primary: model } = swarm;
    const logitsOf = swarmLogits(swarm);
    return { ...shared, labels: model.labels, model, swarm, logitsOf, dispose, [Symbol.dispose]: dispose };
  }
  const model = await loadAnnotatorModel(dir, { name: "model", ...runtime });
  const dispose = () => model.dispose();
  const logitsOf = modelLogits(model);
  return {
    ...shared,
    labels: model.labels,
    model,
    swarm: null,
    logitsOf,
    dispose,
    [Symbol.dispose]: dispose,
  };
}
