import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { EmaScanInput, NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { testSeed } from "../rl/support.js";
import { expectGradients, type Inputs, Workbench } from "./support.js";

const seed = testSeed("emaScan");
const bench = new Workbench(seed);

async function emaScan(input: EmaScanInput): Promise<{ output: NativeTensor; finalValue: NativeTensor }> {
  const { output, finalValue } = await native().emaScan(bench.lane, input);
  return { output: bench.keep(output), finalValue: bench.keep(finalValue) };
}

function values(tensor: NativeTensor): number[] {
  return Array.from(tensor.data(), Number);
}

describe("emaScan", () => {
  it("computes y_j = P_j x_j + (1 - P_j) y_{j-1}, from x_0 or from the initial value", async () => {
    const x = bench.keep(native().Tensor.fromData([1, 2, 4], [1, 3, 1], "f64"));
    const p = bench.keep(native().Tensor.fromData([0.5, 0.25, 0.5], [1, 3], "f64"));
    const initial = bench.keep(native().Tensor.fromData([3], [1, 1], "f64"));
    expect(values((await emaScan({ x, p })).output)).toEqual([1, 1.25, 2.625]);
    const started = await emaScan({ x, p, initial });
    expect(values(started.output)).toEqual([2, 2, 3]);
    expect(values(started.finalValue)).toEqual([3]);
  });

  it("agrees with the reference, and continues from the final value wherever a sequence is cut", async () => {
    const size = fc.record({
      batch: fc.integer({ min: 1, max: 3 }),
      tokens: fc.integer({ min: 1, max: 20 }),
      width: fc.integer({ min: 1, max: 9 }),
      position: fc.nat(),
    });
    const law = fc.asyncProperty(size, async ({ batch, tokens, width, position }) => {
      const x = bench.normal(batch, tokens, width);
      const p = bench.uniform(0.01, 0.99, batch, tokens);
      const whole = await emaScan({ x, p });
      const reference = await emaScan({ x, p, reference: true });
      expect(whole.output.maxAbsDiff(reference.output)).toBeLessThan(1e-13);
      const cut = 1 + (position % tokens);
      const head = await emaScan({ x: bench.slice(x, 1, 0, cut), p: bench.slice(p, 1, 0, cut) });
      const tail = await emaScan({
        x: bench.slice(x, 1, cut, tokens),
        p: bench.slice(p, 1, cut, tokens),
        initial: head.finalValue,
      });
      expect(bench.cat([head.output, tail.output], 1).maxAbsDiff(whole.output)).toBeLessThan(1e-13);
      expect(tail.finalValue.maxAbsDiff(whole.finalValue)).toBeLessThan(1e-13);
    });
    await fc.assert(law, { seed, numRuns: 20 });
  });

  it("treats packed and padded sequences alike; zero past the length", async () => {
    const x = bench.normal(2, 4, 3);
    const p = bench.uniform(0.01, 0.99, 2, 4);
    const initial = bench.normal(2, 3);
    const padded = await emaScan({ x, p, initial, lengths: bench.i64([4, 1]) });
    const first = (t: NativeTensor, row: number, length: number) =>
      bench.slice(bench.slice(t, 0, row, row + 1), 1, 0, length);
    const packed = await emaScan({
      x: bench.cat([first(x, 0, 4), first(x, 1, 1)], 1),
      p: bench.cat([first(p, 0, 4), first(p, 1, 1)], 1),
      initial,
      cuSeqlens: bench.i64([0, 4, 5]),
    });
    expect(packed.finalValue.equal(padded.finalValue)).toBe(true);
    expect(values(bench.slice(packed.output, 1, 4, 5))).toEqual(values(first(padded.output, 1, 1)));
    const padding = bench.slice(bench.slice(padded.output, 0, 1, 2), 1, 1, 4);
    expect(values(padding)).toEqual(Array(9).fill(0));
  });

  it.each([true, false])(
    "has the gradients that finite differences have (initial value: %s)",
    async (start) => {
      const inputs: Inputs = { x: bench.normal(2, 6, 3), p: bench.uniform(0.1, 0.9, 2, 6) };
      if (start) inputs.initial = bench.normal(2, 3);
      const lengths = bench.i64([6, 2]);
      await expectGradients(bench, inputs, async (given) => {
        const { output, finalValue } = await emaScan({ ...(given as unknown as EmaScanInput), lengths });
        return [output, finalValue];
      });
    },
  );

  it("refuses wrong shapes by the argument's name", async () => {
    const x = bench.normal(2, 3, 4);
    await expect(emaScan({ x, p: bench.normal(2, 4) })).rejects.toEqual(
      expect.objectContaining({ code: "ERR_SHAPE", message: expect.stringMatching(/^emaScan p: /) }),
    );
  });
});
