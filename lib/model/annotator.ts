import { AegirError } from "../errors.js";
import type { ModelOutput, NativeTensor } from "../native/contract.js";
import {
  type AnnotatorOptions,
  nativeAnnotator,
  nativeBackbone,
  type ResolvedAnnotator,
  resolveAnnotator,
} from "./config.js";
import { AegirModel, createModule, disposable, type ModelRuntime, parseRuntime } from "./model.js";
import type { AnnotatorOutput } from "./types.js";

function checkSameBackbone(own: ResolvedAnnotator, shared: ResolvedAnnotator): void {
  const [here, there] = [own, shared].map((options) => Object.entries(nativeBackbone(options)));
  const other = here!.find(([, value], i) => JSON.stringify(value) !== JSON.stringify(there![i]![1]));
  if (!other) return;
  throw new AegirError(
    "ERR_CONFIG",
    `backboneOf: its ${other[0]} is not this model's; expected a model of the same backbone, as withHead makes it`,
  );
}

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

  /**
   * @param backboneOf a model whose embedding and blocks this one shares: see `withHead`
   * @throws AegirError ERR_CONFIG naming the option
   */
  constructor(options: AnnotatorOptions, runtime: ModelRuntime = {}, backboneOf?: AegirForColumnAnnotation) {
    const resolved = resolveAnnotator(options);
    const given = parseRuntime(runtime);
    if (backboneOf) checkSameBackbone(resolved, backboneOf.options);
    const config = { ...nativeAnnotator(resolved), backboneOf: backboneOf?.native };
    super(createModule("annotator", config, given.seed), resolved, given);
    this.labels = resolved.labels;
  }

  /**
   * Another model on this model's embedding and blocks, for multi-task learning: a head of its own for other labels, on the same lane.
   * What is learnt through one changes both. Dispose it before this model, whose lane it runs on.
   */
  withHead(
    labels: readonly string[],
    { seed = 0 }: Pick<ModelRuntime, "seed"> = {},
  ): AegirForColumnAnnotation {
    const runtime = { seed, lane: this.lane, name: this.name };
    return new AegirForColumnAnnotation({ ...this.options, labels: [...labels] }, runtime, this);
  }

  protected override wrap(output: ModelOutput): AnnotatorOutput {
    const pooled = output.pooled as NativeTensor;
    const { logits, ownLogits, state, routingHidden, ratioLoss } = output;
    const parts = [logits, pooled, state, routingHidden, ratioLoss, ...(ownLogits ? [ownLogits] : [])];
    return disposable({ ...output, pooled }, parts);
  }
}
