import { cellText } from "./cells.js";
import type { Random } from "./random.js";
import type { Column } from "./types.js";

/** Buckets of the hashed byte n-gram vectors. */
const BUCKETS = 128;
/** Cells and bytes of a column that its vector looks at. */
const VECTOR_CELLS = 8;
const VECTOR_BYTES = 32;

/**
 * A column as hashed byte 1-, 2- and 3-grams of its first distinct cells, L2-normalised: (128). Digits count as one byte and so do
 * letters of either case in a second set of n-grams, so that "19 kg" and "48 kg" are near.
 */
export function columnVector(column: Column): Float32Array {
  const vector = new Float32Array(BUCKETS);
  const seen = new Set<string>();
  // Columns of mostly missing values: looking further than this finds little more.
  const scanned = Math.min(column.cells.length, 8 * VECTOR_CELLS);
  for (let i = 0; i < scanned && seen.size < VECTOR_CELLS; i++) {
    const cell = cellText(column.cells[i]!);
    if (cell === "" || seen.has(cell)) continue;
    seen.add(cell);
    addGrams(vector, cell);
  }
  let norm = 0;
  for (const value of vector) norm += value * value;
  if (norm > 0) for (let i = 0; i < BUCKETS; i++) vector[i]! /= Math.sqrt(norm);
  return vector;
}

function addGrams(vector: Float32Array, cell: string): void {
  const length = Math.min(cell.length, VECTOR_BYTES);
  let raw1 = 0;
  let raw2 = 0;
  let shape1 = 0;
  let shape2 = 0;
  for (let i = 0; i < length; i++) {
    const raw = cell.charCodeAt(i) & 0xff;
    const shape = shapeOf(raw);
    vector[hash(raw, 0, 0)]! += 1;
    vector[hash(raw1, raw, 1)]! += 1;
    vector[hash((shape2 << 8) | shape1, shape, 2)]! += 1;
    raw2 = raw1;
    raw1 = raw;
    shape2 = shape1;
    shape1 = shape;
  }
  vector[hash(raw2, raw1, 3)]! += 1;
}

function shapeOf(byte: number): number {
  if (byte >= 48 && byte <= 57) return 48;
  if (byte >= 65 && byte <= 90) return 65;
  if (byte >= 97 && byte <= 122) return 97;
  return byte;
}

function hash(a: number, b: number, salt: number): number {
  let h = Math.imul(a * 256 + b + salt * 65_537 + 1, 0x9e3779b1);
  h ^= h >>> 15;
  return (Math.imul(h, 0x85ebca6b) >>> 16) % BUCKETS;
}

/**
 * At most `limit` columns other than `excluded` that can be context of column `target`: all of a narrow table, else the nearest by
 * position and a seeded sample of the rest. The bound keeps a table of thousands of columns linear.
 */
export function contextCandidates(
  width: number,
  target: number,
  excluded: ReadonlySet<number>,
  limit: number,
  random: Random,
): number[] {
  const near = Math.ceil(limit / 2);
  const first = width <= limit ? 0 : Math.max(0, Math.min(target - (near >> 1), width - near));
  const last = width <= limit ? width : first + near;
  const chosen = new Set<number>();
  for (let i = first; i < last; i++) if (!excluded.has(i)) chosen.add(i);
  if (width > limit) {
    for (let draws = 0; draws < limit - near; draws++) {
      const drawn = random.int(width);
      if (!excluded.has(drawn)) chosen.add(drawn);
    }
  }
  return [...chosen].sort((a, b) => a - b);
}

/**
 * Maximal marginal relevance (Carbonell and Goldstein, 1998): picks up to `count` candidates one by one, each with the largest
 * lambda * cos(candidate, target) - (1 - lambda) * max cos(candidate, picked). Returns indices into `candidates`, best first.
 */
export function maximalMarginalRelevance(
  target: Float32Array,
  candidates: readonly Float32Array[],
  count: number,
  lambda: number,
): number[] {
  const relevance = candidates.map((candidate) => dot(candidate, target));
  const redundancy = new Float32Array(candidates.length);
  const open = new Set(candidates.keys());
  const picked: number[] = [];
  while (picked.length < count && open.size > 0) {
    let best = -1;
    let bestScore = Number.NEGATIVE_INFINITY;
    for (const i of open) {
      const score = lambda * relevance[i]! - (1 - lambda) * redundancy[i]!;
      if (score > bestScore) {
        best = i;
        bestScore = score;
      }
    }
    open.delete(best);
    picked.push(best);
    for (const i of open) redundancy[i] = Math.max(redundancy[i]!, dot(candidates[i]!, candidates[best]!));
  }
  return picked;
}

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < BUCKETS; i++) sum += a[i]! * b[i]!;
  return sum;
}
