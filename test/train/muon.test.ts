import { describe, expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import { AegirForColumnAnnotation } from "../../lib/model/index.js";
import { native } from "../../lib/native/load.js";
import { AdamW, parameterGroups } from "../../lib/train/optimizer.js";
import { type SupervisedRun, trainSupervised } from "../../lib/train/supervised.js";
import { numbers, useLane } from "../rl/nativeSupport.js";
import { expectClose } from "../rl/support.js";
import { abortAt, folder, metricsOf, shortColumns, tinyDataset, tinyModel } from "./support.js";

const t = useLane();

type Matrix = number[][];

const multiply = (a: Matrix, b: Matrix): Matrix =>
  a.map((row) => b[0]!.map((_, j) => row.reduce((sum, x, k) => sum + x * b[k]![j]!, 0)));
const transposed = (a: Matrix): Matrix => a[0]!.map((_, j) => a.map((row) => row[j]!));
const combined = (a: Matrix, x: number, b: Matrix, y: number): Matrix =>
  a.map((row, i) => row.map((value, j) => x * value + y * b[i]![j]!));

/** The iteration as it is written: X ← aX + (bA + cA²)X, A = XXᵀ. */
function reference(matrix: Matrix): Matrix {
  const norm = Math.hypot(...matrix.flat()) + 1e-12;
  let x = matrix.map((row) => row.map((value) => value / norm));
  for (let i = 0; i < 5; i++) {
    const gram = multiply(x, transposed(x));
    const polynomial = combined(gram, -4.775, multiply(gram, gram), 2.0315);
    x = combined(x, 3.4445, multiply(polynomial, x), 1);
  }
  return x;
}

function randomMatrix(rows: number, columns: number, seed: number): Matrix {
  const random = new Random(seed, "matrix");
  return Array.from({ length: rows }, () => Array.from({ length: columns }, () => random.gaussian()));
}

describe("orthogonalise", () => {
  test.each([
    [5, 5],
    [3, 9],
    [12, 4],
    [1, 6],
  ])("(%i,%i): the plain iteration, and singular values near 1", async (rows, columns) => {
    const matrix = randomMatrix(rows, columns, rows);
    const { matrix: result } = await native().orthogonalise(t.lane, t.tensor(matrix.flat(), [rows, columns]));
    const values = numbers(t.keep(result));
    // The wide side's Gram matrix gives the same polynomial of the singular values.
    expectClose(values, reference(matrix).flat(), 1e-9);
    const small = rows <= columns ? matrix : transposed(matrix);
    const own = rows <= columns ? reshape(values, rows, columns) : transposed(reshape(values, rows, columns));
    const gram = multiply(own, transposed(own));
    for (let i = 0; i < small.length; i++) {
      expect(gram[i]![i]!).toBeGreaterThan(0.3);
      expect(gram[i]![i]!).toBeLessThan(1.7);
    }
  });

  test("zero stays zero, and the scale of the matrix does not matter", async () => {
    const zero = await native().orthogonalise(t.lane, t.tensor(Array(12).fill(0), [3, 4]));
    expect(numbers(t.keep(zero.matrix))).toEqual(Array(12).fill(0));
    const matrix = randomMatrix(3, 4, 1).flat();
    const results = await Promise.all(
      [1, 1e4].map((scale) =>
        native().orthogonalise(
          t.lane,
          t.tensor(
            matrix.map((x) => x * scale),
            [3, 4],
          ),
        ),
      ),
    );
    const [one, other] = results.map(({ matrix: result }) => numbers(t.keep(result)));
    expectClose(other!, one!, 1e-9);
  });
});

function reshape(values: number[], rows: number, columns: number): Matrix {
  return Array.from({ length: rows }, (_, i) => values.slice(i * columns, (i + 1) * columns));
}

describe("Muon as the optimiser of a model", () => {
  test("updates the hidden matrices; tables, the classifier and all the rest stay AdamW's", () => {
    using model = new AegirForColumnAnnotation({ ...tinyModel, labels: ["a", "b"] }, { seed: 1 });
    const groups = parameterGroups([{ module: model.native }], 0.01, true);
    const byMuon = groups.filter(({ muon }) => muon).flatMap(({ names }) => names);
    expect(byMuon.length).toBeGreaterThan(5);
    expect(byMuon.every((name) => name.endsWith(".weight"))).toBe(true);
    expect(byMuon.filter((name) => /Embedding|classifier/.test(name))).toEqual([]);
    const all = groups.flatMap(({ names }) => names);
    expect(all.length).toBe(model.native.parameters().length);
    expect(new Set(all).size).toBe(all.length);
    expect(parameterGroups([{ module: model.native }], 0.01).some(({ muon }) => muon)).toBe(false);
  });

  test("one step is momentum, the iteration and Moonlight's scale", async () => {
    using model = new AegirForColumnAnnotation({ ...tinyModel, labels: ["a", "b"] }, { seed: 1 });
    using optimizer = new AdamW([{ module: model.native }], { weightDecay: 0.1, matrices: "muon" });
    const parameters = model.native.stateDict();
    for (const tensor of Object.values(parameters)) t.keep(tensor);
    const weight = parameters["pooler.weight"]!;
    const [rows, columns] = weight.shape as [number, number];
    const before = numbers(weight);
    using output = await model.forward(
      { inputIds: t.tensor([97, 98, 99, 100, 49, 50, 51, 52], [2, 4], "i64") },
      { grad: true },
    );
    const coefficients = t.tensor([1, -2, 0.5, 3], [2, 2], "f32");
    const { loss } = await native().weightedSum(t.lane, output.logits, coefficients);
    await native().backward(t.lane, [t.keep(loss)], [1]);
    const gradients = Object.entries(model.native.gradients()).map(([name, g]) => [name, t.keep(g)] as const);
    const gradient = reshape(numbers(new Map(gradients).get("pooler.weight")!), rows, columns);
    await optimizer.step(t.lane, { lr: 0.02, clipNorm: 0 });
    const direction = reference(gradient.map((row) => row.map((g) => 1.95 * g))).flat();
    const scale = 0.02 * 0.2 * Math.sqrt(Math.max(rows, columns));
    expectClose(
      numbers(weight),
      before.map((w, i) => w * (1 - 0.02 * 0.1) - scale * direction[i]!),
      1e-5,
    );
  });

  test("trains, and resumes to the very numbers of an unbroken run", async () => {
    await using dir = await folder();
    const dataset = await tinyDataset();
    const run: SupervisedRun = {
      dataset,
      model: tinyModel,
      serialise: shortColumns,
      optimizer: "muon",
      steps: 60,
      lr: 5e-3,
      batchRows: 32,
      validateEvery: 30,
      saveEvery: 15,
      seed: 1,
      task: "muon",
    };
    const whole = await trainSupervised({ ...run, out: `${dir.path}/whole` });
    const part = trainSupervised({ ...run, out: `${dir.path}/broken`, ...abortAt("muon", 22) });
    await expect(part).rejects.toMatchObject({ code: "ERR_ABORTED" });
    const resumed = await trainSupervised({ dataset, out: `${dir.path}/broken`, resume: true, task: "muon" });
    expect(resumed.model.weightsHash()).toBe(whole.model.weightsHash());
    const losses = (await metricsOf(`${dir.path}/whole`)).flatMap(({ kind, loss }) =>
      kind === "train" ? [loss as number] : [],
    );
    const mean = (values: number[]) => values.reduce((sum, value) => sum + value / values.length, 0);
    expect(mean(losses.slice(-5))).toBeLessThan(0.8 * mean(losses.slice(0, 3)));
    whole.model.dispose();
    resumed.model.dispose();
  });
});
