import { evaluationBatches } from "../../data/batches.js";
import { AegirError } from "../../errors.js";
import { batchInput } from "../../model/index.js";
import { Activation, type SwarmOrchestrator } from "../../swarm/index.js";
import { countPrefix, type StepCounts, stepCounts } from "../../train/criticalSteps.js";
import type { EvaluationSet } from "../../train/evaluate.js";
import {
  type LogitsOf,
  type Prediction,
  type PredictOptions,
  predict,
  predictionsOf,
} from "../../train/predict.js";
import { Meter } from "../../train/progress.js";
import { SpecialistAnswers } from "../../train/specialistAnswers.js";
import { Scope } from "../../train/tensors.js";

/**
 * What a swarm says of every column under every routing: all that a comparison of routings needs, as plain numbers. A routing of n
 * specialists is a number whose bit i says whether specialist i is activated. A model alone is a swarm of no specialists.
 */
export interface Outcomes {
  /** Names of the classes. */
  labels: readonly string[];
  specialists: readonly string[];
  /** (R) class of each column. */
  truth: number[];
  /** (R) domain or label family of each column. */
  groups: string[];
  /** (R,n) the router's logits. */
  logits: number[][];
  /** (2^n,R) predicted class under each routing. */
  predicted: number[][];
  /** (R) probability of the predicted class with all specialists off. */
  confidence: number[];
  /** Blocks that the primary runs, those of them before the router, and each specialist. */
  steps: StepCounts & { prefix: number };
}

/** Specialists whose routings are all evaluated: 2^n forwards of the primary a column. */
const MOST_SPECIALISTS = 8;
const ROWS = 64;
const TIMEOUT_MS = 120_000;

/** @throws AegirError ERR_CONFIG for too many specialists */
export function checkCount(specialists: number): void {
  if (specialists <= MOST_SPECIALISTS) return;
  throw new AegirError(
    "ERR_CONFIG",
    `specialists: expected at most ${MOST_SPECIALISTS}, whose 2^n routings are all evaluated, got ${specialists}`,
  );
}

/**
 * Evaluates every routing of every column.
 * @param groups (R) domain or family of each column of the set
 * @throws AegirError ERR_CONFIG for too many specialists; ERR_ABORTED
 */
export async function swarmOutcomes(
  swarm: SwarmOrchestrator,
  set: EvaluationSet,
  groups: string[],
  { signal, onProgress, task = "routings" }: PredictOptions = {},
): Promise<Outcomes> {
  const n = swarm.specialists.length;
  checkCount(n);
  const { examples } = set;
  const answers = SpecialistAnswers.live(swarm, { timeoutMs: TIMEOUT_MS, rows: ROWS, task, signal });
  const logits = new Array<number[]>(examples.length);
  const predicted = Array.from({ length: 2 ** n }, () => new Array<number>(examples.length));
  const confidence = new Array<number>(examples.length);
  const meter = new Meter(task, examples.length, onProgress);
  let done = 0;
  for (const batch of evaluationBatches(examples, { rows: ROWS })) {
    if (signal?.aborted) throw new AegirError("ERR_ABORTED", `${task}: interrupted after ${done} columns`);
    using scope = new Scope();
    const inputs = scope.keep(batchInput(batch));
    const prefix = scope.keep(await swarm.prefix(inputs));
    const z = scope.keep((await swarm.route(prefix.routingHidden)).logits).data() as Float32Array;
    const { results, failed } = await answers.of(batch, inputs, scope);
    const lost = failed.indexOf(true);
    if (lost >= 0) throw new AegirError("ERR_DATA", `specialist '${swarm.specialists[lost]!.id}' failed`);
    for (const [routing, classes] of predicted.entries()) {
      const mask = routingMask(routing, n, batch.size);
      const predictions = await complete(swarm, prefix, new Activation(batch.size, n, mask), results);
      for (const [i, row] of batch.rows.entries()) {
        classes[row] = predictions[i]!.label;
        if (routing === 0) confidence[row] = predictions[i]!.confidence;
      }
    }
    for (const [i, row] of batch.rows.entries()) logits[row] = [...z.subarray(i * n, (i + 1) * n)];
    done += batch.size;
    meter.report(done);
  }
  return {
    labels: set.labels,
    specialists: swarm.specialists.map(({ id }) => id),
    truth: examples.map(({ label }) => label),
    groups,
    logits,
    predicted,
    confidence,
    steps: { ...stepCounts(swarm), prefix: countPrefix(swarm.primary.native) },
  };
}

/** The outcomes of a model alone. @param blocks that it runs */
export async function aloneOutcomes(
  logitsOf: LogitsOf,
  set: EvaluationSet,
  groups: string[],
  blocks: number,
  options: PredictOptions = {},
): Promise<Outcomes> {
  const predictions = await predict(logitsOf, set.examples, set.labels.length, options);
  return {
    labels: set.labels,
    specialists: [],
    truth: set.examples.map(({ label }) => label),
    groups,
    logits: predictions.map(() => []),
    predicted: [predictions.map(({ label }) => label)],
    confidence: predictions.map(({ confidence }) => confidence),
    steps: { main: blocks, prefix: 0, sub: [] },
  };
}

async function complete(
  swarm: SwarmOrchestrator,
  ...[prefix, activation, results]: Parameters<SwarmOrchestrator["complete"]>
): Promise<Prediction[]> {
  using output = await swarm.complete(prefix, activation, results);
  return predictionsOf(output.logits.data() as Float32Array, output.logits.shape[1]!);
}

/** The same routing for every row, (rows,n). */
function routingMask(routing: number, n: number, rows: number): Uint8Array {
  return Uint8Array.from({ length: rows * n }, (_, i) => (routing >> (i % n)) & 1);
}
