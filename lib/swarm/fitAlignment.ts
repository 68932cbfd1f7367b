import { AegirError } from "../errors.js";
import type { AegirForColumnAnnotation } from "../model/index.js";
import type { NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import { stateGeometry } from "./alignment.js";
import type { RowInputs } from "./inputs.js";
import { disposeAll } from "./module.js";
import type { FrozenSpecialist } from "./specialist.js";

/**
 * Closed-form start of a specialist's alignment: both models read the same rows, and ridge regression maps the specialist's final
 * states onto the primary's (docs/rl.md §7). Does nothing where the alignment has no parameters.
 * @param batches inputs that stay the caller's; some hundred rows suffice, the regression has few unknowns per head
 * @returns ‖fit − target‖ / ‖target‖ on these rows
 * @throws AegirError ERR_CONFIG where the specialist has no alignment; ERR_ARGUMENT without batches
 */
export async function fitAlignment(
  specialist: FrozenSpecialist,
  primary: AegirForColumnAnnotation,
  batches: Iterable<RowInputs>,
  options: { ridge?: number; signal?: AbortSignal } = {},
): Promise<{ residual: number }> {
  const { alignment, id } = specialist;
  if (!alignment) throw new AegirError("ERR_CONFIG", `fitAlignment: specialist '${id}' has no alignment`);
  const sources: NativeTensor[][] = [];
  const targets: NativeTensor[][] = [];
  const joined: NativeTensor[] = [];
  try {
    for (const inputs of batches) {
      sources.push(await finalStates(specialist, inputs, options.signal));
      targets.push(await primaryStates(primary, inputs, options.signal));
    }
    if (sources.length === 0)
      throw new AegirError("ERR_ARGUMENT", "fitAlignment: expected at least one batch");
    const source = joinLayers(sources, joined);
    const target = joinLayers(targets, joined);
    const { residual } = await alignment.fit(primary.lane, source, target, options.ridge);
    return { residual };
  } finally {
    disposeAll([...sources.flat(), ...targets.flat(), ...joined]);
  }
}

async function finalStates(
  specialist: FrozenSpecialist,
  inputs: RowInputs,
  signal: AbortSignal | undefined,
): Promise<NativeTensor[]> {
  const { output, states } = await specialist.forward(inputs, { signal });
  disposeAll([output?.logits, output?.pooled]);
  return states;
}

async function primaryStates(
  primary: AegirForColumnAnnotation,
  inputs: RowInputs,
  signal: AbortSignal | undefined,
): Promise<NativeTensor[]> {
  using output = await primary.forward(inputs, { signal });
  const kv = output.state.innerKv();
  const states = kv.splice(-stateGeometry(primary).layers);
  disposeAll(kv);
  return states;
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
