import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect } from "vitest";
import type { Batch } from "../../lib/data/types.js";
import { AegirForColumnAnnotation, type AnnotatorOptions, batchInput } from "../../lib/model/index.js";
import type { NativeGenerator, NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { FrozenSpecialist, type SpecialistOptions } from "../../lib/swarm/index.js";

/** Innermost stage: 2 layers of 4 heads of 16. */
export const PRIMARY: AnnotatorOptions = {
  archLayout: ["w1", ["w2"], "w1"],
  dModel: [32, 64],
  headSize: 16,
  numLabels: 5,
};
/** Innermost stage: 3 layers of 3 heads of 32. */
export const WIDER: AnnotatorOptions = {
  archLayout: ["w1", ["w3"], "w1"],
  dModel: [64, 96],
  headSize: 32,
  numLabels: 3,
};
/** Three stages; before routing 1 layer of 2 heads of 16, 1 layer of 3, and the innermost's 2 layers of 4. */
export const NESTED: AnnotatorOptions = {
  archLayout: ["w1", ["w1", ["w2"], "w1"], "w1"],
  dModel: [32, 48, 64],
  headSize: 16,
  numLabels: 5,
};
/** Flat; innermost stage without the first layer: 2 layers of 2 heads of 16. */
export const FLAT: AnnotatorOptions = { archLayout: ["w3"], dModel: 32, headSize: 16, numLabels: 4 };

export function specialist(
  seed: number,
  id: string,
  options: AnnotatorOptions = PRIMARY,
  more: Omit<SpecialistOptions, "id"> = {},
): FrozenSpecialist {
  return new FrozenSpecialist(new AegirForColumnAnnotation(options, { seed, name: id }), { id, ...more });
}

/** A batch of random bytes whose rows end at different places. */
export function randomBatch(random: () => number, size: number, tokens: number, firstRow = 0): Batch {
  const lengths = Int32Array.from({ length: size }, (_, row) =>
    row === 0 ? tokens : 1 + Math.floor(random() * tokens),
  );
  const batch: Batch = {
    size,
    tokens,
    ids: new Int32Array(size * tokens),
    roles: new Int32Array(size * tokens),
    pool: new Uint8Array(size * tokens),
    lengths,
    labels: Int32Array.from({ length: size }, () => Math.floor(random() * 5)),
    rows: Int32Array.from({ length: size }, (_, row) => firstRow + row),
  };
  for (let i = 0; i < size * tokens; i++) {
    const valid = i % tokens < lengths[Math.floor(i / tokens)]!;
    batch.ids[i] = valid ? Math.floor(random() * 256) : 256;
    batch.pool[i] = valid ? 1 : 0;
  }
  return batch;
}

export function randomInputs(random: () => number, size: number, tokens: number) {
  return batchInput(randomBatch(random, size, tokens));
}

/** Row `row` of a (B,…) tensor, as numbers. */
export function rowOf(tensor: NativeTensor, row: number): number[] {
  const index = native().Tensor.fromData(Int32Array.of(row), [1], "i64");
  const chosen = tensor.indexSelect(0, index);
  const values = Array.from(chosen.data(), Number);
  index.dispose();
  chosen.dispose();
  return values;
}

/** Collects the handles that earlier tests left behind, so that none of them goes while the count is watched. */
export async function settledTensors(): Promise<number> {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  for (let i = 0; i < 3; i++) {
    collect();
    await nextTurn();
  }
  return liveTensors();
}

export function liveTensors(): number {
  return native().memory().liveTensors;
}

/** Standard normal float64 values. */
export function normal(shape: number[], generator: NativeGenerator): NativeTensor {
  return native().Tensor.randn(shape, "f64", generator);
}

export function i64(values: number[]): NativeTensor {
  return native().Tensor.fromData(Int32Array.from(values), [values.length], "i64");
}

export function expectError(code: string, message: RegExp) {
  return expect.objectContaining({ code, message: expect.stringMatching(message) });
}
