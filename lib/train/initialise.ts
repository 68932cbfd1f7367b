import { AegirError } from "../errors.js";
import type { AegirForColumnAnnotation, ResolvedAnnotator, ResolvedBackbone } from "../model/index.js";
import { firstDifference, loadCheckpoint } from "./checkpoint.js";
import { bestWeightsDir, readRunConfig } from "./runFolder.js";
import { restoreModule, storeModule } from "./tensors.js";

/**
 * Copies the weights of a run's model into a model of the same backbone: all of them, the pooler only where both pool alike,
 * the attention over columns where both have the same, the classifier where both have the same labels. A pretraining run gives embedding and backbone; the head keeps its initial values.
 * @throws AegirError ERR_CHECKPOINT where the backbones differ, naming the first difference
 */
export async function initialiseFrom(model: AegirForColumnAnnotation, dir: string): Promise<void> {
  const { model: source } = await readRunConfig(dir);
  if (!("archLayout" in source))
    throw new AegirError(
      "ERR_CHECKPOINT",
      `${dir} holds a column specialist, expected a model to start from`,
    );
  const difference = firstDifference(backbone(source), backbone(model.options));
  if (difference) {
    const { path, left, right } = difference;
    throw new AegirError(
      "ERR_CHECKPOINT",
      `${dir} holds a model of other geometry: ${path} is ${left} there, ${right} in this model`,
    );
  }
  const { groups } = await loadCheckpoint(await bestWeightsDir(dir), { only: ["model"] });
  const same = (what: "labels" | "pooling" | "poolNorm" | "columns" | "factorLabels") =>
    "labels" in source && firstDifference(source[what], model.options[what]) === null;
  const sameHead = same("labels") && same("factorLabels");
  const keepsOwn = (name: string) =>
    (/^(classifier|ownClassifier)\./.test(name) && !sameHead) ||
    (name.startsWith("columns.") && !same("columns")) ||
    (name.startsWith("pooler.") && !(same("pooling") && same("poolNorm")));
  const weights = storeModule(model.native);
  let copied = 0;
  for (const [name, tensor] of groups.model!) {
    const present = weights.get(name);
    if (!present || keepsOwn(name)) continue;
    if (firstDifference(present.shape, tensor.shape)) {
      throw new AegirError(
        "ERR_CHECKPOINT",
        `${dir}: '${name}' is [${tensor.shape}], expected [${present.shape}]`,
      );
    }
    weights.set(name, tensor);
    copied++;
  }
  if (copied === 0)
    throw new AegirError("ERR_CHECKPOINT", `${dir}: none of its tensors is one of this model's`);
  restoreModule(model.native, weights);
}

/** What decides the shapes of embedding and backbone. */
function backbone(options: ResolvedBackbone | ResolvedAnnotator): Partial<ResolvedAnnotator> {
  const {
    labels: _,
    init: __,
    pooling: ___,
    poolNorm: ______,
    columns: ____,
    factorLabels: _____,
    ...rest
  } = options as ResolvedAnnotator;
  return rest;
}
