import { Serialiser } from "../data/serialise.js";
import type { Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import { AegirForColumnAnnotation, type ModelRuntime, type ResolvedAnnotator } from "../model/index.js";
import { loadCheckpoint } from "./checkpoint.js";
import { bestWeightsDir, type RunConfig, readRunConfig } from "./runFolder.js";
import { restoreModule } from "./tensors.js";

/** An annotation model with what it needs to read tables as in training. */
export interface LoadedModel extends Disposable {
  dir: string;
  config: RunConfig;
  task: Task;
  labels: string[];
  serialiser: Serialiser;
  model: AegirForColumnAnnotation;
}

/**
 * The annotation model of a supervised run, or the primary of a swarm by itself, with its best weights.
 * @throws AegirError ERR_CHECKPOINT where `dir` is no run folder, has no weights, a file is damaged, or the weights are of
 *   other geometry than its configuration; ERR_CONFIG for a pretraining run, which has no labels
 */
export async function loadModel(dir: string, runtime: ModelRuntime = {}): Promise<LoadedModel> {
  const config = await readRunConfig(dir);
  if (config.kind === "pretrain" || !("labels" in config.model)) {
    throw new AegirError(
      "ERR_CONFIG",
      `${dir} is a pretraining run, which knows no labels: train on it first (train supervised --init ${dir})`,
    );
  }
  const prefix = config.kind === "parl" ? "primary." : "";
  const { groups } = await loadCheckpoint(await bestWeightsDir(dir), { only: ["model"] });
  const options: ResolvedAnnotator = config.model;
  const model = new AegirForColumnAnnotation(options, { name: "model", ...runtime });
  try {
    restoreModule(model.native, groups.model!, prefix);
    return {
      dir,
      config,
      task: config.task ?? "cta",
      labels: [...model.labels],
      serialiser: new Serialiser(config.serialise),
      model,
      [Symbol.dispose]: () => model.dispose(),
    };
  } catch (error) {
    model.dispose();
    throw error;
  }
}
