import { evaluationBatches } from "../data/batches.js";
import { AegirError } from "../errors.js";
import { batchInput } from "../model/index.js";
import { native } from "../native/load.js";
import { Activation, type SwarmOrchestrator } from "../swarm/index.js";
import type { EvaluationSet } from "./evaluate.js";
import { Meter, type ProgressListener } from "./progress.js";
import type { RoutingTable } from "./rewardGradients.js";
import { enumerateActions, repeatActions } from "./routingDraws.js";
import { SpecialistAnswers } from "./specialistAnswers.js";
import { swarmRollouts } from "./swarmRollouts.js";
import { Scope } from "./tensors.js";

/** A table of all routings of a trained swarm, and what its own routing says of columns whose label is another column's. */
export interface SwarmTable extends RoutingTable, Disposable {
  /** (R) log p of the wrong label under the swarm's own routing, and of the right one. */
  corrupted: Float64Array;
  intact: Float64Array;
}

export interface TableOptions {
  /** Confidence below which the head abstains. */
  abstainBelow?: number;
  signal?: AbortSignal;
  onProgress?: ProgressListener;
}

/** Routings × columns at most: minutes on a small model. */
const MAX_CELLS = 2 ** 18;
const BATCH_ROWS = 64;
const TIMEOUT_MS = 120_000;

/**
 * Evaluates all 2^n routings of every example.
 * @throws AegirError ERR_CONFIG where these are too many; ERR_ABORTED
 */
export async function routingTable(
  swarm: SwarmOrchestrator,
  { examples, labels: names }: EvaluationSet,
  { abstainBelow = 0, signal, onProgress }: TableOptions = {},
): Promise<SwarmTable> {
  const n = swarm.specialists.length;
  const rows = examples.length;
  const count = 2 ** n;
  if (count * rows > MAX_CELLS) {
    throw new AegirError(
      "ERR_CONFIG",
      `limit: expected at most ${Math.floor(MAX_CELLS / count)} columns for ${n} specialists (2^n routings each), got ${rows}`,
    );
  }
  const answers = SpecialistAnswers.live(swarm, {
    timeoutMs: TIMEOUT_MS,
    rows: BATCH_ROWS,
    task: "specialists",
    signal,
  });
  const { actions } = enumerateActions(n, n);
  const cells = () => new Float64Array(count * rows);
  const outcome = { logp: cells(), correct: cells(), finished: cells() };
  const [corrupted, intact] = [new Float64Array(rows), new Float64Array(rows)];
  const dModel = swarm.router.dModel;
  const hidden = new Float32Array(rows * dModel);
  const meter = new Meter("routings", rows, onProgress);
  let done = 0;
  for (const batch of evaluationBatches(examples, { rows: BATCH_ROWS })) {
    if (signal?.aborted) throw new AegirError("ERR_ABORTED", `routings: interrupted after ${done} columns`);
    using scope = new Scope();
    const inputs = scope.keep(batchInput(batch));
    const prefix = scope.keep(await swarm.prefix(inputs));
    const said = await answers.of(batch, inputs, scope);
    const features = prefix.routingHidden.data() as Float32Array;
    const part = await swarmRollouts(
      swarm,
      prefix,
      said,
      batch.labels,
      abstainBelow,
    )(repeatActions(actions, n, batch.size));
    const logits = scope.keep((await swarm.route(prefix.routingHidden)).logits);
    const own = Activation.fromLogits(logits, swarm.activationThreshold, n).mask;
    const wrong = otherLabels(batch.labels, names.length);
    const lost = await swarmRollouts(swarm, prefix, said, wrong, 0)(own);
    const kept = await swarmRollouts(swarm, prefix, said, batch.labels, 0)(own);
    for (const [i, row] of batch.rows.entries()) {
      hidden.set(features.subarray(i * dModel, (i + 1) * dModel), row * dModel);
      corrupted[row] = lost.logp[i]!;
      intact[row] = kept.logp[i]!;
      for (let g = 0; g < count; g++)
        for (const name of ["logp", "correct", "finished"] as const)
          outcome[name][g * rows + row] = part[name][g * batch.size + i]!;
    }
    done += batch.size;
    meter.report(done);
  }
  const tensor = native().Tensor.fromData(hidden, [rows, dModel], "f32");
  return {
    rows,
    numSpecialists: n,
    hidden: tensor,
    labels: Int32Array.from(examples, ({ label }) => label),
    outcome,
    corrupted,
    intact,
    [Symbol.dispose]: () => tensor.dispose(),
  };
}

/** A column's label after its cells were exchanged for those of a column of another type. */
function otherLabels(labels: Int32Array, classes: number): Int32Array {
  return labels.map((label, i) => {
    for (let k = 1; k < labels.length; k++) {
      const other = labels[(i + k) % labels.length]!;
      if (other !== label) return other;
    }
    return (label + 1) % classes;
  });
}
