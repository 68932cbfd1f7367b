import { z } from "zod";
import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import { Random } from "./random.js";
import type { Batch, EncodedExample } from "./types.js";
import { Token } from "./vocabulary.js";

export const batchOptions = z.strictObject({
  /** Rows of a batch at most. */
  rows: z.int().min(1).default(64),
  /** Tokens of a batch at most, padding included; an example that is longer than this makes a batch of its own. */
  tokens: z.int().min(1).optional(),
  /**
   * Batches' worth of examples that are sorted by length together: more is less padding. But a column's length tells much about its class,
   * so sorted batches hold few classes each: with 16, macro F1 after 60 steps was .19 where unsorted batches reach .41, for 12 % less padding.
   */
  window: z.int().min(1).default(1),
  seed: z.int().default(0),
});
export type BatchOptions = z.input<typeof batchOptions>;
type Settings = z.output<typeof batchOptions>;

/** Where an iterator stands: `position` batches of epoch `epoch` have been given out. */
export interface BatchPosition {
  epoch: number;
  position: number;
}

/** Examples of an epoch; a function makes other examples (shuffled cells) each epoch, always as many and in the same order. */
export type ExampleSource = readonly EncodedExample[] | ((epoch: number) => readonly EncodedExample[]);

/**
 * Endless batches of rows of similar length, every example once an epoch, in an order that depends on (seed, epoch) alone. A run that
 * stores `state` and hands it to a new iterator goes on with the same batches.
 */
export class BatchIterator {
  readonly #source: ExampleSource;
  readonly #settings: Settings;
  #examples: readonly EncodedExample[] = [];
  #batches: number[][] = [];
  #epoch = 0;
  #position = 0;

  /** @throws AegirError ERR_CONFIG; ERR_DATA where there are no examples */
  constructor(source: ExampleSource, options: BatchOptions = {}) {
    this.#source = source;
    this.#settings = parseOptions("BatchIterator", batchOptions, options);
    this.#startEpoch(0);
  }

  get state(): BatchPosition {
    return { epoch: this.#epoch, position: this.#position };
  }

  set state({ epoch, position }: BatchPosition) {
    if (epoch !== this.#epoch) this.#startEpoch(epoch);
    if (position < 0 || position > this.#batches.length) {
      throw new AegirError(
        "ERR_DATA",
        `batch position was ${position}, but an epoch has ${this.#batches.length} batches: the data or the batch options are not those of the saved run`,
      );
    }
    this.#position = position;
  }

  get batchesInEpoch(): number {
    return this.#batches.length;
  }

  next(): Batch {
    if (this.#position === this.#batches.length) this.#startEpoch(this.#epoch + 1);
    return collate(this.#examples, this.#batches[this.#position++]!);
  }

  #startEpoch(epoch: number): void {
    this.#examples = typeof this.#source === "function" ? this.#source(epoch) : this.#source;
    if (this.#examples.length === 0) {
      throw new AegirError("ERR_DATA", "no examples to batch: the split has no labelled columns");
    }
    const random = new Random(this.#settings.seed, "batches", epoch);
    const order = random.shuffle([...this.#examples.keys()]);
    const window = this.#settings.rows * this.#settings.window;
    this.#batches = [];
    for (let start = 0; start < order.length; start += window) {
      this.#batches.push(...bucket(this.#examples, order.slice(start, start + window), this.#settings));
    }
    random.shuffle(this.#batches);
    this.#epoch = epoch;
    this.#position = 0;
  }
}

/** Every example once, in batches of similar length; `rows` of each batch say which examples it holds. For evaluation. */
export function* evaluationBatches(
  examples: readonly EncodedExample[],
  options: BatchOptions = {},
): Generator<Batch> {
  const settings = parseOptions("evaluationBatches", batchOptions, options);
  for (const rows of bucket(examples, [...examples.keys()], settings)) yield collate(examples, rows);
}

/** Cuts examples, sorted by length, into batches within the limits. */
function bucket(examples: readonly EncodedExample[], order: number[], settings: Settings): number[][] {
  const byLength = order.sort((a, b) => examples[a]!.ids.length - examples[b]!.ids.length);
  const batches: number[][] = [];
  let open: number[] = [];
  for (const row of byLength) {
    // Sorted: this row is the longest, so the batch would be padded to it.
    const tokens = (open.length + 1) * examples[row]!.ids.length;
    const full = open.length === settings.rows || (settings.tokens !== undefined && tokens > settings.tokens);
    if (full && open.length > 0) {
      batches.push(open);
      open = [];
    }
    open.push(row);
  }
  if (open.length > 0) batches.push(open);
  return batches;
}

/** Right-pads the chosen examples to the longest of them: ids and roles (size, tokens) row-major, PAD and role 0 behind the end. */
export function collate(examples: readonly EncodedExample[], rows: readonly number[]): Batch {
  const size = rows.length;
  const chosen = rows.map((row) => examples[row]!);
  const tokens = Math.max(1, ...chosen.map((example) => example.ids.length));
  const batch: Batch = {
    size,
    tokens,
    ids: new Int32Array(size * tokens).fill(Token.PAD),
    roles: new Int32Array(size * tokens),
    pool: new Uint8Array(size * tokens),
    lengths: new Int32Array(size),
    labels: new Int32Array(size),
    rows: Int32Array.from(rows),
  };
  const sources = chosen.flatMap(({ source }) => source ?? []);
  if (sources.length === size) batch.sources = sources;
  for (const [i, example] of chosen.entries()) {
    batch.ids.set(example.ids, i * tokens);
    batch.roles.set(example.roles, i * tokens);
    batch.pool.set(example.pool, i * tokens);
    batch.lengths[i] = example.ids.length;
    batch.labels[i] = example.label;
  }
  return batch;
}
