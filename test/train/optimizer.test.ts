import { describe, expect, test } from "vitest";
import type { AegirForColumnAnnotation } from "../../lib/model/index.js";
import type { NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { AdamW, type AdamWOptions, parameterGroups } from "../../lib/train/optimizer.js";
import { Scope } from "../../lib/train/tensors.js";
import { annotator, idTensor, indexTensor } from "../model/support.js";

const rows = ["Berlin", "Paris", "12.50", "99.95", "2024-01-02", "+49 30 1234"].map((text) => [
  ...Buffer.from(text),
]);

const modelOf = (dtype: "f32" | "f64") => annotator("chunked", { dtype, seed: 4 });

const muonOf = (model: AegirForColumnAnnotation, options: AdamWOptions = {}, lrScale = 1) =>
  new AdamW([{ module: model.native, lrScale }], { ...options, matrices: "muon" });

/** Leaves the gradients of a classification loss in the model. */
async function gradients(model: AegirForColumnAnnotation): Promise<void> {
  using scope = new Scope();
  const inputIds = scope.keep(idTensor(rows));
  const lengths = scope.keep(indexTensor(rows.map((row) => row.length)));
  const labels = scope.keep(indexTensor(rows.map((_, i) => i % 5)));
  const output = scope.keep(await model.forward({ inputIds, lengths }, { grad: true }));
  const { loss, logp } = await native().crossEntropy(model.lane, { logits: output.logits, labels });
  scope.keep(loss);
  scope.keep(logp);
  await native().backward(model.lane, [loss, output.ratioLoss], [1, 0.1]);
}

function take(tensors: Record<string, NativeTensor>): Map<string, { shape: number[]; data: number[] }> {
  const taken = new Map<string, { shape: number[]; data: number[] }>();
  for (const [name, tensor] of Object.entries(tensors)) {
    taken.set(name, { shape: tensor.shape, data: Array.from(tensor.data() as Float64Array, Number) });
    tensor.dispose();
  }
  return taken;
}

type Matrix = number[][];
const toMatrix = (data: number[], [rows, width]: [number, number]): Matrix =>
  Array.from({ length: rows }, (_, i) => data.slice(i * width, (i + 1) * width));
const multiply = (a: Matrix, b: Matrix): Matrix =>
  a.map((row) => b[0]!.map((_, j) => row.reduce((sum, x, k) => sum + x * b[k]![j]!, 0)));
const transpose = (a: Matrix): Matrix => a[0]!.map((_, j) => a.map((row) => row[j]!));
const combine = (a: Matrix, x: number, b: Matrix, y: number): Matrix =>
  a.map((row, i) => row.map((value, j) => x * value + y * b[i]![j]!));
const norm = (a: Matrix): number => Math.sqrt(a.flat().reduce((sum, x) => sum + x * x, 0));

/** Newton–Schulz by the formula, always on X with X·Xᵀ: the side is the reference's own choice. */
function orthogonalise(g: Matrix, iterations: number): Matrix {
  const length = norm(g) + 1e-12;
  let x = g.map((row) => row.map((value) => value / length));
  for (let i = 0; i < iterations; i++) {
    const gram = multiply(x, transpose(x));
    const polynomial = combine(gram, -4.775, multiply(gram, gram), 2.0315);
    x = combine(x, 3.4445, multiply(polynomial, x), 1);
  }
  return x;
}

describe("a step of Muon and AdamW", () => {
  test("gives what the formulas give in float64, over two steps, clipped and decayed", async () => {
    using model = modelOf("f64");
    using optimizer = muonOf(model, { weightDecay: 0.1, momentum: 0.9 }, 0.5);
    const groups = parameterGroups([{ module: model.native }], 0.1, true);
    const orthogonal = new Set(groups.filter((g) => g.muon).flatMap((g) => g.names));
    const group = new Map(model.parameters().map((info) => [info.name, info.group]));
    const state = take(model.stateDict());
    const zero = (n: number) => new Array<number>(n).fill(0);
    const m = new Map([...state].map(([name, { data }]) => [name, zero(data.length)]));
    const v = new Map([...state].map(([name, { data }]) => [name, zero(data.length)]));
    const clipNorm = 0.5;
    for (let t = 1; t <= 2; t++) {
      await gradients(model);
      const taken = take(model.native.gradients());
      const { gradNorm } = await optimizer.step(model.lane, { lr: 0.01 * t, clipNorm });
      const total = Math.sqrt([...taken.values()].flatMap(({ data }) => data).reduce((s, g) => s + g * g, 0));
      expect(gradNorm).toBeCloseTo(total, 10);
      const scale = Math.min(1, clipNorm / (total + 1e-6));
      for (const [name, { shape, data }] of taken) {
        const p = state.get(name)!;
        const g = data.map((x) => x * scale);
        const lr = 0.01 * t * 0.5 * (group.get(name) === "decayBase" ? 2 : 1);
        const decay = group.get(name) === "matrix" ? 1 - lr * 0.1 : 1;
        if (orthogonal.has(name)) {
          const momentum = m.get(name)!.map((x, i) => 0.9 * x + g[i]!);
          m.set(name, momentum);
          const nesterov = g.map((x, i) => x + 0.9 * momentum[i]!);
          const update = orthogonalise(toMatrix(nesterov, shape as [number, number]), 5).flat();
          const size = 0.2 * Math.sqrt(Math.max(...shape));
          p.data = p.data.map((x, i) => x * decay - lr * size * update[i]!);
        } else {
          m.set(
            name,
            m.get(name)!.map((x, i) => 0.9 * x + 0.1 * g[i]!),
          );
          v.set(
            name,
            v.get(name)!.map((x, i) => 0.99 * x + 0.01 * g[i]! ** 2),
          );
          p.data = p.data.map((x, i) => {
            const mean = m.get(name)![i]! / (1 - 0.9 ** t);
            const square = v.get(name)![i]! / (1 - 0.99 ** t);
            return x * decay - (lr * mean) / (Math.sqrt(square) + 1e-8);
          });
        }
      }
    }
    for (const [name, { data }] of take(model.stateDict())) {
      const expected = state.get(name)!.data;
      const difference = Math.max(...data.map((x, i) => Math.abs(x - expected[i]!)));
      expect(difference, name).toBeLessThan(1e-10);
    }
  });

  test("goes on from a saved state to the same bits", async () => {
    const run = async (interrupted: boolean) => {
      using model = modelOf("f32");
      let optimizer = muonOf(model);
      for (let step = 0; step < 4; step++) {
        if (interrupted && step === 2) {
          const saved = optimizer.stateDict();
          optimizer.dispose();
          optimizer = muonOf(model);
          optimizer.loadStateDict(saved);
          for (const tensor of Object.values(saved)) tensor.dispose();
        }
        await gradients(model);
        await optimizer.step(model.lane, { lr: 1e-2, clipNorm: 1 });
      }
      optimizer.dispose();
      return model.weightsHash();
    };
    expect(await run(true)).toBe(await run(false));
  });

  test("a state that lacks a momentum, and a group that is no matrix, are refused by name", () => {
    using model = modelOf("f32");
    using optimizer = muonOf(model);
    using scope = new Scope();
    const state = optimizer.stateDict();
    for (const tensor of Object.values(state)) scope.keep(tensor);
    const name = "0.backbone.stage0.encoder.0.timeMix.key.weight.momentum";
    const { [name]: _, ...rest } = state;
    expect(() => optimizer.loadStateDict(rest)).toThrow(new RegExp(`tensor '${name}' is missing`));
    const options = { beta1: 0.9, beta2: 0.99, eps: 1e-8, momentum: 0.9 };
    const wrong = { module: model.native, lrScale: 1, weightDecay: 0, muon: true };
    expect(() => native().createAdamW([{ ...wrong, names: ["classifier.bias"] }], options)).toThrow(
      /'0.classifier.bias' of shape \[5\] is no matrix/,
    );
  });
});
