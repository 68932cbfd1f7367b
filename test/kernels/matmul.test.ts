import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { MatmulInput, NativeLane, NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { testSeed } from "../rl/support.js";
import { Workbench } from "./support.js";

const seed = testSeed("matmul");
const bench = new Workbench(seed);

async function multiply(input: MatmulInput, lane: NativeLane = bench.lane): Promise<NativeTensor> {
  return bench.keep(await native().matmul(lane, input));
}

/** The product and the gradients of <product, weights> in every operand. */
async function differentiate(
  { x, weight, addend, ...rest }: MatmulInput,
  weights: NativeTensor,
  lane = bench.lane,
): Promise<NativeTensor[]> {
  const operands = [x, weight, ...(addend ? [addend] : [])].map((tensor) => bench.keep(tensor.clone()));
  for (const operand of operands) operand.requiresGrad = true;
  const result = await multiply(
    { x: operands[0]!, weight: operands[1]!, addend: operands[2], ...rest },
    lane,
  );
  const { loss } = await native().weightedSum(lane, result, weights);
  await native().backward(lane, [bench.keep(loss)], [1]);
  return [result, ...operands.map((operand) => bench.keep(operand.grad()!))];
}

const size = fc.integer({ min: 1, max: 70 });
/** Few rows go to ATen; 97 and 300 are not whole blocks or tiles; 300 deep is more than one block of the depth. */
const rows = fc.constantFrom(1, 7, 8, 13, 96, 97, 300);
const depth = fc.oneof(size, fc.constantFrom(256, 300));

describe("matmul", () => {
  it.each(["f64", "f32"] as const)("has ATen's values and gradients, %s", async (dtype) => {
    const law = fc.asyncProperty(
      fc.record({
        rows,
        depth,
        columns: size,
        transposed: fc.boolean(),
        addend: fc.constantFrom("none", "row", "rows"),
      }),
      async ({ rows, depth, columns, transposed, addend }) => {
        const made = (...shape: number[]) => bench.keep(bench.normal(...shape).to(dtype));
        const input = {
          x: made(rows, depth),
          weight: transposed ? made(columns, depth) : made(depth, columns),
          transposed,
          addend: addend === "none" ? undefined : addend === "row" ? made(columns) : made(rows, columns),
        };
        const weights = made(rows, columns);
        const [ours, plain] = [
          await differentiate(input, weights),
          await differentiate({ ...input, reference: true }, weights),
        ];
        expect(ours.length).toBe(plain.length);
        for (const [i, tensor] of ours.entries()) {
          expect(tensor.shape).toEqual(plain[i]!.shape);
          // Sums of up to 300 products of standard normal numbers, in another order.
          expect(tensor.maxAbsDiff(plain[i]!)).toBeLessThan(dtype === "f64" ? 1e-12 : 1e-3);
        }
      },
    );
    await fc.assert(law, { seed, numRuns: 40 });
  });

  it("gives a row the same bits whatever rows are beside it", async () => {
    const law = fc.asyncProperty(
      depth,
      size,
      fc.integer({ min: 8, max: 40 }),
      async (depth, columns, count) => {
        const x = bench.keep(bench.normal(120, depth).to("f32"));
        const weight = bench.keep(bench.normal(columns, depth).to("f32"));
        const all = await multiply({ x, weight, transposed: true });
        const start = 120 - count;
        const some = await multiply({ x: bench.slice(x, 0, start, 120), weight, transposed: true });
        expect(some.equal(bench.slice(all, 0, start, 120))).toBe(true);
      },
    );
    await fc.assert(law, { seed, numRuns: 20 });
  });

  it("gives the same bits on one thread and on two", async () => {
    const two = new (native().Lane)({ name: "two", threads: 2 });
    try {
      const input = {
        x: bench.keep(bench.normal(700, 90).to("f32")),
        weight: bench.keep(bench.normal(90, 130).to("f32")),
      };
      const weights = bench.keep(bench.normal(700, 130).to("f32"));
      const one = await differentiate(input, weights);
      for (const [i, tensor] of (await differentiate(input, weights, two)).entries())
        expect(tensor.equal(one[i]!)).toBe(true);
    } finally {
      await two.close();
    }
  });

  it("reads columns of a wider matrix where they lie", async () => {
    const wide = bench.normal(40, 30);
    const x = bench.slice(wide, 1, 5, 21);
    const weight = bench.normal(20, 16);
    const [ours, plain] = [
      await multiply({ x, weight, transposed: true }),
      await multiply({ x, weight, transposed: true, reference: true }),
    ];
    expect(ours.maxAbsDiff(plain)).toBeLessThan(1e-12);
  });

  it("names shapes that do not fit", async () => {
    const call = multiply({ x: bench.normal(9, 3), weight: bench.normal(4, 5) });
    await expect(call).rejects.toMatchObject({ code: "ERR_SHAPE", message: /\[9, 3\] and \[4, 5\]/ });
  });
});
