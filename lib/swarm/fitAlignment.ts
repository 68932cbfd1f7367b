import { AegirError } from "../errors.js";
import type { AegirForColumnAnnotation } from "../model/index.js";
import type { NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import type { AlignmentProjection } from "./alignment.js";
import type { RowInputs } from "./inputs.js";
import { disposeAll } from "./module.js";
import type { FrozenSpecialist } from "./specialist.js";
import { innermostStage, modulesByStage, sourceStage } from "./stages.js";

/**
 * Closed-form start of a specialist's alignment: both models read the same rows, and ridge regression maps the specialist's final
 * states onto the primary's (docs/rl.md §7). Does nothing where the alignment has no parameters.
 * @param options stage: of the primary, whose alignment is fitted; absent: the innermost
 * @param batches inputs that stay the caller's; some hundred rows suffice, the regression has few unknowns per head
 * @returns ‖fit − target‖ / ‖target‖ on these rows
 * @throws AegirError ERR_CONFIG where the specialist has no alignment for the stage; ERR_ARGUMENT without batches
 */
export async function fitAlignment(
  specialist: FrozenSpecialist,
  primary: AegirForColumnAnnotation,
  batches: Iterable<RowInputs>,
  options: { ridge?: number; stage?: number; signal?: AbortSignal } = {},
): Promise<{ residual: number }> {
  const { ridge, stage = innermostStage(primary), signal } = options;
  const source = sourceStage(specialist.model, primary, stage, `fitAlignment: '${specialist.id}'`);
  const alignment = alignmentFor(specialist, primary, stage);
  const sources: NativeTensor[][] = [];
  const targets: NativeTensor[][] = [];
  const joined: NativeTensor[] = [];
  try {
    for (const inputs of batches) {
      sources.push(await finalStates(specialist, source, inputs, signal));
      targets.push(await primaryStates(primary, stage, inputs, signal));
    }
    if (sources.length === 0)
      throw new AegirError("ERR_ARGUMENT", "fitAlignment: expected at least one batch");
    const from = joinLayers(sources, joined);
    const to = joinLayers(targets, joined);
    const { residual } = await alignment.fit(primary.lane, from, to, ridge);
    return { residual };
  } finally {
    disposeAll([...sources.flat(), ...targets.flat(), ...joined]);
  }
}

function alignmentFor(
  { id, alignment }: FrozenSpecialist,
  primary: AegirForColumnAnnotation,
  stage: number,
): AlignmentProjection {
  const found = modulesByStage(alignment, primary).find((one) => one.stage === stage);
  if (found) return found.module;
  throw new AegirError("ERR_CONFIG", `fitAlignment: specialist '${id}' has no alignment for stage ${stage}`);
}

async function finalStates(
  specialist: FrozenSpecialist,
  stage: number,
  inputs: RowInputs,
  signal: AbortSignal | undefined,
): Promise<NativeTensor[]> {
  const { output, states } = await specialist.forward(inputs, { signal, stages: [stage] });
  disposeAll([output?.logits, output?.pooled]);
  return states[stage]!;
}

async function primaryStates(
  primary: AegirForColumnAnnotation,
  stage: number,
  inputs: RowInputs,
  signal: AbortSignal | undefined,
): Promise<NativeTensor[]> {
  using output = await primary.forward(inputs, { signal });
  return output.state.innerKv(stage);
}

/** Per layer one tensor of all rows. */
function joinLayers(batches: NativeTensor[][], made: NativeTensor[]): NativeTensor[] {
  return batches[0]!.map((_, layer) => {
    const joined = native().Tensor.cat(
      batches.map((layers) => layers[layer]!),
      0,
    );
    made.push(joined);
    return joined;
  });
}
