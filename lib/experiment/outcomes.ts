import { evaluationBatches } from "../data/batches.js";
import { AegirError } from "../errors.js";
import { batchInput, type Prefix } from "../model/index.js";
import { Activation, type SwarmOrchestrator } from "../swarm/index.js";
import { adjust, type Calibration } from "../train/calibration.js";
import { countPrefix, type StepCounts, stepCounts } from "../train/criticalSteps.js";
import type { EvaluationSet } from "../train/evaluate.js";
import {
  type LogitsOf,
  type Prediction,
  type PredictOptions,
  predict,
  predictionsOf,
} from "../train/predict.js";
import { Meter } from "../train/progress.js";
import { SpecialistAnswers } from "../train/specialistAnswers.js";
import { Scope } from "../train/tensors.js";
import { learnedRouting } from "./routings.js";

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
  /** (2^n,R) predicted class under each routing; null where that was not evaluated. */
  predicted: (number | null)[][];
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

/** "all" routings of a column, or what its router decides beside all specialists and none: far fewer forwards. */
export type Evaluated = "all" | "decided";

/**
 * Evaluates routings of every column.
 * @param groups (R) domain or family of each column of the set
 * @param options `calibration`: of the swarm's run, under every routing
 * @throws AegirError ERR_CONFIG for too many specialists; ERR_ABORTED
 */
export async function swarmOutcomes(
  swarm: SwarmOrchestrator,
  set: EvaluationSet,
  groups: string[],
  {
    evaluated = "all",
    calibration = null,
    signal,
    onProgress,
    task = "routings",
  }: PredictOptions & { evaluated?: Evaluated; calibration?: Calibration | null } = {},
): Promise<Outcomes> {
  const n = swarm.specialists.length;
  checkCount(n);
  const { examples } = set;
  const answers = SpecialistAnswers.live(swarm, { timeoutMs: TIMEOUT_MS, rows: ROWS, task, signal });
  const logits = new Array<number[]>(examples.length);
  const predicted = Array.from({ length: 2 ** n }, () =>
    new Array<number | null>(examples.length).fill(null),
  );
  const confidence = new Array<number>(examples.length);
  const meter = new Meter(task, examples.length, onProgress);
  let done = 0;
  for (const batch of evaluationBatches(examples, { rows: ROWS })) {
    if (signal?.aborted) throw new AegirError("ERR_ABORTED", `${task}: interrupted after ${done} columns`);
    using scope = new Scope();
    const inputs = scope.keep(batchInput(batch));
    const prefix = scope.keep(await swarm.prefix(inputs));
    const z = await routeBatch(swarm, prefix, scope);
    const { results, failed } = await answers.of(batch, inputs, scope);
    const lost = failed.indexOf(true);
    if (lost >= 0) throw new AegirError("ERR_DATA", `specialist '${swarm.specialists[lost]!.id}' failed`);
    for (const routings of routingsOf(evaluated, z, swarm)) {
      const mask = routingMask(routings, n);
      const predictions = await complete(
        swarm,
        calibration,
        prefix,
        new Activation(batch.size, n, mask),
        results,
      );
      for (const [i, row] of batch.rows.entries()) {
        const { label, confidence: sure } = predictions[i]!;
        predicted[routings[i]!]![row] = label;
        if (routings[i] === 0) confidence[row] = sure;
      }
    }
    for (const [i, row] of batch.rows.entries()) logits[row] = z[i]!;
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

/**
 * The outcomes of a swarm that differs from an evaluated one by its router only: all that is new are the router's logits.
 * @param outcomes of the other swarm on the same set
 * @throws AegirError ERR_ABORTED
 */
export async function reroutedOutcomes(
  swarm: SwarmOrchestrator,
  { examples }: EvaluationSet,
  outcomes: Outcomes,
  { signal, task = "routings" }: PredictOptions = {},
): Promise<Outcomes> {
  const logits = new Array<number[]>(examples.length);
  for (const batch of evaluationBatches(examples, { rows: ROWS })) {
    if (signal?.aborted) throw new AegirError("ERR_ABORTED", `${task}: interrupted`);
    using scope = new Scope();
    const prefix = scope.keep(await swarm.prefix(scope.keep(batchInput(batch))));
    const z = await routeBatch(swarm, prefix, scope);
    for (const [i, row] of batch.rows.entries()) logits[row] = z[i]!;
  }
  return { ...outcomes, logits };
}

/** (B,n) the router's logits of a batch. */
async function routeBatch(swarm: SwarmOrchestrator, prefix: Prefix, scope: Scope): Promise<number[][]> {
  const { logits } = await swarm.route(prefix.routingHidden);
  const z = scope.keep(logits).data() as Float32Array;
  const n = swarm.specialists.length;
  return Array.from({ length: z.length / n }, (_, i) => [...z.subarray(i * n, (i + 1) * n)]);
}

/** (…,B) the routings of a batch that are evaluated, for logits (B,n). */
function routingsOf(
  evaluated: Evaluated,
  logits: number[][],
  { specialists }: SwarmOrchestrator,
): number[][] {
  const constant = (routing: number) => logits.map(() => routing);
  const count = 2 ** specialists.length;
  if (evaluated === "all") return Array.from({ length: count }, (_, routing) => constant(routing));
  const decided = learnedRouting({ logits, specialists });
  return [constant(0), constant(count - 1), [...decided]];
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
  calibration: Calibration | null,
  ...[prefix, activation, results]: Parameters<SwarmOrchestrator["complete"]>
): Promise<Prediction[]> {
  using output = await swarm.complete(prefix, activation, results);
  const logits = output.logits.data() as Float32Array;
  return predictionsOf(calibration ? adjust(logits, calibration) : logits, output.logits.shape[1]!);
}

/** A routing a row as (rows,n) bits. */
function routingMask(routings: readonly number[], n: number): Uint8Array {
  return Uint8Array.from(
    { length: routings.length * n },
    (_, i) => (routings[Math.floor(i / n)]! >> (i % n)) & 1,
  );
}
