import { describe, expect, it } from "vitest";
import { AegirForColumnAnnotation } from "../../lib/model/index.js";
import { native } from "../../lib/native/load.js";
import { trainSupervised } from "../../lib/train/supervised.js";
import { folder, metricsOf, shortColumns, tinyDataset } from "../train/support.js";
import { dispose, idTensor, indexTensor, values } from "./support.js";

const geometry = { archLayout: ["w2"], dModel: 64, headSize: 32 } as const;
type Precision = "f32" | "bf16";

function modelOf(precision: Precision): AegirForColumnAnnotation {
  return new AegirForColumnAnnotation({ ...geometry, numLabels: 4, precision }, { seed: 5 });
}

/** Logits, state and gradients of one batch. */
async function stepOf(precision: Precision) {
  const model = modelOf(precision);
  const inputIds = idTensor(["Berlin", "12.50", "2024-01-02"].map((text) => [...Buffer.from(text)]));
  const lengths = indexTensor([6, 5, 10]);
  const labels = indexTensor([0, 1, 2]);
  const output = await model.forward({ inputIds, lengths }, { grad: true });
  const { loss, logp } = await native().crossEntropy(model.lane, { logits: output.logits, labels });
  await native().backward(model.lane, [loss], [1]);
  const tensors = {
    ...model.stateDict(),
    ...Object.fromEntries(
      Object.entries(model.native.gradients()).map(([name, tensor]) => [`gradient of ${name}`, tensor]),
    ),
    ...Object.fromEntries(
      Object.entries(output.state.tensors()).map(([name, tensor]) => [`state ${name}`, tensor]),
    ),
    logits: output.logits,
    loss,
  };
  const read = Object.fromEntries(
    Object.entries(tensors).map(([name, tensor]) => [name, { dtype: tensor.dtype, values: values(tensor) }]),
  );
  dispose(inputIds, lengths, labels, logp, ...Object.values(tensors), output, model);
  return read;
}

function distance(a: number[], b: number[]): number {
  const scale = Math.hypot(...b);
  return Math.hypot(...a.map((x, i) => x - b[i]!)) / (scale === 0 ? 1 : scale);
}

describe("bf16 products", () => {
  it("change results by their rounding; all that is kept is f32", async () => {
    const exact = await stepOf("f32");
    const rounded = await stepOf("bf16");
    expect(Object.keys(rounded)).toEqual(Object.keys(exact));
    let different = 0;
    for (const [name, { dtype, values: found }] of Object.entries(rounded)) {
      expect(dtype, name).toBe("f32");
      const away = distance(found, exact[name]!.values);
      expect(away, name).toBeLessThan(0.1);
      if (name.includes("gradient") && away > 1e-4) different++;
    }
    expect(different).toBeGreaterThan(10);
  });

  it("train on the generated task as f32 does, and leave f32 checkpoints that f32 models load", async () => {
    const dataset = await tinyDataset();
    const losses = async (precision: Precision, seed: number) => {
      await using dir = await folder();
      const { model } = await trainSupervised({
        dataset,
        out: dir.path,
        model: { ...geometry, precision },
        serialise: shortColumns,
        steps: 60,
        batchRows: 16,
        validateEvery: 60,
        seed,
      });
      const weights = model.stateDict();
      const exact = new AegirForColumnAnnotation({ ...geometry, labels: model.labels }, { seed: 0 });
      exact.loadStateDict(weights);
      expect(exact.weightsHash()).toBe(model.weightsHash());
      expect(new Set(Object.values(weights).map((tensor) => tensor.dtype))).toEqual(new Set(["f32"]));
      dispose(...Object.values(weights), exact, model);
      const all = (await metricsOf(dir.path)).flatMap(({ loss }) => (typeof loss === "number" ? [loss] : []));
      expect(all).toHaveLength(60);
      const mean = (part: number[]) => part.reduce((sum, loss) => sum + loss, 0) / part.length;
      return { first: mean(all.slice(0, 5)), last: mean(all.slice(-20)) };
    };
    const exact = await losses("f32", 1);
    const rounded = await losses("bf16", 1);
    expect(exact.last).toBeLessThan(0.8 * exact.first);
    // Seed 2 moves the mean of the last losses by 0.08.
    expect(Math.abs(rounded.last - exact.last)).toBeLessThan(0.02 * exact.first);
  });
});
