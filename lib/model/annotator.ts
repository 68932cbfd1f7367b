import type { ModelOutput, NativeTensor } from "../native/contract.js";
import {
  type AnnotatorOptions,
  nativeAnnotator,
  type ResolvedAnnotator,
  resolveAnnotator,
} from "./config.js";
import { AegirModel, createModule, disposable, type ModelRuntime, parseRuntime } from "./model.js";
import type { AnnotatorOutput } from "./types.js";

/**
 * A byte-level column annotation model: byte + role embedding → backbone → mean over poolMask → tanh pooler (→ attention over the
 * table's columns) → classifier
 * (spec of the heads: docs/model.md).
 *
 *     const model = new AegirForColumnAnnotation({ preset: "tiny", labels: ["city", "price"] }, { seed: 1 });
 *     using output = await model.forward(batchInput(batch));
 */
export class AegirForColumnAnnotation extends AegirModel<AnnotatorOutput> {
  declare readonly options: ResolvedAnnotator;
  /** Names of the classes; index = class id. */
  readonly labels: readonly string[];

  /** @throws AegirError ERR_CONFIG naming the option */
  constructor(options: AnnotatorOptions, runtime: ModelRuntime = {}) {
    const resolved = resolveAnnotator(options);
    const given = parseRuntime(runtime);
    super(createModule("annotator", nativeAnnotator(resolved), given.seed), resolved, given);
    this.labels = resolved.labels;
  }

  protected override wrap(output: ModelOutput): AnnotatorOutput {
    const pooled = output.pooled as NativeTensor;
    const { logits, ownLogits, state, routingHidden, ratioLoss } = output;
    const parts = [logits, pooled, state, routingHidden, ratioLoss, ...(ownLogits ? [ownLogits] : [])];
    return disposable({ ...output, pooled }, parts);
  }
}
