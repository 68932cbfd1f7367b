import { describe, expect, it } from "vitest";
import { AegirForColumnAnnotation, type AnnotatorOptions } from "../../lib/model/index.js";
import type { NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { backward, tidy } from "../../lib/tensor/index.js";
import { randomOf, testSeed } from "../rl/support.js";
import { randomInputs } from "../swarm/support.js";

const seed = testSeed("recompute");
const layouts: [string, AnnotatorOptions][] = [
  ["flat", { archLayout: ["w2W1"], dModel: 32, headSize: 16, numLabels: 4 }],
  ["nested", { archLayout: ["w1", ["w2"], "W1"], dModel: [32, 48], headSize: 16, numLabels: 4 }],
];

/** Loss and gradients of a fresh model: of its parameters and of the recurrent states that it starts from. */
async function run(options: AnnotatorOptions, recompute: boolean) {
  return tidy(async () => {
    const model = new AegirForColumnAnnotation(options, { seed: 3 });
    const inputs = randomInputs(randomOf(seed), 5, 40);
    const { layers, heads, headSize } = model.geometry.inner;
    const generator = new (native().Generator)(seed);
    const innerKv = Array.from({ length: layers }, () => {
      const state = native().Tensor.randn([5, heads, headSize, headSize], "f32", generator);
      state.requiresGrad = true;
      return state;
    });
    const training = { grad: true, recompute, dropout: { rate: 0.1, seed: 5 } };
    const prefix = await model.prefix(inputs, training);
    const output = await model.rest(prefix, { ...training, innerKv });
    const labels = native().Tensor.fromData(Int32Array.of(0, 1, 2, 3, 0), [5], "i64");
    const { loss } = await native().crossEntropy(model.lane, { logits: output.logits, labels });
    // Final states have gradients too.
    const states = Object.values(output.state.tensors()).map((tensor) => tensor.mul(tensor).reduce("mean"));
    await backward([loss, ...states], undefined, { lane: model.lane });
    const values = (tensor: NativeTensor) => Array.from(tensor.data(), Number);
    const gradients = Object.entries(model.native.gradients()).map(([name, g]) => [name, values(g)] as const);
    const result = { loss: loss.item(), gradients, states: innerKv.map((state) => values(state.grad()!)) };
    inputs.dispose();
    generator.dispose();
    model.dispose();
    return result;
  });
}

function expectNear(actual: number[], expected: number[]): void {
  const scale = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const worst = actual.reduce((most, value, i) => Math.max(most, Math.abs(value - expected[i]!)), 0);
  expect(worst).toBeLessThanOrEqual(1e-5 * scale);
}

describe("recompute", () => {
  it.each(layouts)("gives the same losses, bit for bit, and the same gradients: %s", async (_, options) => {
    const kept = await run(options, false);
    const again = await run(options, true);
    expect(kept.gradients.length).toBeGreaterThan(50);
    expect(again.loss).toBe(kept.loss);
    // Autograd adds the gradients of a value's several uses in another order.
    for (const [i, [name, values]] of again.gradients.entries()) {
      expect(name).toBe(kept.gradients[i]![0]);
      expectNear(values, kept.gradients[i]![1]);
    }
    for (const [i, values] of again.states.entries()) expectNear(values, kept.states[i]!);
  });
});
