import { join } from "node:path";
import { Serialiser } from "../data/serialise.js";
import type { Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import { AegirForColumnAnnotation, type AnnotatorOptions, type ModelRuntime } from "../model/index.js";
import { LinearSpecialist } from "../specialists/index.js";
import {
  AlignmentProjection,
  ColumnSpecialist,
  FrozenSpecialist,
  RWKVStateFusion,
  type Specialist,
  SwarmOrchestrator,
  stateGeometry,
} from "../swarm/index.js";
import { readCalibration, saveCalibration } from "./calibration.js";
import { firstDifference, loadCheckpoint, saveCheckpoint, type TensorMap } from "./checkpoint.js";
import { ColumnModelSpecialist } from "./columnModel.js";
import { initialiseFrom } from "./initialise.js";
import type { MetricValue } from "./metricsLog.js";
import { bestWeightsDir, openRun, type RunConfig, readRunConfig } from "./runFolder.js";
import { loadSpecialist, saveSpecialist } from "./specialistRun.js";
import { restoreModule, storeModule } from "./tensors.js";

/** What a swarm's run folder records beside the primary: enough to build it again. */
export interface SwarmConfig {
  specialists: string[];
  fuse: SwarmOrchestrator["fuse"];
  fusionMode: "weighted_sum" | "gated" | "concat_project";
  /** Absent in runs older than it: false. */
  fuseLabels?: boolean;
}

/** A swarm with the modules that were made for it. */
export interface SwarmParts {
  swarm: SwarmOrchestrator;
  dispose(): void;
}

interface NamedModel {
  id: string;
  model: AegirForColumnAnnotation;
}

/** A model that reads the primary's tokens, with what they were made by. */
interface TokenReader extends NamedModel {
  serialiser: Serialiser;
}

/** A model to freeze, or a specialist as it is. */
type Member = NamedModel | ColumnSpecialist;

/**
 * A swarm of a fresh primary over frozen specialists; those of other geometry than the primary's get an alignment.
 * @param geometry of the primary, with its labels
 */
export function buildSwarm(
  specialists: readonly Member[],
  geometry: AnnotatorOptions,
  {
    fuse,
    fusionMode,
    fuseLabels = false,
    seed,
    threads,
  }: Omit<SwarmConfig, "specialists"> & { seed: number; threads: number },
  name: string,
): SwarmParts {
  const primary = new AegirForColumnAnnotation(geometry, { seed, threads, name: `${name} primary` });
  const made: { dispose(): void }[] = [primary];
  const keep = <T extends { dispose(): void }>(module: T): T => {
    made.push(module);
    return module;
  };
  const dispose = () => {
    for (const module of made.reverse()) module.dispose();
  };
  try {
    const own = stateGeometry(primary);
    const frozen = specialists.map((member): Specialist => {
      if (member instanceof ColumnSpecialist) return member;
      const { id, model } = member;
      const same = fuse === "outputs" || firstDifference(stateGeometry(model), own) === null;
      const alignment = same ? undefined : keep(AlignmentProjection.between(model, primary));
      return new FrozenSpecialist(model, { id, alignment });
    });
    const { heads, headSize } = own;
    const numAgents = specialists.length;
    const fusion =
      fuse === "outputs"
        ? undefined
        : keep(new RWKVStateFusion({ numHeads: heads, headSize, numAgents, mode: fusionMode, seed }));
    const swarm = keep(
      new SwarmOrchestrator({ primaryModel: primary, specialists: frozen, fusion, fuse, fuseLabels }),
    );
    return { swarm, dispose };
  } catch (error) {
    dispose();
    throw error;
  }
}

export function swarmConfig({ specialists, fuse, fusion, fuseLabels }: SwarmOrchestrator): {
  [key: string]: MetricValue;
} {
  const fusionMode = fusion instanceof RWKVStateFusion ? fusion.options.mode : "weighted_sum";
  return { specialists: specialists.map(({ id }) => id), fuse, fusionMode, fuseLabels };
}

/** The trainable weights of a swarm, named `<module>.<parameter>`. */
export function storeSwarm(swarm: SwarmOrchestrator): TensorMap {
  const all: TensorMap = new Map();
  for (const [name, module] of Object.entries(swarm.modules())) {
    for (const [key, tensor] of storeModule(module, `${name}.`)) all.set(key, tensor);
  }
  return all;
}

export function restoreSwarm(swarm: SwarmOrchestrator, tensors: TensorMap): void {
  for (const [name, module] of Object.entries(swarm.modules())) restoreModule(module, tensors, `${name}.`);
}

/**
 * Starts a swarm from a swarm's run, or its primary from a model's.
 * @param freshRouter the swarm keeps the router that it has
 * @throws AegirError ERR_CHECKPOINT
 */
export async function initialiseSwarm(
  swarm: SwarmOrchestrator,
  dir: string,
  freshRouter = false,
): Promise<void> {
  const { kind } = await readRunConfig(dir);
  if (kind !== "parl") return initialiseFrom(swarm.primary, dir);
  const { groups, geometry } = await loadCheckpoint(await bestWeightsDir(dir), { only: ["model"] });
  const difference = firstDifference(geometry, swarmGeometry(swarm));
  if (difference) {
    const { path, left, right } = difference;
    throw new AegirError(
      "ERR_CHECKPOINT",
      `${dir} holds a swarm of other geometry: ${path} is ${left} there, ${right} in this one`,
    );
  }
  const own = freshRouter ? storeModule(swarm.router.native, "router.") : new Map();
  restoreSwarm(swarm, new Map([...groups.model!, ...own]));
}

/** What decides the shapes of a swarm's weights and what they stand for; recorded in its checkpoints. */
export function swarmGeometry(swarm: SwarmOrchestrator): unknown {
  return {
    primary: swarm.primary.options,
    fuse: swarm.fuse,
    ...(swarm.fuseLabels ? { fuseLabels: true } : {}),
    specialists: swarm.specialists.map((specialist) => {
      const { id, labels } = specialist;
      return specialist instanceof FrozenSpecialist
        ? { id, labels, geometry: specialist.geometry }
        : { id, labels };
    }),
  };
}

/** @throws AegirError ERR_CONFIG for a specialist of a kind of the caller's own */
export function checkStorable(specialist: TokenReader | ColumnSpecialist): void {
  const known =
    !(specialist instanceof ColumnSpecialist) ||
    specialist instanceof LinearSpecialist ||
    specialist instanceof ColumnModelSpecialist;
  if (known) return;
  throw new AegirError(
    "ERR_CONFIG",
    `specialist '${specialist.id}' is of a kind that no run folder can hold: expected a LinearSpecialist or a ColumnModelSpecialist; train without out`,
  );
}

/** Copies frozen specialists into a swarm's run folder, each as a run folder of its own. */
export async function saveSpecialists(
  dir: string,
  specialists: readonly (TokenReader | ColumnSpecialist)[],
  task: Task,
): Promise<void> {
  for (const specialist of specialists) {
    const own = join(dir, "specialists", specialist.id);
    if (specialist instanceof LinearSpecialist) {
      await saveSpecialist(own, specialist, task);
      continue;
    }
    checkStorable(specialist);
    const columns = specialist instanceof ColumnModelSpecialist;
    const { model, serialiser } = specialist as TokenReader | ColumnModelSpecialist;
    const config: RunConfig = {
      kind: "supervised",
      task,
      model: model.options,
      serialise: serialiser.options,
      options: columns ? { reads: "columns" } : {},
      init: null,
      data: null,
    };
    await openRun(own, config, null);
    await saveCheckpoint(join(own, "best"), {
      geometry: model.options,
      groups: { model: storeModule(model.native) },
      state: {},
    });
    if (specialist instanceof ColumnModelSpecialist && specialist.calibration)
      await saveCalibration(own, specialist.calibration);
  }
}

/** The swarm of a parl run, with its best weights. @throws AegirError ERR_CHECKPOINT */
export async function loadSwarm(
  dir: string,
  config: RunConfig,
  runtime: ModelRuntime = {},
): Promise<SwarmParts> {
  const { specialists: ids, ...how } = config.swarm as unknown as SwarmConfig;
  const members: Member[] = [];
  const disposeModels = () => {
    for (const { model } of members) model?.dispose();
  };
  try {
    for (const id of ids) members.push(await loadMember(join(dir, "specialists", id), id, runtime));
    const threads = runtime.threads ?? 1;
    const parts = buildSwarm(
      members,
      config.model as AnnotatorOptions,
      { ...how, seed: 0, threads },
      "swarm",
    );
    try {
      const { groups } = await loadCheckpoint(await bestWeightsDir(dir), { only: ["model"] });
      restoreSwarm(parts.swarm, groups.model!);
    } catch (error) {
      parts.dispose();
      throw error;
    }
    const dispose = () => {
      parts.dispose();
      disposeModels();
    };
    return { swarm: parts.swarm, dispose };
  } catch (error) {
    disposeModels();
    throw error;
  }
}

/** A specialist of a swarm's run, from its own folder. */
async function loadMember(dir: string, id: string, runtime: ModelRuntime): Promise<Member> {
  const { kind, serialise, options } = await readRunConfig(dir);
  if (kind === "specialist") return loadSpecialist(dir, id);
  const model = await loadAnnotatorModel(dir, runtime);
  if (options.reads !== "columns") return { id, model };
  try {
    const calibration = await readCalibration(dir, model.labels.length);
    return new ColumnModelSpecialist(id, model, new Serialiser(serialise), calibration);
  } catch (error) {
    model.dispose();
    throw error;
  }
}

/** An annotation model of a run, with its best weights. */
export async function loadAnnotatorModel(
  dir: string,
  runtime: ModelRuntime = {},
): Promise<AegirForColumnAnnotation> {
  const config = await readRunConfig(dir);
  if (config.kind !== "supervised") {
    throw new AegirError("ERR_CHECKPOINT", `${dir} is a run of kind ${config.kind}, expected supervised`);
  }
  const { groups } = await loadCheckpoint(await bestWeightsDir(dir), {
    only: ["model"],
    geometry: config.model,
  });
  const model = new AegirForColumnAnnotation(config.model as AnnotatorOptions, { name: dir, ...runtime });
  try {
    restoreModule(model.native, groups.model!);
    return model;
  } catch (error) {
    model.dispose();
    throw error;
  }
}
