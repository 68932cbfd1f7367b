import { afterAll, afterEach, beforeAll, expect } from "vitest";
import type { NativeGenerator, NativeLane, NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";

/** A lane for the file's tests, and tensors that are disposed after each of them; none may be left at the end. */
export class Workbench {
  lane!: NativeLane;
  generator!: NativeGenerator;
  #kept: NativeTensor[] = [];
  #liveAtStart = 0;

  constructor(seed: number) {
    beforeAll(() => {
      this.#liveAtStart = native().memory().liveTensors;
      this.lane = new (native().Lane)({ name: "kernels", threads: 1 });
      this.generator = new (native().Generator)(seed);
    });
    afterEach(() => {
      for (const tensor of this.#kept) tensor.dispose();
      this.#kept = [];
    });
    afterAll(async () => {
      await this.lane.close();
      this.generator.dispose();
      expect(native().memory().liveTensors).toBe(this.#liveAtStart);
    });
  }

  keep(tensor: NativeTensor): NativeTensor {
    this.#kept.push(tensor);
    return tensor;
  }

  /** Standard normal float64 values. */
  normal(...shape: number[]): NativeTensor {
    return this.keep(native().Tensor.randn(shape, "f64", this.generator));
  }

  /** Uniform in (low, high), float64. */
  uniform(low: number, high: number, ...shape: number[]): NativeTensor {
    const values = this.keep(native().Tensor.rand(shape, "f64", this.generator));
    return this.keep(this.keep(values.mul(high - low)).add(low));
  }

  i64(values: number[]): NativeTensor {
    return this.keep(native().Tensor.fromData(Int32Array.from(values), [values.length], "i64"));
  }

  slice(tensor: NativeTensor, dim: number, start: number, end: number): NativeTensor {
    return this.keep(tensor.slice(dim, start, end));
  }

  cat(tensors: NativeTensor[], dim: number): NativeTensor {
    return this.keep(native().Tensor.cat(tensors, dim));
  }
}

/** The options of an operator, by name; the tensors among them that are floating are differentiated. */
export type Inputs = Record<string, NativeTensor>;

/**
 * Compares gradients of sum_i <results_i, weights_i> with central differences, at a few elements of each input.
 * The operators are at most cubic in one element over a step, so a step of 1e-5 leaves errors near 1e-9 in float64.
 */
export async function expectGradients(
  bench: Workbench,
  inputs: Inputs,
  run: (inputs: Inputs) => Promise<NativeTensor[]>,
): Promise<void> {
  const addon = native();
  const results = (await run(inputs)).map((result) => bench.keep(result));
  const weights = results.map((result) => bench.normal(...result.shape));
  const weighted = async (of: NativeTensor[]): Promise<NativeTensor[]> => {
    const losses: NativeTensor[] = [];
    for (const [i, result] of of.entries()) {
      losses.push(bench.keep((await addon.weightedSum(bench.lane, result, weights[i]!)).loss));
    }
    return losses;
  };
  const value = async (of: Inputs): Promise<number> => {
    const losses = await weighted((await run(of)).map((result) => bench.keep(result)));
    return losses.reduce((sum, loss) => sum + loss.item(), 0);
  };
  const leaves: Inputs = {};
  for (const [name, tensor] of Object.entries(inputs)) {
    leaves[name] = bench.keep(tensor.clone());
    leaves[name].requiresGrad = true;
  }
  const losses = await weighted((await run(leaves)).map((result) => bench.keep(result)));
  await addon.backward(
    bench.lane,
    losses,
    losses.map(() => 1),
  );
  const step = 1e-5;
  for (const [name, tensor] of Object.entries(inputs)) {
    const grad = leaves[name]!.grad();
    if (!grad) throw new Error(`no gradient of ${name}`);
    const gradValues = Float64Array.from(bench.keep(grad).data(), Number);
    for (const at of [0, Math.floor(tensor.numel / 3), tensor.numel - 1]) {
      const moved = (by: number): Inputs => {
        const values = Float64Array.from(tensor.data(), Number);
        values[at]! += by;
        return { ...inputs, [name]: bench.keep(addon.Tensor.fromData(values, tensor.shape, "f64")) };
      };
      const difference = ((await value(moved(step))) - (await value(moved(-step)))) / (2 * step);
      const error = Math.abs(gradValues[at]! - difference);
      expect(error, `gradient of ${name}[${at}]: ${gradValues[at]} against ${difference}`).toBeLessThan(
        1e-6 * Math.max(1, Math.abs(difference)),
      );
    }
  }
}
