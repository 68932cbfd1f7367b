import { afterAll, expect } from "vitest";
import { AegirForCausalLM, AegirForColumnAnnotation, type CausalLMOutput } from "../../lib/model/index.js";
import type { NativeModule, NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";

/** Every file of tests frees what it made. Hooks run in reverse order: this one comes after those of the tests. */
afterAll(() => {
  expect(native().memory().liveTensors).toBe(0);
});

/** Small geometries of every kind: flat with both feed-forward parts, one and two levels of chunking, a wider inner stage. */
export const geometries = {
  flat: { archLayout: ["w2"], dModel: 32, headSize: 16 },
  swiGlu: { archLayout: ["w1W1"], dModel: 32, headSize: 16 },
  chunked: { archLayout: ["w1", ["w2"], "w1"], dModel: [32, 48], headSize: 16, downsample: 3 },
  nested: {
    archLayout: ["w1", ["w1", ["w1W1"], "w1"], "w1"],
    dModel: [16, 32, 32],
    headSize: 16,
    downsample: 2,
  },
  ngrams: {
    archLayout: ["w1", ["w1"], "w1"],
    dModel: 32,
    headSize: 16,
    downsample: 2,
    ngrams: { sizes: [1, 3, 4], buckets: 61, width: 8, lowercase: true, shapes: true },
  },
};
export type Geometry = keyof typeof geometries;

/** f64 with parameters far from their initial values says that a law holds; f32 says how well it holds in use. */
export const geometryKinds = (Object.keys(geometries) as Geometry[]).flatMap((geometry) => [
  { geometry, dtype: "f64" as const, noise: 0.15 },
  { geometry, dtype: "f32" as const, noise: 0.02 },
]);

const shared = { channelMixRatio: 2, vocabSize: 264 };

interface TestModelOptions {
  dtype?: "f32" | "f64";
  seed?: number;
  /** How far the parameters are moved off their initial values. */
  noise?: number;
}

export function causalLM(
  geometry: Geometry,
  { dtype = "f32", seed = 1, noise = 0.15 }: TestModelOptions = {},
): AegirForCausalLM {
  const model = new AegirForCausalLM({ ...geometries[geometry], ...shared, dtype }, { seed });
  shake(model.native, seed, dtype, noise);
  return model;
}

export function annotator(
  geometry: Geometry,
  { dtype = "f32", seed = 1, noise = 0.15 }: TestModelOptions = {},
): AegirForColumnAnnotation {
  const model = new AegirForColumnAnnotation(
    { ...geometries[geometry], ...shared, dtype, numLabels: 5 },
    { seed },
  );
  shake(model.native, seed, dtype, noise);
  return model;
}

/** Moves every parameter off its initial value: maps that start at zero or at the identity would hide mistakes. */
export function shake(module: NativeModule, seed: number, dtype: "f32" | "f64", amount: number): void {
  const generator = new (native().Generator)(seed);
  const tensors = module.stateDict();
  const shaken: Record<string, NativeTensor> = {};
  for (const [name, tensor] of Object.entries(tensors)) {
    // Embeddings and routing maps far enough for boundaries and non-boundaries.
    const scale = name.includes("Embedding") || name.includes("routing") ? 0.5 : amount;
    const noise = native().Tensor.randn(tensor.shape, dtype, generator);
    const scaled = noise.mul(scale);
    shaken[name] = tensor.add(scaled);
    dispose(noise, scaled);
  }
  module.loadStateDict(shaken);
  dispose(generator, ...Object.values(shaken), ...Object.values(tensors));
}

export function dispose(...values: ({ dispose(): void } | null | undefined)[]): void {
  for (const value of values) value?.dispose();
}

/** (B,T) i64 of rows, padded on the right with a token that would show in any result. */
export function idTensor(rows: readonly (readonly number[])[]): NativeTensor {
  const tokens = Math.max(...rows.map((row) => row.length));
  const flat = rows.flatMap((row) => [...row, ...Array.from({ length: tokens - row.length }, () => 97)]);
  return native().Tensor.fromData(Int32Array.from(flat), [rows.length, tokens], "i64");
}

export function indexTensor(values: readonly number[]): NativeTensor {
  return native().Tensor.fromData(Int32Array.from(values), [values.length], "i64");
}

/** (S+1) i64: where each of the rows starts, packed one after another. */
export function startTensor(rows: readonly (readonly number[])[]): NativeTensor {
  const starts = [0];
  for (const row of rows) starts.push(starts.at(-1)! + row.length);
  return indexTensor(starts);
}

/** Values as plain numbers. */
export function values(tensor: NativeTensor): number[] {
  return Array.from(tensor.data() as Float32Array, Number);
}

/** Row r of a (B,T,V) or (B,C) tensor, its first `count` entries along T, as plain numbers. */
export function rowValues(tensor: NativeTensor, row: number, count?: number): number[] {
  const one = tensor.slice(0, row, row + 1);
  const part = count === undefined ? one.clone() : one.slice(1, 0, count);
  const result = values(part);
  dispose(one, part);
  return result;
}

/**
 * Tolerance of the laws. Two ways through the same equations differ in the order of their sums: a few ulp, 1e-7 in f32, over some ten
 * layers, among them norms of small differences.
 */
export const LAW_TOLERANCE = { f32: 1e-5, f64: 1e-11 };

export function expectClose(
  actual: number[],
  expected: number[],
  what: string,
  tolerance = LAW_TOLERANCE.f32,
): void {
  expect(actual.length, `${what}: number of values`).toBe(expected.length);
  let worst = 0;
  for (let i = 0; i < actual.length; i++) {
    const scale = Math.max(1, Math.abs(expected[i]!));
    const difference = Math.abs(actual[i]! - expected[i]!) / scale;
    if (!(difference <= worst)) worst = difference;
  }
  expect(worst, `${what}: max difference`).toBeLessThanOrEqual(tolerance);
}

/** State tensors of one sequence as plain numbers, by name. */
export function stateValues(output: CausalLMOutput, row: number): Record<string, number[]> {
  const tensors = output.state.tensors();
  const result: Record<string, number[]> = {};
  for (const [name, tensor] of Object.entries(tensors)) {
    result[name] = rowValues(tensor, row);
    tensor.dispose();
  }
  return result;
}

export function expectSameState(
  actual: Record<string, number[]>,
  expected: Record<string, number[]>,
  what: string,
  tolerance: number,
): void {
  expect(Object.keys(actual)).toEqual(Object.keys(expected));
  for (const [name, value] of Object.entries(expected))
    expectClose(actual[name]!, value, `${what}: ${name}`, tolerance);
}
