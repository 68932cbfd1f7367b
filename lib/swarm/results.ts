import { AegirError } from "../errors.js";
import type { Interval, NativeTensor } from "../native/contract.js";
import type { Activation } from "./activation.js";
import { disposeAll, indexTensor } from "./module.js";
import type { SpecialistOutput, StageStates } from "./specialist.js";

interface ResultParts {
  index: number;
  /** (B) where each row of the batch stands in the tensors; -1: not there. */
  positions: Int32Array;
  output: Omit<SpecialistOutput, "interval" | "dispose">;
  /** When the specialist ran; null: read from a cache. */
  interval: Interval | null;
  /** The specialists that ran as one with it; absent: none. */
  members?: readonly string[];
  /** Frees the tensors; absent: they belong to a cache or to another result. */
  dispose?: () => void;
}

/** What one specialist says of the rows of a batch: of those that activated it, or of any superset. */
export class SpecialistResult {
  readonly id: string;
  /** The specialist's number in the swarm. */
  readonly index: number;
  readonly positions: Int32Array;
  /** logits (any,C) and pooled (any,D), at `positions`; null for a causal LM. */
  readonly output: { logits: NativeTensor; pooled: NativeTensor } | null;
  /** attKv (any,H,N,N) by stage of the specialist, per layer, at `positions`. */
  readonly states: StageStates;
  /** When it ran; of specialists that ran as one, when all of them did. Null: read from a cache. */
  readonly interval: Interval | null;
  /** The specialists that ran as one, this one among them. */
  readonly members: readonly string[];

  constructor(private readonly parts: ResultParts) {
    this.id = parts.output.id;
    this.index = parts.index;
    this.positions = parts.positions;
    this.output = parts.output.output;
    this.states = parts.output.states;
    this.interval = parts.interval;
    this.members = parts.members ?? [this.id];
  }

  /** The same tensors seen from a batch of chosen rows (repeats allowed); this result must outlive it. */
  selectRows(rows: ArrayLike<number>): SpecialistResult {
    const positions = Int32Array.from(rows, (row) => this.positions[row] ?? -1);
    return new SpecialistResult({ ...this.parts, positions, dispose: undefined });
  }

  dispose(): void {
    this.parts.dispose?.();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** The rows of one activated specialist as fusion takes them. */
export interface ActiveRows {
  result: SpecialistResult;
  /** (b) i64, rows of the batch, and where they stand in the result. */
  rows: NativeTensor;
  take: NativeTensor;
  dispose(): void;
}

/**
 * Pairs every activated specialist with its result.
 * @throws AegirError ERR_ARGUMENT where a row activated a specialist whose result lacks it
 */
export function activeRows(activation: Activation, results: readonly SpecialistResult[]): ActiveRows[] {
  const byIndex = new Map(results.map((result) => [result.index, result]));
  const active: ActiveRows[] = [];
  try {
    for (let n = 0; n < activation.numSpecialists; n++) {
      const rows = activation.rowsOf(n);
      if (rows.length > 0) active.push(pair(n, rows, byIndex.get(n)));
    }
  } catch (error) {
    disposeAll(active);
    throw error;
  }
  return active;
}

function pair(index: number, rows: number[], result: SpecialistResult | undefined): ActiveRows {
  const missing = rows.find((row) => (result?.positions[row] ?? -1) < 0);
  if (!result || missing !== undefined) {
    throw new AegirError(
      "ERR_ARGUMENT",
      `results: row ${missing} activated specialist ${index}, which has no result for it; run it for these rows first`,
    );
  }
  const rowTensor = indexTensor(rows);
  const take = indexTensor(rows.map((row) => result.positions[row]!));
  return { result, rows: rowTensor, take, dispose: () => disposeAll([rowTensor, take]) };
}
