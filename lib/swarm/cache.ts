import { setImmediate as nextTurn } from "node:timers/promises";
import { z } from "zod";
import { parseOptions } from "../config.js";
import type { Batch } from "../data/types.js";
import { AegirError } from "../errors.js";
import { batchInput } from "../model/index.js";
import type { NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import { allOrNone, disposeAll } from "./module.js";
import { SpecialistResult } from "./results.js";
import { type Specialist, type SpecialistOutput, type SpecialistTensors, tensorsOf } from "./specialist.js";

const cacheSchema = z.strictObject({
  /** Bound on the bytes of the stored tensors. */
  maxBytes: z
    .number()
    .positive()
    .default(2 * 2 ** 30),
  /** What happens beyond maxBytes: ERR_OUT_OF_MEMORY, or the examples that come later are left out. */
  overflow: z.enum(["error", "partial"]).default("error"),
  /** Per specialist its stages whose states are stored, as `swarm.specialistStages`; absent: the innermost of each. */
  stages: z
    .array(z.array(z.number().int().min(0)).readonly())
    .readonly()
    .optional(),
  signal: z.instanceof(AbortSignal).optional(),
  /** Called after every batch with the number of examples done and in all. */
  onProgress: z.custom<(done: number, total: number) => void>((f) => typeof f === "function").optional(),
});

export type CacheOptions = z.input<typeof cacheSchema>;

interface Stack extends SpecialistTensors {
  specialist: Specialist;
}

/**
 * What frozen specialists say of a list of examples, computed once: they never change, so every further rollout costs fusion and the
 * primary's later layers only. Per specialist one tensor a layer of the stages asked for, (examples,H,N,N), and logits and
 * pooled embeddings.
 */
export class SpecialistCache {
  private hits = 0;
  private lookups = 0;

  private constructor(
    private readonly stacks: Stack[],
    /** Example → position in the tensors, -1 where it is not stored. */
    private readonly positions: Int32Array,
    /** Bytes of all stored tensors. */
    readonly bytes: number,
  ) {}

  /**
   * Runs every specialist over the batches; `batch.rows` names the examples.
   * @throws AegirError ERR_OUT_OF_MEMORY with both numbers where maxBytes does not suffice; ERR_ABORTED
   */
  static async build(
    specialists: readonly Specialist[],
    batches: readonly Batch[],
    options: CacheOptions = {},
  ): Promise<SpecialistCache> {
    const checked = parseOptions("SpecialistCache options", cacheSchema, options);
    checkStages(checked.stages, specialists.length);
    const pieces: SpecialistOutput[][] = specialists.map(() => []);
    try {
      const stored = await fill(pieces, specialists, batches, checked);
      const stacks: Stack[] = [];
      for (const [n, specialist] of specialists.entries()) stacks.push(await stack(specialist, pieces[n]!));
      return new SpecialistCache(stacks, positionsOf(stored), bytesOf(stacks));
    } finally {
      disposeAll(pieces.flat());
    }
  }

  /** Whether all these examples are stored. */
  covers(examples: ArrayLike<number>): boolean {
    return Array.from(examples).every((example) => (this.positions[example] ?? -1) >= 0);
  }

  /** What every specialist says of a batch of these examples, or null where one of them is not stored. The cache keeps the tensors. */
  select(examples: ArrayLike<number>): SpecialistResult[] | null {
    this.lookups += examples.length;
    if (!this.covers(examples)) return null;
    this.hits += examples.length;
    const positions = Int32Array.from(examples, (example) => this.positions[example]!);
    return this.stacks.map(({ specialist, output, states }, index) => {
      return new SpecialistResult({
        index,
        positions,
        output: { id: specialist.id, output, states },
        interval: null,
      });
    });
  }

  /** Share of the examples asked for that were answered; 0 before the first question. */
  get hitRate(): number {
    return this.lookups === 0 ? 0 : this.hits / this.lookups;
  }

  dispose(): void {
    disposeAll(this.stacks.flatMap(tensorsOf));
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** Runs the batches until all are stored or the bound is reached; returns the examples in order of storage. */
async function fill(
  pieces: SpecialistOutput[][],
  specialists: readonly Specialist[],
  batches: readonly Batch[],
  options: z.output<typeof cacheSchema>,
): Promise<number[]> {
  const total = batches.reduce((sum, batch) => sum + batch.size, 0);
  const stored: number[] = [];
  let bytesPerExample = 0;
  for (const batch of batches) {
    if ((stored.length + batch.size) * bytesPerExample > options.maxBytes) break;
    const outputs = await runBatch(specialists, batch, options);
    bytesPerExample = bytesOf(outputs) / batch.size;
    if (options.overflow === "error") checkBound(total, bytesPerExample, options.maxBytes);
    if ((stored.length + batch.size) * bytesPerExample > options.maxBytes) {
      disposeAll(outputs);
      break;
    }
    outputs.forEach((output, n) => void pieces[n]!.push(output));
    stored.push(...batch.rows);
    options.onProgress?.(stored.length, total);
  }
  return stored;
}

async function runBatch(
  specialists: readonly Specialist[],
  batch: Batch,
  { stages, signal }: Pick<CacheOptions, "stages" | "signal">,
): Promise<SpecialistOutput[]> {
  const inputs = batchInput(batch);
  try {
    return await allOrNone(
      specialists.map((specialist, n) => specialist.forward(inputs, { signal, stages: stages?.[n] })),
    );
  } finally {
    inputs.dispose();
  }
}

function bytesOf(said: readonly SpecialistTensors[]): number {
  return said.flatMap(tensorsOf).reduce((sum, tensor) => sum + tensor.bytes, 0);
}

function checkStages(stages: CacheOptions["stages"], specialists: number): void {
  if (!stages || stages.length === specialists) return;
  throw new AegirError(
    "ERR_CONFIG",
    `SpecialistCache options.stages: expected one list per specialist, ${specialists}, got ${stages.length}`,
  );
}

function checkBound(examples: number, bytesPerExample: number, maxBytes: number): void {
  const needed = examples * bytesPerExample;
  if (needed <= maxBytes) return;
  throw new AegirError(
    "ERR_OUT_OF_MEMORY",
    `SpecialistCache: ${examples} examples need ${Math.round(needed)} bytes, more than maxBytes = ${maxBytes}; ` +
      `raise maxBytes or set overflow: "partial"`,
  );
}

/** One tensor out of the batches' pieces, each freed as soon as it is copied; the event loop turns between two tensors. */
async function stack(specialist: Specialist, pieces: SpecialistOutput[]): Promise<Stack> {
  const join = async (pick: (piece: SpecialistOutput) => NativeTensor) => {
    await nextTurn();
    const parts = pieces.map(pick);
    const joined = native().Tensor.cat(parts, 0);
    disposeAll(parts);
    return joined;
  };
  if (pieces.length === 0) return { specialist, output: null, states: {} };
  const states: Record<string, NativeTensor[]> = {};
  for (const [stage, layers] of Object.entries<NativeTensor[]>(pieces[0]!.states)) {
    const joined: NativeTensor[] = [];
    for (const layer of layers.keys())
      joined.push(await join(({ states }) => states[Number(stage)]![layer]!));
    states[stage] = joined;
  }
  const output = pieces[0]!.output && {
    logits: await join((piece) => piece.output!.logits),
    pooled: await join((piece) => piece.output!.pooled),
  };
  return { specialist, output, states };
}

function positionsOf(examples: number[]): Int32Array {
  const size = examples.reduce((max, example) => Math.max(max, example + 1), 0);
  const positions = new Int32Array(size).fill(-1);
  for (const [position, example] of examples.entries()) positions[example] = position;
  return positions;
}
