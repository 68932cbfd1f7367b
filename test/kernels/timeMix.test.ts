import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Dtype, NativeTensor, TimeMixInput } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { testSeed } from "../rl/support.js";
import { Workbench } from "./support.js";

const seed = testSeed("timeMix");
const bench = new Workbench(seed);
/** Summation order differs between kernel and reference, and exp by a few units in the last place. */
const TOLERANCE = { f64: 1e-11, f32: 2e-4 };

type Operands = Omit<TimeMixInput, "operator" | "tensors" | "reference">;
interface Size {
  rows: number;
  heads: number;
  headSize: number;
}

/** Shapes of the operands of one size: K tokens, H heads of N. */
const OPERATORS: Record<TimeMixInput["operator"], (size: Size & { width: number }) => number[][]> = {
  tokenShiftMix: ({ rows, width }) => [
    [rows, width],
    [6, width],
  ],
  decayFromLogits: ({ rows, width }) => [[rows, width]],
  valueResidual: ({ rows, width }) => [
    [rows, width],
    [rows, width],
    [rows, width],
  ],
  squaredRelu: ({ rows, width }) => [[rows, width]],
  keyNormalise: ({ rows, width }) => [[rows, width], [rows, width], [width], [width]],
  groupNormBonusGate: ({ rows, heads, headSize, width }) => [
    ...Array.from({ length: 5 }, () => [rows, width]),
    [heads, headSize],
    [width],
    [width],
  ],
};

/** Outputs, and gradients of sum_i <outputs_i, weights_i> in every operand; `weights` are made where absent. */
async function differentiate(
  input: TimeMixInput,
  weights: NativeTensor[],
): Promise<{ outputs: NativeTensor[]; grads: NativeTensor[] }> {
  const addon = native();
  const leaves = input.tensors.map((tensor) => bench.keep(tensor.clone()));
  for (const leaf of leaves) leaf.requiresGrad = true;
  const { outputs } = await addon.timeMix(bench.lane, { ...input, tensors: leaves });
  const losses: NativeTensor[] = [];
  for (const [i, output] of outputs.entries()) {
    bench.keep(output);
    weights[i] ??= bench.keep(bench.normal(...output.shape).to(output.dtype));
    losses.push(bench.keep((await addon.weightedSum(bench.lane, output, weights[i])).loss));
  }
  await addon.backward(
    bench.lane,
    losses,
    losses.map(() => 1),
  );
  const grads = leaves.map((leaf, i) => {
    const grad = leaf.grad();
    if (!grad) throw new Error(`no gradient of operand ${i}`);
    return bench.keep(grad);
  });
  return { outputs, grads };
}

async function expectAgreement(input: TimeMixInput, tolerance: number): Promise<void> {
  const weights: NativeTensor[] = [];
  const kernel = await differentiate(input, weights);
  const reference = await differentiate({ ...input, reference: true }, weights);
  expect(kernel.outputs.length).toBe(reference.outputs.length);
  for (const kind of ["outputs", "grads"] as const) {
    for (const [i, tensor] of kernel[kind].entries()) {
      const error = tensor.maxAbsDiff(reference[kind][i]!);
      expect(error, `${kind} ${i} of ${input.operator}`).toBeLessThan(tolerance);
    }
  }
}

const sizes = fc.record({
  rows: fc.integer({ min: 1, max: 20 }),
  heads: fc.integer({ min: 1, max: 3 }),
  headSize: fc.constantFrom(5, 16, 32), // 5: the fall-back to the reference
  cut: fc.nat(),
  carried: fc.boolean(),
});

describe.each(Object.keys(OPERATORS) as TimeMixInput["operator"][])("%s", (operator) => {
  it.each<"f64" | "f32">(["f64", "f32"])(
    "agrees with the reference, gradients too, in %s",
    async (dtype: Dtype) => {
      const law = fc.asyncProperty(sizes, async ({ rows, heads, headSize, cut, carried }) => {
        const size = { rows, heads, headSize, width: heads * headSize };
        const operand = (shape: number[]) => bench.keep(bench.normal(...shape).to(dtype));
        const more: Operands = { headSize };
        if (operator === "tokenShiftMix") {
          more.cuSeqlens = bench.i64([0, cut % (rows + 1), rows]); // either sequence may be empty
          if (carried) more.carried = operand([2, size.width]);
        }
        const tensors = OPERATORS[operator](size).map(operand);
        await expectAgreement({ operator, tensors, ...more }, TOLERANCE[dtype as "f64"]);
      });
      await fc.assert(law, { seed, numRuns: 12 });
    },
  );
});

describe("decayFromLogits", () => {
  it("stays in [exp(-exp(-0.5)), 1] for any logit", async () => {
    const z = bench.keep(native().Tensor.fromData([-1e30, -90, -1, 0, 1, 90, 1e30, 0], [1, 8], "f32"));
    const { outputs } = await native().timeMix(bench.lane, { operator: "decayFromLogits", tensors: [z] });
    const decay = Array.from(bench.keep(outputs[0]!).data(), Number);
    const lowest = Math.exp(-Math.exp(-0.5));
    expect(decay[0]).toBe(1);
    expect(decay[6]).toBeCloseTo(lowest, 6);
    expect(decay[3]).toBeCloseTo(Math.exp(-Math.exp(-0.5) / 2), 6);
    for (const value of decay) {
      expect(value).toBeGreaterThanOrEqual(lowest - 1e-6);
      expect(value).toBeLessThanOrEqual(1);
    }
  });
});
