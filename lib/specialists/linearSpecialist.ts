import { createHash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { lessPrior, logSoftmax } from "../data/logitAdjustment.js";
import type { ColumnRef } from "../data/types.js";
import { AegirError } from "../errors.js";
import { ColumnSpecialist } from "../swarm/index.js";
import { type SparseRows, timesDense } from "./sparse.js";

/** What turns columns into rows of features. */
export interface Extractor {
  readonly kind: "ngram" | "format" | "stacked";
  /** Number of features. */
  readonly columns: number;
  /** With `tensors` enough to make it again. */
  readonly options: object;
  tensors(): Record<string, Int32Array | Float32Array>;
  transform(refs: readonly ColumnRef[]): SparseRows;
}

/** What a training found. */
export interface Learned {
  labels: readonly string[];
  /** (features, labels) row-major */
  weight: Float32Array;
  /** (labels) */
  bias: Float32Array;
  /** (labels) ln of each label's share of the training columns. */
  logPrior: Float32Array;
  /** Logit adjustment: probabilities are divided by prior^tau. */
  tau: number;
  /** What is said of the columns that it was trained on, by `columnKey`: unadjusted logits of a fit that had not seen their sites. */
  held: ReadonlyMap<string, Float32Array>;
  /** Macro F1 on the columns that tau was chosen on; absent where it was given, and of one that was loaded. */
  validationF1?: number;
}

/** Columns between two turns of the event loop. */
const CHUNK = 16;

/**
 * A linear classifier over features of columns, by itself or in a swarm. Of a column that it was trained on it says what a fit without
 * that column's site says: a swarm that learns on the same columns meets it as sure, and as wrong, as it is on new ones.
 */
export class LinearSpecialist extends ColumnSpecialist {
  constructor(
    id: string,
    readonly extractor: Extractor,
    readonly learned: Learned,
  ) {
    super(id, learned.labels);
  }

  async logProbabilities(columns: readonly ColumnRef[], signal?: AbortSignal): Promise<Float32Array> {
    return this.adjustedSoftmax(await this.logits(columns, signal));
  }

  /** The same at once, without a turn of the event loop: for features of another classifier. */
  logProbabilitiesOf(columns: readonly ColumnRef[]): Float32Array {
    return this.adjustedSoftmax(this.logitsOf(columns));
  }

  private adjustedSoftmax(logits: Float64Array): Float32Array {
    const { logPrior, tau } = this.learned;
    return logSoftmax(lessPrior(logits, logPrior, tau), this.labels.length);
  }

  /** Before adjustment and softmax, (columns, labels). @throws AegirError ERR_DATA, ERR_ABORTED */
  async logits(columns: readonly ColumnRef[], signal?: AbortSignal): Promise<Float64Array> {
    const classes = this.labels.length;
    const out = new Float64Array(columns.length * classes);
    for (const ref of columns) checkColumn(ref);
    for (let from = 0; from < columns.length; from += CHUNK) {
      await nextTurn();
      if (signal?.aborted) throw new AegirError("ERR_ABORTED", `interrupted after ${from} columns`);
      out.set(this.logitsOf(columns.slice(from, from + CHUNK)), from * classes);
    }
    return out;
  }

  private logitsOf(columns: readonly ColumnRef[]): Float64Array {
    const { weight, bias, held } = this.learned;
    const classes = bias.length;
    const start = new Float64Array(columns.length * classes);
    for (let i = 0; i < columns.length; i++) start.set(bias, i * classes);
    const out = timesDense(this.extractor.transform(columns), weight, classes, start);
    if (held.size === 0) return out;
    for (const [i, column] of columns.entries()) {
      const known = held.get(columnKey(column));
      if (known) out.set(known, i * classes);
    }
    return out;
  }

  weightsHash(): string {
    const { weight, bias, logPrior, tau } = this.learned;
    const hash = createHash("sha256");
    const features = Object.values(this.extractor.tensors());
    for (const { buffer, byteOffset, byteLength } of [weight, bias, logPrior, ...features])
      hash.update(new Uint8Array(buffer, byteOffset, byteLength));
    return hash.update(String(tau)).digest("hex");
  }
}

/** Tells a column from all others of other tables or contents. */
export function columnKey({ table, column, mainColumn }: ColumnRef): string {
  const content = createHash("sha256").update(JSON.stringify(table.columns[column]!.cells)).digest("base64");
  return JSON.stringify([table.name, column, mainColumn ?? null, content]);
}

function checkColumn({ table, column }: ColumnRef): void {
  if (table.columns[column]) return;
  throw new AegirError(
    "ERR_DATA",
    `column was ${column}, but table '${table.name}' has ${table.columns.length === 0 ? "no columns" : `columns 0 to ${table.columns.length - 1}`}`,
  );
}
