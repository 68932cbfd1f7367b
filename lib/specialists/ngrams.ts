import { z } from "zod";
import { cellText } from "../data/cells.js";

export const ngramOptions = z.strictObject({
  minN: z.int().min(1).max(8).default(1).describe("shortest n-gram"),
  maxN: z.int().min(1).max(8).default(4).describe("longest n-gram"),
  /** Shapes are characters of a cell in which a digit is 9, a capital A, and a run of other letters a. */
  unit: z
    .enum(["characters", "bytes", "words", "shapes"])
    .default("characters")
    .describe("what n-grams are made of"),
  /** Each word with a blank before and after; else the cell. n-grams of words are always of the cell. */
  words: z.boolean().default(true).describe("keep n-grams within words; those of unit words are of the cell"),
  lowercase: z.boolean().default(true).describe("ignore case; never of shapes"),
  /** Buckets that n-grams are hashed into, a power of two. */
  buckets: z
    .int()
    .min(2)
    .max(2 ** 24)
    .refine((n) => Number.isInteger(Math.log2(n)), "expected a power of two")
    .default(2 ** 18)
    .describe("buckets of n-grams, a power of two"),
  /** Cells of a column that are read, evenly spaced among those that are not empty, and characters of each. */
  cells: z.int().min(1).default(32).describe("cells of a column that are read"),
  cellCharacters: z.int().min(1).default(256).describe("characters of a cell that are read"),
});
export type NgramOptions = z.output<typeof ngramOptions>;

/** How often each hashed n-gram occurs in a column: buckets ascending, each once. */
export interface NgramCounts {
  buckets: Int32Array;
  counts: Int32Array;
}

const BLANK = 32;
/** FNV-1a's. */
const FIRST = 0x811c9dc5;
const PRIME = 0x01000193;

/** Counts of the hashed n-grams of some cells. */
export function countNgrams(cells: readonly string[], options: NgramOptions): NgramCounts {
  const counts = new Map<number, number>();
  for (const cell of chosenCells(cells, options)) {
    for (const part of options.words && options.unit !== "words" ? cell.split(/\s+/u) : [cell]) {
      if (part !== "") countPart(unitsOf(part, options), options, counts);
    }
  }
  const buckets = Int32Array.from(counts.keys()).sort();
  return { buckets, counts: buckets.map((bucket) => counts.get(bucket)!) };
}

function chosenCells(
  cells: readonly string[],
  { cells: limit, cellCharacters, lowercase, unit }: NgramOptions,
): string[] {
  const filled = cells.map(cellText).filter((cell) => cell.trim() !== "");
  const chosen =
    filled.length <= limit
      ? filled
      : Array.from({ length: limit }, (_, i) => filled[Math.floor((i * filled.length) / limit)]!);
  const cut = chosen.map((cell) => cell.slice(0, cellCharacters));
  if (unit === "shapes") return cut.map(shapeOfLetters);
  return lowercase ? cut.map((cell) => cell.toLowerCase()) : cut;
}

/** "Tel. +49 (0)30" is "Aa. +99 (9)99": numbers keep their length, words lose it. */
function shapeOfLetters(cell: string): string {
  return cell
    .replace(/\p{N}/gu, "9")
    .replace(/\p{Lu}/gu, "A")
    .replace(/[\p{Ll}\p{Lo}\p{Lm}\p{M}]+/gu, "a")
    .replace(/\s+/gu, " ");
}

/** A word, or any other character that is not a blank. */
const WORD = /[\p{L}\p{M}\p{N}_]+|[^\p{L}\p{M}\p{N}_\s]/gu;

/** Between two blanks: code points, a lone surrogate being one; bytes; or hashes of words. */
function unitsOf(part: string, { unit }: NgramOptions): ArrayLike<number> {
  if (unit === "words") return [BLANK, ...(part.match(WORD) ?? []).map(hashOf), BLANK];
  const text = ` ${part} `;
  if (unit === "bytes") return Buffer.from(text, "utf8");
  return Array.from(text, (character) => character.codePointAt(0)!);
}

function hashOf(word: string): number {
  let hash = FIRST;
  for (let i = 0; i < word.length; i++) hash = Math.imul(hash ^ word.charCodeAt(i), PRIME);
  return mixed(hash);
}

function countPart(
  units: ArrayLike<number>,
  { minN, maxN, buckets }: NgramOptions,
  counts: Map<number, number>,
): void {
  for (let start = 0; start < units.length; start++) {
    let hash = FIRST;
    const end = Math.min(maxN, units.length - start);
    for (let n = 1; n <= end; n++) {
      hash = Math.imul(hash ^ units[start + n - 1]!, PRIME);
      if (n < minN || (n === 1 && units[start] === BLANK)) continue;
      const bucket = mixed(hash ^ n) & (buckets - 1);
      counts.set(bucket, (counts.get(bucket) ?? 0) + 1);
    }
  }
}

/** The finaliser of MurmurHash3: every bit of the hash reaches every bit of the bucket. */
function mixed(hash: number): number {
  let h = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
