import { evaluationBatches } from "../data/batches.js";
import { logSoftmax } from "../data/logitAdjustment.js";
import type { EncodedExample } from "../data/types.js";
import { AegirError } from "../errors.js";
import { batchInput } from "../model/index.js";
import type { NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import { FLOOR } from "../swarm/columnSpecialist.js";
import type { SwarmOrchestrator } from "../swarm/index.js";
import type { SpecialistAnswers } from "./specialistAnswers.js";
import { Scope } from "./tensors.js";

const SWEEPS = 100;
/** Of a weight in one sweep, below which the search is over. */
const SMALL_CHANGE = 1e-4;
/** Of a weight in one step: the objective is nearly quadratic within it. */
const LONGEST_STEP = 0.5;

/**
 * Sets the weights of a swarm's pool to those that make the labels of some examples most likely with every specialist active; those of the primary
 * and of specialists that do not know all of its labels to 0. Specialists that say the same share a weight in any way.
 * @param answers of the examples
 * @param onWarning hears where nothing that any specialist says helps
 * @throws AegirError ERR_CONFIG where no specialist knows every label of the primary
 */
export async function fitPool(
  swarm: SwarmOrchestrator,
  examples: EncodedExample[],
  answers: SpecialistAnswers,
  rows: number,
  onWarning?: (message: string) => void,
): Promise<void> {
  const pooled = pooledSpecialists(swarm);
  const classes = swarm.primary.labels.length;
  const said = pooled.map(() => new Float64Array(examples.length * classes));
  // Answers that are stored are one tensor for all batches.
  const read: { of: NativeTensor | null; logp: Float32Array }[] = pooled.map(() => ({
    of: null,
    logp: new Float32Array(0),
  }));
  for (const batch of evaluationBatches(examples, { rows })) {
    using scope = new Scope();
    const { results } = await answers.of(batch, scope.keep(batchInput(batch)), scope);
    for (const { index, output, positions } of results) {
      const k = pooled.findIndex(({ specialist }) => specialist === index);
      if (k < 0 || !output) continue;
      const { labels } = pooled[k]!;
      const { logits } = output;
      if (read[k]!.of !== logits)
        read[k] = { of: logits, logp: logSoftmax(logits.data() as Float32Array, labels.length) };
      const { logp } = read[k]!;
      for (const [row, position] of positions.entries()) {
        for (const [j, own] of labels.entries()) {
          if (own < 0) continue;
          said[k]![batch.rows[row]! * classes + own] = Math.max(FLOOR, logp[position * labels.length + j]!);
        }
      }
    }
  }
  const truth = Int32Array.from(examples, ({ label }) => label);
  const weights = poolWeights(said, truth, classes);
  if (weights.every((weight) => weight === 0)) {
    onWarning?.(
      "pool fitted: every specialist's weight is 0, as nothing that they say makes the labels of the columns that are learnt from likelier; look at them with evaluate",
    );
  }
  setWeights(swarm, new Map(pooled.map(({ specialist }, k) => [specialist, weights[k]!])));
}

/**
 * The specialists that know every label of the primary: their numbers, and of each of their labels the primary's.
 * @throws AegirError ERR_CONFIG where there is none
 */
export function pooledSpecialists({ outputFusion, specialists }: SwarmOrchestrator) {
  const pooled = (outputFusion?.options.specialists ?? []).flatMap(({ weight, labels }, specialist) =>
    weight > 0 && labels ? [{ specialist, labels }] : [],
  );
  if (pooled.length > 0) return pooled;
  const ids = specialists.map(({ id }) => `'${id}'`).join(", ");
  throw new AegirError(
    "ERR_CONFIG",
    `trainParl.pool: was fitted, but no specialist of ${ids} has its outputs fused label by label and knows every label of the primary; use pool learned`,
  );
}

function setWeights({ outputFusion }: SwarmOrchestrator, weights: ReadonlyMap<number, number>): void {
  const { Tensor } = native();
  using scope = new Scope();
  const { options, native: module } = outputFusion!;
  const tensors = Object.entries(module.stateDict()).map(([name, tensor]) => {
    scope.keep(tensor);
    const specialist = /^(?:labelWeight(\d+)|ownWeight)$/.exec(name);
    if (!specialist) return [name, tensor] as const;
    const weight = weights.get(Number(specialist[1])) ?? 0;
    const values = options.dtype === "f64" ? Float64Array.of(weight) : Float32Array.of(weight);
    return [name, scope.keep(Tensor.fromData(values, tensor.shape, options.dtype))] as const;
  });
  module.loadStateDict(Object.fromEntries(tensors));
}

/**
 * Weights w ≥ 0 of a logarithmic opinion pool p ∝ Π_k p_k^{w_k} that maximise the likelihood of labels: convex, by Newton steps on one weight after the
 * other (Genest and Zidek 1986 for the pool, Heskes 1998 for weights by likelihood). They need not sum to 1: the sum says how far the members may be
 * believed together.
 * @param said of each member (rows, classes) ln p, row-major
 * @param labels (rows) class ids
 */
export function poolWeights(said: readonly Float64Array[], labels: Int32Array, classes: number): number[] {
  const weights = said.map(() => 1 / said.length);
  const logits = new Float64Array(labels.length * classes);
  for (const [k, logp] of said.entries())
    for (let i = 0; i < logits.length; i++) logits[i]! += weights[k]! * logp[i]!;
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    let change = 0;
    for (const [k, logp] of said.entries()) {
      const { slope, curvature } = alongMember(logits, logp, labels, classes);
      // Who gives all labels the same has no part in it.
      const wanted = curvature > 0 ? -slope / curvature : -weights[k]!;
      const step = Math.max(-weights[k]!, Math.min(LONGEST_STEP, Math.max(-LONGEST_STEP, wanted)));
      weights[k]! += step;
      for (let i = 0; i < logits.length; i++) logits[i]! += step * logp[i]!;
      change = Math.max(change, Math.abs(step));
    }
    if (change < SMALL_CHANGE) break;
  }
  return weights;
}

/** First and second derivative of −Σ ln p(label) by one member's weight: mean less own value, and variance, under the pool. */
function alongMember(
  logits: Float64Array,
  logp: Float64Array,
  labels: Int32Array,
  classes: number,
): { slope: number; curvature: number } {
  let [slope, curvature] = [0, 0];
  for (let row = 0; row < labels.length; row++) {
    const from = row * classes;
    let top = Number.NEGATIVE_INFINITY;
    for (let c = from; c < from + classes; c++) top = Math.max(top, logits[c]!);
    let [sum, first, second] = [0, 0, 0];
    for (let c = from; c < from + classes; c++) {
      const p = Math.exp(logits[c]! - top);
      sum += p;
      first += p * logp[c]!;
      second += p * logp[c]! * logp[c]!;
    }
    const mean = first / sum;
    slope += mean - logp[from + labels[row]!]!;
    curvature += second / sum - mean * mean;
  }
  return { slope, curvature };
}
