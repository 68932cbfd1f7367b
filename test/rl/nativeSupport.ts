import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import type { Dtype, NativeLane, NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";

/** A lane for a test file; every test must end with the live tensors that it began with, `keep` disposes for it. */
export function useLane(threads = 1) {
  const kept: { dispose(): void }[] = [];
  let lane: NativeLane | undefined;
  let live = 0;
  beforeAll(() => {
    lane = new (native().Lane)({ name: "test", threads });
  });
  afterAll(() => lane?.close());
  beforeEach(() => {
    live = native().memory().liveTensors;
  });
  afterEach(() => {
    for (const value of kept.splice(0)) value.dispose();
    expect(native().memory().liveTensors).toBe(live);
  });
  return {
    get lane(): NativeLane {
      return lane!;
    },
    keep<T extends { dispose(): void }>(value: T): T {
      kept.push(value);
      return value;
    },
    tensor(values: ArrayLike<number>, shape: number[], dtype: Dtype = "f64"): NativeTensor {
      return this.keep(native().Tensor.fromData(Array.from(values), shape, dtype));
    },
    /** A leaf that takes gradients. */
    leaf(values: ArrayLike<number>, shape: number[], dtype: Dtype = "f64"): NativeTensor {
      const tensor = this.tensor(values, shape, dtype);
      tensor.requiresGrad = true;
      return tensor;
    },
    /** Backward of scalars; the gradient of `leaf` as numbers. */
    async gradient(leaf: NativeTensor, ...losses: NativeTensor[]): Promise<number[]> {
      await native().backward(
        lane!,
        losses,
        losses.map(() => 1),
      );
      return numbers(this.keep(leaf.grad()!));
    },
  };
}

/** Values of an f32, f64 or bool tensor. */
export function numbers(tensor: NativeTensor): number[] {
  return Array.from(tensor.data() as Float64Array);
}
