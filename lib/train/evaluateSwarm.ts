import { evaluationBatches } from "../data/batches.js";
import { Random } from "../data/random.js";
import type { Batch } from "../data/types.js";
import type { CriticalPath } from "../rl/criticalPath.js";
import {
  type Activation,
  SpecialistCache,
  type SwarmOrchestrator,
  type SwarmTiming,
} from "../swarm/index.js";
import { type Calibration, calibrated } from "./calibration.js";
import { type EvaluateOptions, type Evaluation, type EvaluationSet, evaluate } from "./evaluate.js";
import type { PredictOptions } from "./predict.js";
import { activationRates, shuffleRows } from "./routingDraws.js";
import { mean } from "./statistics.js";
import { swarmLogits } from "./swarmPredict.js";

export interface ControlScore {
  microF1: number;
  macroF1: number;
  /** Share of (column, specialist) pairs activated. */
  activation: number;
}

/** Means over the batches of an evaluation, milliseconds; `steps` counts module calls. */
export type MeanCriticalPath = Pick<
  CriticalPath,
  "seed" | "steps" | "ideal" | "measured" | "wall" | "work" | "speedupIdeal"
>;

export interface SwarmFigures {
  /** Share of columns that activated each specialist. */
  activationRate: Record<string, number>;
  /** The same by domain of the column; empty where the data has no domains. */
  activationByDomain: Record<string, Record<string, number>>;
  criticalPath: MeanCriticalPath;
  /**
   * By how the columns were routed: "all-on", "all-off", "shuffled" (the learned decisions given to other columns) and, of several specialists,
   * "only ID", that one on for all: what the primary says with its help, not what it says alone. Empty where they were not asked for.
   */
  controls: Record<string, ControlScore>;
}

export interface SwarmEvaluation extends Evaluation {
  swarm: SwarmFigures;
}

export interface SwarmEvaluationOptions extends EvaluateOptions {
  /** Also score all-on, all-off, each specialist as the primary's only one, and the learned routing shuffled over the columns; default true. */
  controls?: boolean;
  /** Of its run. */
  calibration?: Calibration | null;
  /** Permutations whose scores are averaged. */
  shuffles?: number;
  seed?: number;
}

/**
 * Scores a swarm as its router decides, with activation per specialist and domain and its critical path, and beside it the
 * controls: the same weights under all-on, all-off and shuffled routing, and with one specialist on for all.
 * @throws AegirError ERR_ABORTED
 */
export async function evaluateSwarm(
  swarm: SwarmOrchestrator,
  set: EvaluationSet,
  {
    controls = true,
    calibration = null,
    shuffles = 3,
    seed = 0,
    abstainBelow,
    ...options
  }: SwarmEvaluationOptions = {},
): Promise<SwarmEvaluation> {
  const n = swarm.specialists.length;
  const mask = new Uint8Array(set.examples.length * n);
  const timings: SwarmTiming[] = [];
  const logitsOf = swarmLogits(swarm, {
    onActivation: (activation, batch) => scatter(activation, batch, mask),
    onTiming: (timing) => timings.push(timing),
  });
  const learned = await evaluate(calibrated(logitsOf, calibration), set, { abstainBelow, ...options });
  const ids = swarm.specialists.map(({ id }) => id);
  return {
    ...learned,
    swarm: {
      activationRate: named(ids, activationRates(mask, n)),
      activationByDomain: byDomain(set, mask, ids),
      criticalPath: meanCriticalPath(timings),
      controls: controls
        ? await scoreControls(swarm, set, mask, { shuffles, seed, calibration, ...options })
        : {},
    },
  };
}

async function scoreControls(
  swarm: SwarmOrchestrator,
  set: EvaluationSet,
  mask: Uint8Array,
  {
    shuffles,
    seed,
    calibration,
    ...options
  }: PredictOptions & { shuffles: number; seed: number; calibration: Calibration | null },
): Promise<SwarmFigures["controls"]> {
  const n = swarm.specialists.length;
  const batches = [...evaluationBatches(set.examples, { rows: options.rows ?? 64 })];
  using cache = await SpecialistCache.build(swarm.specialists, batches, {
    stages: swarm.specialistStages,
    overflow: "partial",
    signal: options.signal,
  });
  const score = async (control: string, routing: Uint8Array): Promise<ControlScore> => {
    const logitsOf = swarmLogits(swarm, { cache, routing: (batch) => gather(routing, batch, n) });
    const task = `${options.task ?? "evaluation"}, ${control}`;
    const { microF1, macroF1 } = await evaluate(calibrated(logitsOf, calibration), set, { ...options, task });
    return { microF1, macroF1, activation: mean(activationRates(routing, n)) };
  };
  const random = new Random(seed, "shuffled routing");
  const shuffled: ControlScore[] = [];
  for (let i = 1; i <= shuffles; i++) {
    const control = `shuffled ${i} of ${shuffles}`;
    shuffled.push(await score(control, shuffleRows(mask, n, random)));
  }
  const alone: Record<string, ControlScore> = {};
  for (const [i, { id }] of n > 1 ? swarm.specialists.entries() : []) {
    alone[`only ${id}`] = await score(
      `only ${id}`,
      mask.map((_, at) => Number(at % n === i)),
    );
  }
  return {
    "all-on": await score("all on", new Uint8Array(mask.length).fill(1)),
    "all-off": await score("all off", new Uint8Array(mask.length)),
    shuffled: {
      microF1: mean(shuffled.map((s) => s.microF1)),
      macroF1: mean(shuffled.map((s) => s.macroF1)),
      activation: shuffled[0]!.activation,
    },
    ...alone,
  };
}

/** Writes a batch's decisions where its examples stand in (examples, n). */
function scatter({ mask, numSpecialists: n }: Activation, batch: Batch, all: Uint8Array): void {
  for (const [i, row] of batch.rows.entries()) all.set(mask.subarray(i * n, (i + 1) * n), row * n);
}

function gather(all: Uint8Array, batch: Batch, n: number): Uint8Array {
  const mask = new Uint8Array(batch.size * n);
  for (const [i, row] of batch.rows.entries()) mask.set(all.subarray(row * n, (row + 1) * n), i * n);
  return mask;
}

function byDomain(
  set: EvaluationSet,
  mask: Uint8Array,
  ids: string[],
): Record<string, Record<string, number>> {
  const n = ids.length;
  const domains = new Map<string, number[]>();
  for (const [row, { domain }] of set.columns.entries()) {
    if (domain !== undefined) domains.set(domain, [...(domains.get(domain) ?? []), row]);
  }
  return Object.fromEntries(
    [...domains]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([domain, rows]) => {
        const own = Uint8Array.from(rows.flatMap((row) => [...mask.subarray(row * n, (row + 1) * n)]));
        return [domain, named(ids, activationRates(own, n))];
      }),
  );
}

function meanCriticalPath(timings: SwarmTiming[]): MeanCriticalPath {
  const of = (field: keyof MeanCriticalPath) => mean(timings.map(({ criticalPath }) => criticalPath[field]));
  return {
    seed: of("seed"),
    steps: of("steps"),
    ideal: of("ideal"),
    measured: of("measured"),
    wall: of("wall"),
    work: of("work"),
    speedupIdeal: of("speedupIdeal"),
  };
}

function named(ids: string[], values: number[]): Record<string, number> {
  return Object.fromEntries(ids.map((id, i) => [id, values[i]!]));
}
