import { AegirError } from "../errors.js";
import type { AegirForColumnAnnotation } from "../model/index.js";
import type { Interval, NativeLane, SwarmAgent } from "../native/contract.js";
import type { AlignmentProjection } from "./alignment.js";
import type { FusionResult, RWKVStateFusion } from "./fusion.js";
import type { ActiveRows } from "./results.js";
import { FrozenSpecialist, type Specialist } from "./specialist.js";
import {
  checkStage,
  describeGeometry,
  modulesByStage,
  type PerStage,
  sameGeometry,
  sourceStage,
  stateGeometry,
} from "./stages.js";
import { type SwarmTrace, specialistNode } from "./timing.js";

/** How the states of one stage of the primary are fused. */
export interface StageFusion {
  /** Of the primary, and its layers that take states. */
  stage: number;
  layers: number;
  /** Of names: "" where one fusion serves the innermost stage, ".<stage>" in a record. */
  suffix: string;
  fusion: RWKVStateFusion;
  /** Per specialist; null: it has no states. */
  sources: (StateSource | null)[];
}

/** The stage of a specialist that gives its states, and what aligns them. */
interface StateSource {
  stage: number;
  alignment: AlignmentProjection | undefined;
}

/** @throws AegirError ERR_CONFIG naming the option, and both geometries where they differ */
export function stageFusions(
  fusion: PerStage<RWKVStateFusion>,
  specialists: readonly Specialist[],
  primary: AegirForColumnAnnotation,
): StageFusion[] {
  const fused = modulesByStage(fusion, primary);
  for (const { stage } of fused) checkStage(primary, stage, "SwarmOrchestrator options.fusion");
  const stages = fused.map(({ stage }) => stage);
  for (const specialist of specialists) checkAlignedStages(specialist, stages, primary);
  return fused.map(({ stage, suffix, module }) => {
    const sources = specialists.map((specialist) =>
      specialist instanceof FrozenSpecialist ? stateSource(specialist, primary, stage, suffix) : null,
    );
    checkFusion(module, `fusion${suffix}`, primary, stage, specialists.length);
    return { stage, layers: stateGeometry(primary, stage).layers, suffix, fusion: module, sources };
  });
}

/**
 * Aligns and fuses the states that the active specialists have for one stage.
 * @throws AegirError ERR_ARGUMENT where a result lacks the stage
 */
export async function fuseStage(
  { layers, suffix, fusion, sources }: StageFusion,
  lane: NativeLane,
  batch: number,
  active: readonly ActiveRows[],
  { grad, trace }: { grad?: boolean; trace?: SwarmTrace },
): Promise<FusionResult> {
  const agents = active.map((rows) => agentOf(rows, sources[rows.result.index]!));
  const fused = await fusion.forward(lane, { batch, layers, agents }, { grad });
  traceFusion(trace, suffix, active, fused);
  return fused;
}

function config(message: string): AegirError {
  return new AegirError("ERR_CONFIG", `SwarmOrchestrator options.${message}`);
}

function checkAlignedStages(
  { id, alignment }: Specialist,
  stages: readonly number[],
  primary: AegirForColumnAnnotation,
): void {
  const unused = modulesByStage(alignment, primary).find(({ stage }) => !stages.includes(stage));
  if (!unused) return;
  throw config(
    `specialists: '${id}' has an alignment for stage ${unused.stage} of the primary, fusion serves ${stages.join(", ")}; ` +
      "give alignments for stages of fusion alone",
  );
}

function stateSource(
  specialist: FrozenSpecialist,
  primary: AegirForColumnAnnotation,
  stage: number,
  suffix: string,
): StateSource {
  const of = `specialists: '${specialist.id}'`;
  const source = sourceStage(specialist.model, primary, stage, `SwarmOrchestrator options.${of}`);
  const given = stateGeometry(specialist.model, source);
  const wanted = stateGeometry(primary, stage);
  const alignment = modulesByStage(specialist.alignment, primary).find((one) => one.stage === stage)?.module;
  if (alignment && !sameGeometry(alignment.options.specialist, given)) {
    throw config(
      `${of} has ${describeGeometry(given)} in stage ${source}, its alignment for stage ${stage} of the primary ` +
        `is made for ${describeGeometry(alignment.options.specialist)}; ${adviceOf(stage, suffix)}`,
    );
  }
  const target = alignment ? alignment.options.primary : given;
  if (!sameGeometry(target, wanted)) {
    const has = alignment ? "has an alignment to" : "has";
    const where = alignment ? "" : ` in stage ${source}`;
    throw config(
      `${of} ${has} ${describeGeometry(target)}${where}, the primary has ${describeGeometry(wanted)} in stage ${stage}; ` +
        adviceOf(stage, suffix),
    );
  }
  return { stage: source, alignment };
}

function adviceOf(stage: number, suffix: string): string {
  const between = "AlignmentProjection.between(specialistModel, primaryModel";
  const alignment = suffix === "" ? `${between})` : `{ "${stage}": ${between}, { stage: ${stage} }) }`;
  return `give it { alignment: ${alignment} }`;
}

function checkFusion(
  { options }: RWKVStateFusion,
  name: string,
  primary: AegirForColumnAnnotation,
  stage: number,
  specialists: number,
): void {
  const { numHeads, headSize, numAgents, layers, dtype } = options;
  const wanted = stateGeometry(primary, stage);
  if (
    numHeads !== wanted.heads ||
    headSize !== wanted.headSize ||
    (layers !== 1 && layers !== wanted.layers)
  ) {
    throw config(
      `${name}: is made for ${numHeads} heads of ${headSize} (layers: ${layers}), ` +
        `the primary has ${describeGeometry(wanted)} in stage ${stage}`,
    );
  }
  if (dtype !== primary.options.dtype)
    throw config(`${name}: is made in ${dtype}, the primary in ${primary.options.dtype}`);
  if (numAgents !== specialists) {
    throw config(`${name}: is made for numAgents ${numAgents}, there are ${specialists} specialists`);
  }
}

function agentOf({ result, rows, take }: ActiveRows, { stage, alignment }: StateSource): SwarmAgent {
  const states = result.states[stage];
  if (!states) {
    throw new AegirError(
      "ERR_ARGUMENT",
      `results: specialist '${result.id}' has states of stages [${Object.keys(result.states).join(", ")}], ` +
        `expected stage ${stage} too; run it, or build the cache, with the swarm's specialistStages`,
    );
  }
  return { index: result.index, alignment: alignment?.native, rows, take, states };
}

/** The alignments come first inside the fusion's job, each an own node; what remains is the fusion. */
function traceFusion(
  trace: SwarmTrace | undefined,
  suffix: string,
  active: readonly ActiveRows[],
  { interval, alignIntervals }: { interval: Interval; alignIntervals: Interval[] },
): void {
  const ids = active.map(({ result }) => result.id);
  const alignments = ids.map((id) => `align:${id}${suffix}`);
  for (const [i, id] of ids.entries()) {
    trace?.add(alignments[i]!, "alignment", alignIntervals[i]!, [specialistNode([id])], { agent: id });
  }
  const rest = {
    get start() {
      return alignIntervals.at(-1)?.end ?? interval.start;
    },
    get end() {
      return interval.end;
    },
  };
  trace?.add(`fuse${suffix}`, "fusion", rest, alignments);
}
