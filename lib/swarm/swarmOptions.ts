import { z } from "zod";
import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import { AegirForColumnAnnotation } from "../model/index.js";
import { RWKVStateFusion } from "./fusion.js";
import { disposeAll } from "./module.js";
import { OutputFusion } from "./outputFusion.js";
import { SpecialistRouter } from "./router.js";
import { FrozenSpecialist, Specialist } from "./specialist.js";
import { type StageFusion, stageFusions } from "./stageFusion.js";
import { type PerStage, perStageSchema, stateGeometry } from "./stages.js";

const nonNegative = z.number().min(0);

/**
 * streams: activated specialists run at the same time, each on its lane; serial: one after the other; batched: those of one flat
 * geometry as one stack of weights, the others as in streams; auto: the faster of streams and batched, as measured.
 */
export const executionSchema = z.enum(["streams", "serial", "batched", "auto"]);

const swarmSchema = z.strictObject({
  /** The trainable model whose annotations the swarm improves. */
  primaryModel: z.instanceof(AegirForColumnAnnotation),
  specialists: z.array(z.instanceof(Specialist)),
  /** One for the innermost stage, or a record by the primary's stages; absent: weighted_sum for the innermost. */
  fusion: perStageSchema(RWKVStateFusion).optional(),
  /** Width of routingHidden; absent: the primary's. */
  dModel: z.number().int().positive().optional(),
  /** A row activates a specialist whose score sigmoid(logit) is above it. */
  activationThreshold: z.number().min(0).max(1).default(0.5),
  /** Specialists that a row may activate; absent: all. */
  maxActive: z.number().int().positive().optional(),
  /** Initial weights of the parallelism and finish rewards (docs/rl.md §5); training anneals them. */
  lambdaParallel: nonNegative.default(0.3),
  lambdaFinish: nonNegative.default(0.1),
  /** What enters the primary: recurrent states, pooled embeddings and labels, or both. */
  fuse: z.enum(["states", "outputs", "states+outputs"]).default("states"),
  execution: executionSchema.default("streams"),
  /** Threads that the specialists of one forward share; absent: one for each processor. */
  threads: z.number().int().min(1).max(1024).optional(),
  router: z.instanceof(SpecialistRouter).optional(),
  outputFusion: z.instanceof(OutputFusion).optional(),
  /** Fused outputs reach the primary's logits directly, label by label, and not only its embedding. */
  fuseLabels: z.boolean().default(true),
});

export type SwarmOptions = z.input<typeof swarmSchema>;

/** Checked options with every module in place; `created` are those that the swarm made and disposes. */
export interface ResolvedSwarm {
  options: z.output<typeof swarmSchema>;
  primary: AegirForColumnAnnotation;
  specialists: readonly Specialist[];
  router: SpecialistRouter;
  fusion: PerStage<RWKVStateFusion> | null;
  /** What `fusion` does stage by stage. */
  stages: StageFusion[];
  outputFusion: OutputFusion | null;
  created: { dispose(): void }[];
}

/** @throws AegirError ERR_CONFIG naming the option, and both geometries where they differ */
export function resolveSwarm(value: SwarmOptions): ResolvedSwarm {
  const options = parseOptions("SwarmOrchestrator options", swarmSchema, value);
  const created: { dispose(): void }[] = [];
  try {
    return { options, created, ...resolveParts(options, created) };
  } catch (error) {
    disposeAll(created);
    throw error;
  }
}

function resolveParts(
  options: ResolvedSwarm["options"],
  created: ResolvedSwarm["created"],
): Omit<ResolvedSwarm, "options" | "created"> {
  const { primaryModel: primary, specialists } = options;
  for (const specialist of specialists) checkSpecialist(specialist, primary);
  const repeated = specialists.find((s, i) => specialists.findIndex((other) => other.id === s.id) !== i);
  if (repeated) throw config(`specialists: two have the id '${repeated.id}'`);
  const dModel = options.dModel ?? options.router?.dModel ?? primary.geometry.dModel;
  const own = <T extends { dispose(): void }>(module: T): T => {
    created.push(module);
    return module;
  };
  checkRouter(options.router, dModel, specialists.length);
  checkFuse(options.fuse, specialists);
  const outputs = options.fuse === "states" ? null : outputSources(specialists, primary, options.fuseLabels);
  if (options.outputFusion && outputs) checkOutputFusion(options.outputFusion, outputs);
  const fusion =
    options.fuse === "outputs" ? null : (options.fusion ?? own(defaultFusion(primary, specialists.length)));
  return {
    primary,
    specialists,
    fusion,
    stages: fusion ? stageFusions(fusion, specialists, primary) : [],
    router: options.router ?? own(new SpecialistRouter(dModel, specialists.length)),
    outputFusion: outputs && (options.outputFusion ?? own(new OutputFusion(outputs))),
  };
}

function config(message: string): AegirError {
  return new AegirError("ERR_CONFIG", `SwarmOrchestrator options.${message}`);
}

function defaultFusion(primary: AegirForColumnAnnotation, numAgents: number): RWKVStateFusion {
  const { heads, headSize } = stateGeometry(primary);
  return new RWKVStateFusion({ numHeads: heads, headSize, numAgents, dtype: primary.options.dtype });
}

function checkSpecialist(specialist: Specialist, primary: AegirForColumnAnnotation): void {
  if (!(specialist instanceof FrozenSpecialist)) return;
  const { id, model } = specialist;
  if (model.native === primary.native) throw config(`specialists: '${id}' is the primary model itself`);
  for (const key of ["vocabSize", "numRoles"] as const) {
    if (model.options[key] < primary.options[key]) {
      throw config(
        `specialists: '${id}' has ${key} ${model.options[key]}, the primary ${primary.options[key]}; ` +
          "a specialist reads the primary's input",
      );
    }
  }
}

function checkRouter(router: SpecialistRouter | undefined, dModel: number, specialists: number): void {
  if (!router || (router.dModel === dModel && router.numSpecialists === specialists)) return;
  throw config(
    `router: is made for ${router.numSpecialists} specialists and dModel ${router.dModel}, ` +
      `expected ${specialists} and ${dModel}`,
  );
}

function checkFuse(fuse: ResolvedSwarm["options"]["fuse"], specialists: readonly Specialist[]): void {
  const without = specialists.filter((specialist) => !(specialist instanceof FrozenSpecialist));
  const nothing = fuse === "states" ? without.length > 0 : without.length === specialists.length;
  if (fuse === "outputs" || specialists.length === 0 || !nothing) return;
  const ids = without.map(({ id }) => `'${id}'`).join(", ");
  const instead =
    fuse === "states" && without.length < specialists.length ? '"states+outputs" or "outputs"' : '"outputs"';
  throw config(`fuse: "${fuse}" has no recurrent states of ${ids} to fuse; use fuse: ${instead}`);
}

/**
 * Widths and labels that output fusion reads. Specialists that know every label of the primary start as a logarithmic opinion pool of
 * equal weights; what the others' labels mean to the primary is learned.
 */
function outputSources(
  specialists: readonly Specialist[],
  primary: AegirForColumnAnnotation,
  fuseLabels: boolean,
) {
  const covers = ({ labels }: Specialist) => primary.labels.every((label) => labels?.includes(label));
  const covering = specialists.filter(covers).length;
  const weight = 1 / covering;
  // Where specialists that know all of its labels answer, the primary's own answer has yet to earn a share: a weak one would drown theirs.
  return {
    dModel: primary.geometry.dModel,
    numLabels: fuseLabels ? primary.labels.length : 0,
    ownWeight: fuseLabels && covering > 0 ? 0 : 1,
    specialists: specialists.map((specialist) => {
      const { id, pooledWidth: dModel, labels } = specialist;
      if (labels === null) {
        throw config(`fuse: '${id}' is a causal LM and has no labels to fuse; use fuse: "states"`);
      }
      const source = { dModel, numLabels: labels.length, weight: 0 };
      if (!fuseLabels) return source;
      const own = labels.map((label) => primary.labels.indexOf(label));
      return { ...source, labels: own, weight: covers(specialist) ? weight : 0 };
    }),
  };
}

/** One that was passed in may leave the labels out, and start otherwise. */
function checkOutputFusion(fusion: OutputFusion, wanted: ReturnType<typeof outputSources>): void {
  const shape = ({ dModel, specialists }: Pick<typeof fusion.options, "dModel" | "specialists">) =>
    JSON.stringify({
      dModel,
      specialists: specialists.map((one) => ({ dModel: one.dModel, numLabels: one.numLabels })),
    });
  const { dModel, specialists, numLabels } = fusion.options;
  if (shape({ dModel, specialists }) !== shape(wanted)) {
    throw config(`outputFusion: is made for ${shape({ dModel, specialists })}, expected ${shape(wanted)}`);
  }
  const mapped = specialists.some(({ labels }) => labels);
  if (!mapped || numLabels === wanted.numLabels) return;
  throw config(
    `outputFusion: is made for a primary of ${numLabels} labels, expected ${wanted.numLabels}` +
      (wanted.numLabels === 0 ? "; fuseLabels is false" : ""),
  );
}
