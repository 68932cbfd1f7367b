import { readFileSync } from "node:fs";
import { expect } from "vitest";

const file = new URL("../golden/rl-vectors.json", import.meta.url);
const vectors: Record<string, unknown> = JSON.parse(readFileSync(file, "utf8"));

/** A golden vector by its name. */
export function vector<T>(name: string): T {
  if (!(name in vectors)) throw new Error(`no golden vector ${name}`);
  return vectors[name] as T;
}

/** The vectors are rounded to 6 digits: half a unit of the last one, and float64 rounding. */
export const GOLDEN_TOLERANCE = 0.51e-6;

export function expectClose(
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  tolerance = GOLDEN_TOLERANCE,
): void {
  expect(actual.length).toBe(expected.length);
  for (let i = 0; i < expected.length; i++) {
    const error = Math.abs(actual[i]! - expected[i]!);
    expect(error, `element ${i}: ${actual[i]} against ${expected[i]}`).toBeLessThanOrEqual(tolerance);
  }
}

/** mulberry32: a seeded uniform generator for tests. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A fresh seed, printed so that a failure can be repeated with AEGIR_TEST_SEED. */
export function testSeed(name: string): number {
  const seed = Number(process.env.AEGIR_TEST_SEED ?? Date.now() % 2 ** 31);
  console.log(`${name}: AEGIR_TEST_SEED=${seed}`);
  return seed;
}

export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let dot = 0;
  let aa = 0;
  let bb = 0;
  for (let i = 0; i < a.length; i++) {
    dot += a[i]! * b[i]!;
    aa += a[i]! ** 2;
    bb += b[i]! ** 2;
  }
  return dot / Math.sqrt(aa * bb);
}

/** Σ (observed − expected)² / expected over cells with a positive expectation. */
export function chiSquare(observed: ArrayLike<number>, expected: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < expected.length; i++)
    if (expected[i]! > 0) sum += (observed[i]! - expected[i]!) ** 2 / expected[i]!;
  return sum;
}

/**
 * Quantile of the chi-square distribution at z standard deviations of the normal one (Wilson–Hilferty);
 * z = 4.75 leaves one false alarm in a million.
 */
export function chiSquareQuantile(degrees: number, z = 4.75): number {
  const c = 2 / (9 * degrees);
  return degrees * (1 - c + z * Math.sqrt(c)) ** 3;
}
