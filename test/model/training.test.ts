import { afterAll, describe, expect, it } from "vitest";
import { AegirForColumnAnnotation } from "../../lib/model/index.js";
import type { NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { AdamW, parameterGroups } from "../../lib/train/optimizer.js";
import {
  annotator,
  causalLM,
  dispose,
  expectClose,
  idTensor,
  indexTensor,
  rowValues,
  values,
} from "./support.js";

const rows = [
  "Berlin",
  "Paris",
  "12.50",
  "99.95",
  "2024-01-02",
  "1999-12-31",
  "+49 30 1234",
  "+33 1 999",
].map((text) => [...Buffer.from(text)]);
const labels = [0, 0, 1, 1, 2, 2, 3, 3];

/** Loss of the batch, with gradients accumulated where wanted. */
async function lossOf(model: AegirForColumnAnnotation, grad: boolean): Promise<number> {
  const inputIds = idTensor(rows);
  const lengths = indexTensor(rows.map((row) => row.length));
  const target = indexTensor(labels);
  const output = await model.forward({ inputIds, lengths }, { grad });
  const { loss, logp } = await native().crossEntropy(model.lane, { logits: output.logits, labels: target });
  if (grad)
    // A flat layout has no routing module; its ratio loss is a zero that takes part all the same.
    await native().backward(model.lane, [loss, output.ratioLoss], [1, 0.03]);
  const value = loss.item();
  dispose(inputIds, lengths, target, output, loss, logp);
  return value;
}

describe("training", () => {
  it.each([
    ["flat", { archLayout: ["w2"], dModel: 64, headSize: 32 }],
    ["chunked", { archLayout: ["w1", ["w1"], "w1"], dModel: [32, 48], headSize: 16 }],
  ] as const)("30 steps of a tiny task bring the loss near zero, %s", async (_, geometry) => {
    const model = new AegirForColumnAnnotation({ ...geometry, numLabels: 4 }, { seed: 3 });
    const optimizer = new AdamW([{ module: model.native }]);
    const before = await lossOf(model, false);
    expect(before).toBeGreaterThan(1);
    for (let step = 0; step < 30; step++) {
      await lossOf(model, true);
      const result = await optimizer.step(model.lane, { lr: 5e-3, clipNorm: 1 });
      expect(result.skipped).toBe(false);
      expect(result.gradNorm).toBeGreaterThan(0);
    }
    expect(await lossOf(model, false)).toBeLessThan(0.1);
    dispose(optimizer, model);
  });

  it("a frozen model does not change and gets no gradients", async () => {
    const model = annotator("flat");
    model.freeze();
    const hash = model.weightsHash();
    const inputIds = idTensor(rows);
    const output = await model.forward({ inputIds }, { grad: true });
    expect(output.logits.requiresGrad).toBe(false);
    expect(model.frozen).toBe(true);
    expect(model.weightsHash()).toBe(hash);
    dispose(inputIds, output, model);
  });
});

describe("AdamW", () => {
  const model = annotator("chunked");
  afterAll(() => model.dispose());

  interface Plain {
    p: number[];
    m: number[];
    v: number[];
  }

  /** The update of one parameter in plain arithmetic of f64. */
  function plainStep(state: Plain, g: number[], t: number, lr: number, wd: number): Plain {
    const [b1, b2, eps] = [0.9, 0.99, 1e-8];
    const m = state.m.map((x, i) => b1 * x + (1 - b1) * g[i]!);
    const v = state.v.map((x, i) => b2 * x + (1 - b2) * g[i]! ** 2);
    const p = state.p.map((x, i) => {
      const mean = m[i]! / (1 - b1 ** t);
      const square = v[i]! / (1 - b2 ** t);
      return x * (1 - lr * wd) - (lr * mean) / (Math.sqrt(square) + eps);
    });
    return { p, m, v };
  }

  function snapshot(tensors: Record<string, NativeTensor>): Map<string, number[]> {
    const result = new Map(Object.entries(tensors).map(([name, tensor]) => [name, values(tensor)]));
    dispose(...Object.values(tensors));
    return result;
  }

  it("gives what the formula gives, group by group, with the norm clipped", async () => {
    const wide = annotator("chunked", { dtype: "f64" });
    const optimizer = new AdamW([{ module: wide.native, lrScale: 0.5 }], { weightDecay: 0.1 });
    const group = new Map(wide.parameters().map((info) => [info.name, info.group]));
    const plain = new Map<string, Plain>();
    for (const [name, p] of snapshot(wide.stateDict()))
      plain.set(name, { p, m: p.map(() => 0), v: p.map(() => 0) });
    const clipNorm = 0.5;
    for (let t = 1; t <= 3; t++) {
      await lossOf(wide, true);
      const gradients = snapshot(wide.native.gradients());
      const { gradNorm } = await optimizer.step(wide.lane, { lr: 0.01 * t, clipNorm });
      const norm = Math.sqrt([...gradients.values()].flat().reduce((sum, g) => sum + g * g, 0));
      expect(gradNorm).toBeCloseTo(norm, 10);
      const scale = Math.min(1, clipNorm / (norm + 1e-6));
      for (const [name, g] of gradients) {
        const lr = 0.01 * t * 0.5 * (group.get(name) === "decayBase" ? 2 : 1);
        const wd = group.get(name) === "matrix" ? 0.1 : 0;
        plain.set(
          name,
          plainStep(
            plain.get(name)!,
            g.map((x) => x * scale),
            t,
            lr,
            wd,
          ),
        );
      }
      expect(Object.keys(wide.native.gradients())).toEqual([]);
    }
    for (const [name, p] of snapshot(wide.stateDict())) expectClose(p, plain.get(name)!.p, name, 1e-11);
    dispose(optimizer, wide);
  });

  it("a gradient that is not finite changes nothing and is cleared", async () => {
    const optimizer = new AdamW([{ module: model.native }]);
    await lossOf(model, true);
    await optimizer.step(model.lane, { lr: 1e-3, clipNorm: 1 });
    const hash = model.weightsHash();
    const moments = snapshot(optimizer.stateDict());
    const inputIds = idTensor(rows);
    const output = await model.forward({ inputIds }, { grad: true });
    const infinite = output.logits.mul(Number.POSITIVE_INFINITY);
    const loss = infinite.reduce("sum");
    await native().backward(model.lane, [loss], [1]);
    const result = await optimizer.step(model.lane, { lr: 1e-3, clipNorm: 1 });
    expect(result.skipped).toBe(true);
    expect(model.weightsHash()).toBe(hash);
    expect(snapshot(optimizer.stateDict())).toEqual(moments);
    expect(Object.keys(model.native.gradients())).toEqual([]);
    dispose(optimizer, inputIds, output, infinite, loss);
  });

  it("goes on from a saved state to the same bits", async () => {
    const run = async (interrupted: boolean) => {
      const trained = annotator("flat", { seed: 9 });
      let optimizer = new AdamW([{ module: trained.native }]);
      for (let step = 0; step < 4; step++) {
        if (interrupted && step === 2) {
          const saved = optimizer.stateDict();
          optimizer.dispose();
          optimizer = new AdamW([{ module: trained.native }]);
          optimizer.loadStateDict(saved);
          dispose(...Object.values(saved));
        }
        await lossOf(trained, true);
        await optimizer.step(trained.lane, { lr: 1e-2, clipNorm: 1 });
      }
      const hash = trained.weightsHash();
      dispose(optimizer, trained);
      return hash;
    };
    expect(await run(true)).toBe(await run(false));
  });

  it("refuses a state of other parameters and keeps its own", () => {
    const optimizer = new AdamW([{ module: model.native }]);
    const other = annotator("flat");
    const foreign = new AdamW([{ module: other.native }]);
    const state = foreign.stateDict();
    expect(() => optimizer.loadStateDict(state)).toThrow(/optimiser state: 'step'/);
    const own = optimizer.stateDict();
    const { step, ...missing } = own;
    expect(() => optimizer.loadStateDict(missing)).toThrow(/'step' is missing/);
    dispose(step, other, foreign, optimizer, ...Object.values(missing), ...Object.values(state));
  });

  it("puts every parameter in exactly one group", () => {
    const groups = parameterGroups([{ module: model.native }], 0.1);
    const names = groups.flatMap((group) => group.names);
    expect([...names].sort()).toEqual(
      model
        .parameters()
        .map(({ name }) => name)
        .sort(),
    );
  });
});

describe("cross-entropy", () => {
  const lane = causalLM("flat");
  afterAll(() => lane.dispose());
  const logits = [1, 2, 3, 0, -1, 0.5, 2, 2, 2];
  const logSoftmax = (row: number[]) => {
    const total = Math.log(row.reduce((sum, x) => sum + Math.exp(x), 0));
    return row.map((x) => x - total);
  };

  it("smooths labels, weighs rows, leaves rows out, whatever they hold", async () => {
    const data = [...logits];
    data.splice(3, 3, Number.NaN, Number.NaN, Number.NaN);
    const x = native().Tensor.fromData(Float64Array.from(data), [3, 3], "f64");
    x.requiresGrad = true;
    const target = indexTensor([2, -100, 0]);
    const weights = native().Tensor.fromData(Float64Array.of(1, 5, 3), [3], "f64");
    const input = { logits: x, labels: target, labelSmoothing: 0.1, weights };
    const { loss, logp } = await native().crossEntropy(lane.lane, input);
    const rowLoss = (row: number[], label: number) => {
      const lp = logSoftmax(row);
      return -0.9 * lp[label]! - (0.1 / 3) * lp.reduce((a, b) => a + b);
    };
    const expected = (rowLoss(logits.slice(0, 3), 2) + 3 * rowLoss(logits.slice(6), 0)) / 4;
    expect(loss.item()).toBeCloseTo(expected, 12);
    expectClose(values(logp), [logSoftmax([1, 2, 3])[2]!, 0, -Math.log(3)], "logp", 1e-12);
    await native().backward(lane.lane, [loss], [1]);
    const grad = x.grad()!;
    // d/dlogit of the weighted mean: w / sum w * (softmax - smoothed target).
    const soft = logSoftmax([1, 2, 3]).map(Math.exp);
    const smoothed = [0.1 / 3, 0.1 / 3, 0.9 + 0.1 / 3];
    expectClose(
      rowValues(grad, 0),
      soft.map((s, i) => (s - smoothed[i]!) / 4),
      "gradient",
      1e-12,
    );
    expect(rowValues(grad, 1)).toEqual([0, 0, 0]);
    dispose(x, target, weights, loss, logp, grad);
  });

  it("with every row left out is zero with a zero gradient", async () => {
    const x = native().Tensor.fromData(Float64Array.from(logits), [3, 3], "f64");
    x.requiresGrad = true;
    const target = indexTensor([-100, -100, -100]);
    const { loss, logp } = await native().crossEntropy(lane.lane, { logits: x, labels: target });
    expect(loss.item()).toBe(0);
    await native().backward(lane.lane, [loss], [1]);
    const grad = x.grad()!;
    expect(values(grad).every((g) => g === 0)).toBe(true);
    dispose(x, target, loss, logp, grad);
  });

  it("labels outside the classes are refused", async () => {
    const x = native().Tensor.fromData(Float64Array.from(logits), [3, 3], "f64");
    const target = indexTensor([0, 3, 1]);
    const result = native().crossEntropy(lane.lane, { logits: x, labels: target });
    await expect(result).rejects.toThrow(/labels: every label must lie in 0\.\.2 or be -100; got 0 to 3/);
    dispose(x, target);
  });
});
