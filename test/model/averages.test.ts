import { describe, expect, it } from "vitest";
import { AegirForColumnAnnotation } from "../../lib/model/index.js";
import { native } from "../../lib/native/load.js";
import { annotator, dispose, expectClose, values } from "./support.js";

describe("averaged weights", () => {
  it("move by 1 - decay of the way, every parameter, and not the model they are taken of", async () => {
    const [model, average] = [
      annotator("flat", { dtype: "f64", seed: 1 }),
      annotator("flat", { dtype: "f64", seed: 2 }),
    ];
    const read = (of: AegirForColumnAnnotation) => {
      const tensors = of.stateDict();
      const flat = Object.fromEntries(
        Object.entries(tensors).map(([name, tensor]) => [name, values(tensor)]),
      );
      dispose(...Object.values(tensors));
      return flat;
    };
    const [from, before] = [read(model), read(average)];
    await native().averageWeights(model.lane, average.native, model.native, 0.9);
    const after = read(average);
    for (const [name, weights] of Object.entries(from))
      expectClose(
        after[name]!,
        weights.map((w, i) => 0.9 * before[name]![i]! + 0.1 * w),
        name,
        1e-14,
      );
    expect(read(model)).toEqual(from);
    expect(() => native().averageWeights(model.lane, average.native, model.native, 1)).toThrow(
      /decay: expected 0 or more and under 1/,
    );
    dispose(model, average);
  });
});

describe("cross-entropy against distributions", () => {
  it("is its formula, with the gradient (p - q) / R", async () => {
    const model = annotator("flat", { dtype: "f64" });
    const { Tensor } = native();
    const z = [0.3, -1, 2, 0, 0.5, 0.1];
    const q = [0.2, 0.5, 0.3, 1, 0, 0];
    const logits = Tensor.fromData(Float64Array.from(z), [2, 3], "f64");
    const targets = Tensor.fromData(Float64Array.from(q), [2, 3], "f64");
    const { loss } = await native().softCrossEntropy(model.lane, { logits, targets });
    const p = [0, 3].flatMap((start) => {
      const weights = z.slice(start, start + 3).map(Math.exp);
      const total = weights.reduce((a, b) => a + b);
      return weights.map((w) => w / total);
    });
    const plain = -p.reduce((sum, x, i) => sum + q[i]! * Math.log(x), 0) / 2;
    expect(loss.item()).toBeCloseTo(plain, 13);
    const wrong = Tensor.fromData(Float64Array.from([1, 0]), [1, 2], "f64");
    await expect(native().softCrossEntropy(model.lane, { logits, targets: wrong })).rejects.toThrow(
      /targets: expected the shape of logits, \(R,C\)/,
    );
    dispose(logits, targets, loss, wrong, model);
  });

  it("passes the gradient of its formula to the parameters: of one-hot targets that of the labels' cross-entropy", async () => {
    const model = new AegirForColumnAnnotation({
      archLayout: ["w1"],
      dModel: 32,
      headSize: 16,
      numLabels: 3,
      dtype: "f64",
    });
    const { Tensor } = native();
    const inputIds = Tensor.fromData(Int32Array.from([97, 98, 99, 100]), [2, 2], "i64");
    const labels = Tensor.fromData(Int32Array.from([2, 0]), [2], "i64");
    const targets = Tensor.fromData(Float64Array.from([0, 0, 1, 1, 0, 0]), [2, 3], "f64");
    const gradientsOf = async (softly: boolean) => {
      using output = await model.forward({ inputIds }, { grad: true });
      const { logits } = output;
      const { lane } = model;
      const hard = await native().crossEntropy(lane, { logits, labels });
      const soft = await native().softCrossEntropy(lane, { logits, targets });
      await native().backward(lane, [(softly ? soft : hard).loss], [1]);
      const gradients = model.native.gradients();
      const flat = Object.values(gradients).flatMap(values);
      dispose(hard.loss, hard.logp, soft.loss, ...Object.values(gradients));
      return flat;
    };
    const hard = await gradientsOf(false);
    // Gradients accumulate: both together are twice the one.
    expectClose(
      await gradientsOf(true),
      hard.map((g) => 2 * g),
      "gradients",
      1e-13,
    );
    dispose(inputIds, labels, targets, model);
  });
});
