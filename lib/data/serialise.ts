import { z } from "zod";
import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import { cellText, chooseCells, utf8Cut, utf8Prefix } from "./cells.js";
import { columnVector, contextCandidates, maximalMarginalRelevance } from "./context.js";
import { Random } from "./random.js";
import type {
  Column,
  ColumnRef,
  Dataset,
  EncodedColumn,
  EncodedExample,
  EncodedSequence,
  LabelledColumn,
  Split,
  Table,
} from "./types.js";
import { Role, Token } from "./vocabulary.js";

export const serialiserOptions = z.strictObject({
  /** Tokens of an example at most: bytes and specials of every column together. */
  maxTokens: z.int().min(8).max(65_536).default(128),
  /** Share of the tokens that the target column has first claim on. */
  targetShare: z.number().min(0.1).max(1).default(0.6),
  /** Context columns at most; 0: the target column alone. */
  maxContext: z.int().min(0).max(256).default(2),
  /** Columns of a wide table that are weighed as context. */
  maxCandidates: z.int().min(1).max(4096).default(64),
  /** Weight of relevance against diversity when context is chosen. */
  relevance: z.number().min(0).max(1).default(0.5),
  targetCells: z.int().min(1).max(1024).default(8),
  contextCells: z.int().min(1).max(1024).default(3),
  /** Bytes of a cell at most. */
  cellBytes: z.int().min(4).max(16_384).default(48),
  /** The same of context columns; default: `cellBytes`. */
  contextCellBytes: z.int().min(4).max(16_384).optional(),
  /**
   * "sequence": context columns stand before the target in its own sequence. "columns": every column is a sequence of its own, for models
   * with `columns`; `maxTokens` then holds for each, and no column of a table need be encoded twice.
   */
  form: z.enum(["sequence", "columns"]).default("sequence"),
  /**
   * Form "columns": a context column is written as it is when it is a target (`targetCells`, `cellBytes`, its role), so that annotating
   * a table encodes each of its columns once.
   */
  shared: z.boolean().default(false),
  /** "relevant": near the target and unlike each other, by n-grams; "sampled": any, by chance. */
  choose: z.enum(["relevant", "sampled"]).default("relevant"),
  headers: z.boolean().default(false),
  /** "mean": the head averages the target column's tokens; "decision": it reads the final token alone. */
  pool: z.enum(["mean", "decision"]).default("mean"),
  /** Shuffles the chosen cells (augmentation); `seed` and `encode`'s epoch decide how. */
  shuffle: z.boolean().default(false),
  /** With `shuffle`: chance that a column keeps only some of its cells (at least two), and that a context column is left out. */
  dropRate: z.number().min(0).max(1).default(0),
  seed: z.int().default(0),
});
export type SerialiserOptions = z.input<typeof serialiserOptions>;

/** Where the columns of one example stand and what they have to say. */
interface Part {
  role: number;
  header: Uint8Array | null;
  cells: Uint8Array[];
  /** Tokens that the whole part would take, its final special included. */
  wanted: number;
}

/**
 * Writes a column, with other columns of its table as context, as the token sequence of docs/model.md. The model is causal, so the
 * sequence ends with the target column and its decision token:
 *
 *     [CELL bytes CELL bytes … SEP] per context column, the most relevant last; then CPA's subject column; then
 *     CELL bytes CELL bytes … CLS   the target column
 *
 * with `HEADER bytes` before a column's cells where headers are on. In the form "columns" every one of these columns is a sequence by
 * itself. Deterministic by seed, table, column and epoch.
 * Column vectors are cached by column object: a table must not be changed once it has been encoded.
 */
export class Serialiser {
  readonly options: z.output<typeof serialiserOptions>;
  readonly #vectors = new WeakMap<Column, Float32Array>();
  /** Form "columns": what a column was written as in the latest epoch that asked, by role. */
  readonly #written = new WeakMap<Column, { epoch: number; byRole: Map<number, EncodedColumn> }>();

  /** @throws AegirError ERR_CONFIG */
  constructor(options: SerialiserOptions = {}) {
    this.options = parseOptions("Serialiser", serialiserOptions, options);
  }

  /**
   * @param at the target column, and the subject column for CPA
   * @param label class id, -1 where unknown
   * @param epoch makes another choice of sampled and shuffled cells
   * @throws AegirError ERR_DATA where the table has no such column
   */
  encode(table: Table, at: Omit<ColumnRef, "table">, label = -1, epoch = 0): EncodedExample {
    const { options } = this;
    if (options.form === "columns") return this.#encodeColumns(table, at, label, epoch);
    const target = columnOf(table, at.column, "column");
    const random = new Random(options.seed, ...drawnBy(table, at.column), epoch);
    const parts: Part[] = [];
    const excluded = new Set([at.column]);
    if (at.mainColumn !== undefined) {
      const subject = columnOf(table, at.mainColumn, "mainColumn");
      excluded.add(at.mainColumn);
      parts.push(this.#part(subject, Role.subject, options.contextCells, random));
    }
    for (const index of this.#context(table, at.column, excluded, random)) {
      if (options.shuffle && random.chance(options.dropRate)) continue;
      parts.unshift(this.#part(table.columns[index]!, Role.context, options.contextCells, random));
    }
    parts.push(this.#part(target, Role.target, options.targetCells, random));
    return { ...this.#write(parts), label, source: sourceOf(table, at) };
  }

  #encodeColumns(table: Table, at: Omit<ColumnRef, "table">, label: number, epoch: number): EncodedExample {
    const { seed, shuffle, dropRate, shared } = this.options;
    columnOf(table, at.column, "column");
    const random = new Random(seed, ...drawnBy(table, at.column), epoch);
    const context: EncodedColumn[] = [];
    const excluded = new Set([at.column]);
    if (at.mainColumn !== undefined) {
      columnOf(table, at.mainColumn, "mainColumn");
      excluded.add(at.mainColumn);
      context.push(this.#column(table, at.mainColumn, Role.subject, epoch));
    }
    for (const index of this.#context(table, at.column, excluded, random)) {
      if (shuffle && random.chance(dropRate)) continue;
      context.push(this.#column(table, index, shared ? Role.target : Role.context, epoch));
    }
    return {
      ...this.#column(table, at.column, Role.target, epoch),
      label,
      context,
      source: sourceOf(table, at),
    };
  }

  /** The same object for all who ask in an epoch: batches encode it once. */
  #column(table: Table, index: number, role: number, epoch: number): EncodedColumn {
    const column = table.columns[index]!;
    let written = this.#written.get(column);
    if (written?.epoch !== epoch) {
      written = { epoch, byRole: new Map() };
      this.#written.set(column, written);
    }
    let encoded = written.byRole.get(role);
    if (!encoded) {
      const { seed, targetCells, contextCells } = this.options;
      const random = new Random(seed, ...drawnBy(table, index), epoch, role);
      const part = this.#part(column, role, role === Role.target ? targetCells : contextCells, random);
      encoded = { ...this.#write([part]), position: index };
      written.byRole.set(role, encoded);
    }
    return encoded;
  }

  /** Every labelled column of a split, in its order. */
  encodeSplit(dataset: Dataset, split: Split, epoch = 0): EncodedExample[] {
    const classOf = new Map(dataset.labels.map((label, id) => [label, id]));
    return dataset.splits[split].map((labelled) => this.encodeLabelled(dataset, labelled, classOf, epoch));
  }

  /** @throws AegirError ERR_DATA where the table or the label is not in the data set */
  encodeLabelled(
    dataset: Dataset,
    labelled: LabelledColumn,
    classOf: ReadonlyMap<string, number>,
    epoch = 0,
  ): EncodedExample {
    const table = dataset.tables.get(labelled.table);
    if (!table) throw new AegirError("ERR_DATA", `${dataset.name}: no table '${labelled.table}'`);
    const label = classOf.get(labelled.label);
    if (label === undefined) {
      throw new AegirError(
        "ERR_DATA",
        `${dataset.name}: label '${labelled.label}' of column ${labelled.column} of '${labelled.table}' is not among the ${classOf.size} labels that the model knows`,
      );
    }
    return this.encode(table, labelled, label, epoch);
  }

  /** Indices of the context columns, most relevant first. */
  #context(table: Table, target: number, excluded: ReadonlySet<number>, random: Random): number[] {
    const { maxContext, maxCandidates, relevance, choose } = this.options;
    if (maxContext === 0) return [];
    const candidates = contextCandidates(
      table.columns.length,
      target,
      excluded,
      maxCandidates,
      random,
    ).filter((index) => this.#vector(table.columns[index]!).some((value) => value > 0));
    if (choose === "sampled") return random.sample(candidates, maxContext);
    const vectors = candidates.map((index) => this.#vector(table.columns[index]!));
    const picked = maximalMarginalRelevance(
      this.#vector(table.columns[target]!),
      vectors,
      maxContext,
      relevance,
    );
    return picked.map((i) => candidates[i]!);
  }

  #vector(column: Column): Float32Array {
    let vector = this.#vectors.get(column);
    if (!vector) {
      vector = columnVector(column);
      this.#vectors.set(column, vector);
    }
    return vector;
  }

  #part(column: Column, role: number, count: number, random: Random): Part {
    const { headers, shuffle, dropRate, contextCellBytes = this.options.cellBytes } = this.options;
    const cellBytes = role === Role.target ? this.options.cellBytes : contextCellBytes;
    const chosen = chooseCells(column, count, shuffle, random);
    if (shuffle && chosen.length > 2 && random.chance(dropRate))
      chosen.length = random.range(2, chosen.length - 1);
    const cells = chosen.map((cell) => utf8Prefix(cell, cellBytes));
    const header = headers && column.header ? utf8Prefix(cellText(column.header), cellBytes) : null;
    const wanted = cells.reduce((sum, cell) => sum + 1 + cell.length, 1 + (header ? 1 + header.length : 0));
    return { role, header, cells, wanted };
  }

  /** The last part is the target, or the only one. */
  #write(parts: readonly Part[]): EncodedSequence {
    const budgets = shareBudget(parts, this.options.maxTokens, this.options.targetShare);
    const ids: number[] = [];
    const roles: number[] = [];
    let targetStart = 0;
    for (const [i, part] of parts.entries()) {
      if (i === parts.length - 1) targetStart = ids.length;
      writePart(part, budgets[i]!, ids, roles, i === parts.length - 1);
    }
    const pool = new Uint8Array(ids.length);
    pool.fill(1, this.options.pool === "mean" ? targetStart : ids.length - 1);
    return { ids: Int32Array.from(ids), roles: Int32Array.from(roles), pool };
  }
}

function drawnBy({ drawnBy, name }: Table, column: number): (string | number)[] {
  return drawnBy === undefined ? [name, column] : [drawnBy];
}

function columnOf(table: Table, index: number, argument: string): Column {
  const column = table.columns[index];
  if (column) return column;
  const width = table.columns.length;
  throw new AegirError(
    "ERR_DATA",
    `${argument} was ${index}, but table '${table.name}' has ${width === 0 ? "no columns" : `columns 0 to ${width - 1}`}`,
  );
}

/**
 * Tokens for each part. The target (last) takes its share first, the others divide what is left evenly up to what they want, and
 * what they leave goes back to the target.
 */
function shareBudget(parts: readonly Part[], total: number, targetShare: number): number[] {
  const target = parts[parts.length - 1]!;
  const others = parts.slice(0, -1);
  const first = Math.max(1, Math.min(target.wanted, Math.floor(targetShare * total)));
  const budgets = new Array<number>(parts.length).fill(0);
  let left = total - first;
  const smallestFirst = [...others.keys()].sort((a, b) => others[a]!.wanted - others[b]!.wanted);
  for (const [done, i] of smallestFirst.entries()) {
    const fair = Math.floor(left / (others.length - done));
    budgets[i] = Math.min(others[i]!.wanted, fair);
    left -= budgets[i]!;
  }
  budgets[parts.length - 1] = Math.min(target.wanted, first + left);
  return budgets;
}

/** Fewer bytes than this of a cut cell or header say too little to be worth their token. */
const SHORTEST_CUT = 3;

/** @param last is written however little there is to say: a sequence has at least one token. */
function writePart(part: Part, budget: number, ids: number[], roles: number[], last: boolean): void {
  let left = budget - 1;
  const append = (special: number, role: number, bytes: Uint8Array): boolean => {
    const piece = utf8Cut(bytes, Math.max(0, left - 1));
    if (piece.length < Math.min(bytes.length, SHORTEST_CUT)) return false;
    ids.push(special, ...piece);
    for (let i = 0; i <= piece.length; i++) roles.push(role);
    left -= 1 + piece.length;
    return piece.length === bytes.length;
  };
  if (budget < 1 || (!last && left < 1 + SHORTEST_CUT)) return;
  if (part.header) append(Token.HEADER, Role.header, part.header);
  for (const cell of part.cells) if (!append(Token.CELL, part.role, cell)) break;
  ids.push(part.role === Role.target ? Token.CLS : Token.SEP);
  roles.push(part.role);
}

function sourceOf(table: Table, { column, mainColumn }: Omit<ColumnRef, "table">): ColumnRef {
  return { table, column, ...(mainColumn === undefined ? {} : { mainColumn }) };
}
