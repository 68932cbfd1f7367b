import { Serialiser } from "../data/serialise.js";
import type { Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import type { AegirForColumnAnnotation, ModelRuntime } from "../model/index.js";
import type { LinearSpecialist } from "../specialists/index.js";
import type { SwarmOrchestrator } from "../swarm/index.js";
import { Lane } from "../tensor/lane.js";
import { type Calibration, calibrated, readCalibration } from "./calibration.js";
import { columnLogits, type LogitsOf, modelLogits } from "./predict.js";
import { type RunConfig, readRunConfig } from "./runFolder.js";
import { loadSpecialist } from "./specialistRun.js";
import { swarmLogits } from "./swarmPredict.js";
import { loadAnnotatorModel, loadSwarm } from "./swarmRun.js";

/** A trained run with what it needs to read tables as in training. */
export interface LoadedRun extends Disposable {
  dir: string;
  config: RunConfig;
  task: Task;
  labels: readonly string[];
  serialiser: Serialiser;
  /** The model; of a swarm, the primary; null for a column specialist. */
  model: AegirForColumnAnnotation | null;
  /** Of a run of kind "specialist". */
  specialist: LinearSpecialist | null;
  /** Null for a single model. */
  swarm: SwarmOrchestrator | null;
  /** Calibrated where the run is. */
  logitsOf: LogitsOf;
  /** Chosen on validation by the training; null: none. */
  calibration: Calibration | null;
  /** Batches that are worth having under way at a time. */
  concurrency: number;
  /** The label that stands for no type at all; null: the run has none. */
  none: string | null;
  dispose(): void;
}

export type LoadRunOptions = ModelRuntime & {
  /** Batches of a single model run on so many lanes side by side; default 1. */
  lanes?: number;
};

/**
 * The model of a supervised run, the swarm of a parl run, or a column specialist, with its best weights.
 * @throws AegirError ERR_CHECKPOINT where `dir` is no run folder, has no weights, a file is damaged, or the weights are of
 *   other geometry than its configuration; ERR_CONFIG for a pretraining run, which has no labels
 */
export async function loadRun(
  dir: string,
  { lanes: laneCount = 1, ...runtime }: LoadRunOptions = {},
): Promise<LoadedRun> {
  if (!(Number.isInteger(laneCount) && laneCount >= 1))
    throw new AegirError("ERR_CONFIG", `loadRun.lanes: expected a whole number from 1, got ${laneCount}`);
  const config = await readRunConfig(dir);
  const task = config.task ?? "cta";
  const serialiser = new Serialiser(config.serialise);
  if (config.kind === "pretrain") {
    throw new AegirError(
      "ERR_CONFIG",
      `${dir} is a pretraining run, which knows no labels: train on it first (train supervised --init ${dir})`,
    );
  }
  const shared = { dir, config, task, serialiser, specialist: null, none: config.none ?? null };
  if (config.kind === "specialist") {
    const specialist = await loadSpecialist(dir, runtime.name);
    const { labels } = specialist;
    const parts = {
      labels,
      model: null,
      specialist,
      swarm: null,
      logitsOf: columnLogits(specialist),
      calibration: null,
      concurrency: 1,
    };
    const dispose = () => {};
    return { ...shared, ...parts, dispose, [Symbol.dispose]: dispose };
  }
  if (config.kind === "parl") {
    const { swarm, dispose } = await loadSwarm(dir, config, runtime);
    const { primary: model } = swarm;
    const calibration = await readCalibration(dir, model.labels.length);
    const logitsOf = calibrated(swarmLogits(swarm), calibration);
    const parts = { labels: model.labels, model, swarm, logitsOf, calibration, concurrency: 1 };
    return { ...shared, ...parts, dispose, [Symbol.dispose]: dispose };
  }
  const model = await loadAnnotatorModel(dir, { name: "model", ...runtime });
  const calibration = await readCalibration(dir, model.labels.length);
  const { threads } = runtime;
  const lanes =
    laneCount === 1
      ? []
      : Array.from({ length: laneCount }, (_, i) => new Lane({ name: `model ${i}`, threads }));
  const dispose = () => {
    model.dispose();
    for (const lane of lanes) void lane.close();
  };
  return {
    ...shared,
    labels: model.labels,
    model,
    swarm: null,
    logitsOf: calibrated(modelLogits(model, lanes), calibration),
    calibration,
    // One more than run: the next batch is ready when a lane is free.
    concurrency: laneCount + 1,
    dispose,
    [Symbol.dispose]: dispose,
  };
}
