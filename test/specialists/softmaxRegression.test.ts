import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { gramOf, sparseGram } from "../../lib/specialists/gram.js";
import { crossEntropy, fitRows, fitSoftmax } from "../../lib/specialists/softmaxRegression.js";
import { timesDense, transposed, transposedTimesDense } from "../../lib/specialists/sparse.js";
import { randomOf, testSeed } from "../rl/support.js";
import { expectError } from "../swarm/support.js";
import { sparse } from "./support.js";

interface Golden {
  x: number[][];
  y: number[];
  classes: number;
  cases: { c: number; weight: number[][]; bias: number[]; logProbabilities: number[][] }[];
}
const golden = JSON.parse(
  readFileSync(new URL("../golden/softmax-regression.json", import.meta.url), "utf8"),
) as Golden;

function randomRows(seed: number, rows: number, columns: number): number[][] {
  const random = randomOf(seed);
  return Array.from({ length: rows }, () =>
    Array.from({ length: columns }, () => (random() < 0.4 ? 2 * random() - 1 : 0)),
  );
}

describe("softmax regression", () => {
  it.each(
    golden.cases.flatMap((each) => [
      { ...each, form: "sparse", digits: 4 },
      { ...each, form: "dense", digits: 2 },
    ]),
  )(
    "agrees with scikit-learn at C = $c, $form",
    async ({ c, weight, bias, logProbabilities, form, digits }) => {
      const x = sparse(golden.x);
      const { classes } = golden;
      using gram = form === "sparse" ? sparseGram(x) : gramOf(x);
      const fit = await fitRows(gram, golden.y, classes, { c, tolerance: 1e-7 });
      const found = transposedTimesDense(x, fit.rows, classes);
      for (const [i, value] of weight.flat().entries()) expect(found[i]).toBeCloseTo(value, digits);
      // The biases are not penalised: only their differences mean anything.
      for (const [k, value] of bias.entries())
        expect(fit.bias[k]! - fit.bias[0]!).toBeCloseTo(value - bias[0]!, digits);
      for (const [i, row] of logProbabilities.entries()) {
        const logits = fit.logits.subarray(i * classes, (i + 1) * classes);
        const norm = Math.log(logits.reduce((sum, z) => sum + Math.exp(z), 0));
        for (const [k, value] of row.entries()) expect(logits[k]! - norm).toBeCloseTo(value, digits);
      }
    },
  );

  it("has the loss's gradient", () => {
    const seed = testSeed("softmax regression");
    const random = randomOf(seed);
    const [rows, classes, eps] = [5, 3, 1e-6];
    const logits = Float64Array.from({ length: rows * classes }, () => 4 * random() - 2);
    const labels = Int32Array.from({ length: rows }, () => Math.floor(random() * classes));
    const weights = Float64Array.from({ length: rows }, random);
    const loss = (at: Float64Array) => crossEntropy(at, labels, weights, new Float64Array(at.length));
    const probabilities = new Float64Array(logits.length);
    crossEntropy(logits, labels, weights, probabilities);
    for (let i = 0; i < logits.length; i++) {
      const row = Math.floor(i / classes);
      const analytic = probabilities[i]! - (labels[row] === i % classes ? weights[row]! : 0);
      const [up, down] = [logits.slice(), logits.slice()];
      up[i]! += eps;
      down[i]! -= eps;
      expect(analytic, `seed ${seed}`).toBeCloseTo((loss(up) - loss(down)) / (2 * eps), 6);
    }
  });

  it("ends where the objective of the weights is flat, by finite differences", async () => {
    const seed = testSeed("softmax regression");
    const [rows, columns, classes, c] = [30, 6, 3, 2];
    const x = sparse(randomRows(seed, rows, columns));
    const labels = Int32Array.from({ length: rows }, (_, i) => i % classes);
    const fit = await fitSoftmax(x, labels, classes, { c, tolerance: 1e-6 });
    const objective = (weight: Float64Array, bias: Float64Array) => {
      const start = Float64Array.from({ length: rows * classes }, (_, i) => bias[i % classes]!);
      const logits = timesDense(x, weight, classes, start);
      const ones = new Float64Array(rows).fill(1);
      const squared = weight.reduce((sum, w) => sum + w * w, 0);
      return crossEntropy(logits, labels, ones, new Float64Array(logits.length)) + squared / (2 * c);
    };
    expect(objective(fit.weight, fit.bias), `seed ${seed}`).toBeCloseTo(fit.objective, 4);
    const eps = 1e-4;
    for (const [part, other] of [[fit.weight, fit.bias] as const, [fit.bias, fit.weight] as const]) {
      for (let i = 0; i < part.length; i++) {
        const at = (step: number) => {
          const moved = part.slice();
          moved[i]! += step;
          return part === fit.weight ? objective(moved, other) : objective(other, moved);
        };
        expect((at(eps) - at(-eps)) / (2 * eps), `seed ${seed}`).toBeCloseTo(0, 3);
      }
    }
  });

  it("leaves rows of weight 0 out, and says their logits", async () => {
    const seed = testSeed("softmax regression");
    const rows = randomRows(seed, 24, 8);
    const labels = rows.map((_, i) => i % 3);
    const weights = rows.map((_, i) => (i < 6 ? 0 : 1));
    const x = sparse(rows);
    using gram = gramOf(x);
    const all = await fitRows(gram, labels, 3, { c: 3, weights, tolerance: 1e-6 });
    const few = await fitSoftmax(sparse(rows.slice(6)), labels.slice(6), 3, { c: 3, tolerance: 1e-6 });
    const start = Float64Array.from({ length: 24 * 3 }, (_, i) => few.bias[i % 3]!);
    const expected = timesDense(x, few.weight, 3, start);
    for (const [i, logit] of all.logits.entries()) expect(logit, `seed ${seed}`).toBeCloseTo(expected[i]!, 3);
    expect(transposedTimesDense(x, all.rows, 3).length).toBe(8 * 3);
  });

  it("multiplies by X Xᵀ in both forms alike", async () => {
    const seed = testSeed("softmax regression");
    const x = sparse(randomRows(seed, 17, 9));
    const a = Float64Array.from({ length: 17 * 2 }, (_, i) => Math.sin(i));
    using dense = gramOf(x);
    const [one, other] = [await dense.multiply(a, 2), await sparseGram(x).multiply(a, 2)];
    for (const [i, value] of one.entries()) expect(value, `seed ${seed}`).toBeCloseTo(other[i]!, 5);
    expect(transposed(transposed(x))).toEqual(x);
  });

  it("names what does not fit", async () => {
    const x = sparse([
      [1, 0],
      [0, 1],
    ]);
    const options = { c: 1 };
    await expect(fitSoftmax(x, [0], 2, options)).rejects.toThrow(
      expectError("ERR_ARGUMENT", /for each of 2 rows, got 1/),
    );
    await expect(fitSoftmax(x, [0, 2], 2, options)).rejects.toThrow(
      expectError("ERR_ARGUMENT", /from 0 to 1, got 2/),
    );
    await expect(fitSoftmax(x, [0, 1], 2, { c: 0 })).rejects.toThrow(
      expectError("ERR_ARGUMENT", /c: .* got 0/),
    );
    await expect(fitSoftmax(sparse([]), [], 2, options)).rejects.toThrow(
      expectError("ERR_ARGUMENT", /at least one row/),
    );
    const signal = AbortSignal.abort();
    await expect(fitSoftmax(x, [0, 1], 2, { c: 1, signal })).rejects.toThrow(
      expectError("ERR_ABORTED", /0 steps/),
    );
  });
});
