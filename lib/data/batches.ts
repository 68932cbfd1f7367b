import { z } from "zod";
import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import { Random } from "./random.js";
import type { Batch, EncodedExample, EncodedSequence } from "./types.js";
import { Token } from "./vocabulary.js";

export const batchOptions = z.strictObject({
  /** Rows of a batch at most. */
  rows: z.int().min(1).default(64),
  /** Tokens of a batch at most, padding included (column-wise: all columns); an example that is longer than this makes a batch of its own. */
  tokens: z.int().min(1).optional(),
  /**
   * Batches' worth of examples that are sorted by length together: more is less padding. But a column's length tells much about its class,
   * so sorted batches hold few classes each: with 16, macro F1 after 60 steps was .19 where unsorted batches reach .41, for 12 % less padding.
   */
  window: z.int().min(1).default(1),
  /** "table": examples of one table stand together, so that column-wise batches encode the columns that they share once. */
  by: z.enum(["column", "table"]).default("column"),
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
    const order =
      this.#settings.by === "table"
        ? tablesInTurn(this.#examples, random)
        : random.shuffle([...this.#examples.keys()]);
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

/** Tables in a random order, the examples of each in a random order; one whose table is not known stands by itself. */
function tablesInTurn(examples: readonly EncodedExample[], random: Random): number[] {
  const ofTable = new Map<unknown, number[]>();
  for (const [row, { source }] of examples.entries()) {
    const key = source?.table ?? row;
    const rows = ofTable.get(key);
    if (rows) rows.push(row);
    else ofTable.set(key, [row]);
  }
  return random.shuffle([...ofTable.values()]).flatMap((rows) => random.shuffle(rows));
}

/** Every example once, in batches of similar length; `rows` of each batch say which examples it holds. For evaluation. */
export function* evaluationBatches(
  examples: readonly EncodedExample[],
  options: BatchOptions = {},
): Generator<Batch> {
  const settings = parseOptions("evaluationBatches", batchOptions, options);
  for (const rows of bucket(examples, [...examples.keys()], settings)) yield collate(examples, rows);
}

/** Cuts examples into batches within the limits: sorted by length, or in the given order where they are packed without padding. */
function bucket(examples: readonly EncodedExample[], order: number[], settings: Settings): number[][] {
  if (isColumnWise(examples)) return pack(examples, order, settings);
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

/** Column-wise examples: a batch's tokens are the sum of its columns', of those that examples share once. */
function pack(examples: readonly EncodedExample[], order: readonly number[], settings: Settings): number[][] {
  const batches: number[][] = [];
  let open: number[] = [];
  let tokens = 0;
  let seen = new Set<Int32Array>();
  for (const row of order) {
    let added = newTokens(examples[row]!, seen);
    const full =
      open.length === settings.rows || (settings.tokens !== undefined && tokens + added > settings.tokens);
    if (full && open.length > 0) {
      batches.push(open);
      open = [];
      tokens = 0;
      seen = new Set();
      added = newTokens(examples[row]!, seen);
    }
    open.push(row);
    tokens += added;
    for (const { ids } of columnsOf(examples[row]!)) seen.add(ids);
  }
  if (open.length > 0) batches.push(open);
  return batches;
}

function columnsOf(example: EncodedExample): EncodedSequence[] {
  return [example, ...(example.context ?? [])];
}

function newTokens(example: EncodedExample, seen: ReadonlySet<Int32Array>): number {
  return columnsOf(example).reduce((sum, { ids }) => sum + (seen.has(ids) ? 0 : ids.length), 0);
}

/** Whether examples are packed as columns: of one list all are, or none. */
export function isColumnWise(examples: readonly EncodedExample[]): boolean {
  return examples[0]?.context !== undefined;
}

/** One packed row of all columns of the chosen examples, each column once. */
function collateColumns(examples: readonly EncodedExample[], rows: readonly number[]): Batch {
  const chosen = rows.map((row) => examples[row]!);
  const columns: EncodedSequence[] = [];
  const positions: number[] = [];
  const indexOf = new Map<Int32Array, number>();
  const add = (column: EncodedSequence, position: number): number => {
    const known = indexOf.get(column.ids);
    if (known !== undefined) return known;
    indexOf.set(column.ids, columns.length);
    positions.push(position);
    return columns.push(column) - 1;
  };
  const width = Math.max(0, ...chosen.map(({ context = [] }) => context.length));
  const context = new Int32Array(rows.length * width).fill(-1);
  const targets = Int32Array.from(chosen, (example) => add(example, example.position ?? 0));
  for (const [r, example] of chosen.entries())
    for (const [i, column] of (example.context ?? []).entries())
      context[r * width + i] = add(column, column.position);
  const cuSeqlens = new Int32Array(columns.length + 1);
  for (const [i, { ids }] of columns.entries()) cuSeqlens[i + 1] = cuSeqlens[i]! + ids.length;
  const tokens = cuSeqlens[columns.length]!;
  const batch: Batch = {
    size: rows.length,
    tokens,
    ids: new Int32Array(tokens),
    roles: new Int32Array(tokens),
    pool: new Uint8Array(tokens),
    lengths: Int32Array.from(chosen, ({ ids }) => ids.length),
    labels: Int32Array.from(chosen, ({ label }) => label),
    rows: Int32Array.from(rows),
    ...sourcesOf(chosen),
    columns: { cuSeqlens, targets, context, width, positions: Int32Array.from(positions) },
  };
  for (const [i, column] of columns.entries()) {
    batch.ids.set(column.ids, cuSeqlens[i]!);
    batch.roles.set(column.roles, cuSeqlens[i]!);
    batch.pool.set(column.pool, cuSeqlens[i]!);
  }
  return batch;
}

/** What was encoded, where every example says it. */
function sourcesOf(examples: readonly EncodedExample[]): Pick<Batch, "sources"> {
  const sources = examples.flatMap(({ source }) => source ?? []);
  return sources.length === examples.length ? { sources } : {};
}

/** Right-pads the chosen examples to the longest of them: ids and roles (size, tokens) row-major, PAD and role 0 behind the end. Column-wise examples are packed. */
export function collate(examples: readonly EncodedExample[], rows: readonly number[]): Batch {
  if (isColumnWise(examples)) return collateColumns(examples, rows);
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
    ...sourcesOf(chosen),
  };
  for (const [i, example] of chosen.entries()) {
    batch.ids.set(example.ids, i * tokens);
    batch.roles.set(example.roles, i * tokens);
    batch.pool.set(example.pool, i * tokens);
    batch.lengths[i] = example.ids.length;
    batch.labels[i] = example.label;
  }
  return batch;
}
