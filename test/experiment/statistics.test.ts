import { expect, test } from "vitest";
import { estimate, pairedDifference, studentQuantile } from "../../lib/experiment/interval.js";
import { mutualInformation } from "../../lib/experiment/mutualInformation.js";

test("Student's t quantiles are those of the tables", () => {
  const table: [df: number, quantile: number][] = [
    [1, 12.7062],
    [2, 4.30265],
    [3, 3.18245],
    [4, 2.77645],
    [9, 2.26216],
    [30, 2.04227],
  ];
  for (const [df, quantile] of table) expect(studentQuantile(0.975, df), `df ${df}`).toBeCloseTo(quantile, 4);
  expect(studentQuantile(0.95, 5)).toBeCloseTo(2.01505, 4);
});

test("the interval of a mean, and of paired differences", () => {
  // s = 1, so half = 4.30265/√3.
  expect(estimate([1, 2, 3])).toMatchObject({ mean: 2, half: expect.closeTo(2.48414, 4) });
  expect(estimate([5]).half).toBeNull();
  const { mean, half, values } = pairedDifference([3, 5, 7], [2, 3, 4]);
  expect(values).toEqual([1, 2, 3]);
  expect(mean).toBe(2);
  expect(half).toBeCloseTo(2.48414, 4);
});

test("mutual information of hand-computed joint distributions, in bits", () => {
  const a = [0, 0, 1, 1];
  expect(mutualInformation(a, ["x", "x", "y", "y"])).toMatchObject({ bits: 1, entropyA: 1, entropyB: 1 });
  expect(mutualInformation(a, ["x", "y", "x", "y"]).bits).toBeCloseTo(0, 12);
  // p(0,x) = 1/2, p(1,x) = 1/4, p(1,y) = 1/4: 1 + h(1/4) − 3/2.
  const expected = 1 + (0.25 * 2 + 0.75 * Math.log2(4 / 3)) - 1.5;
  expect(mutualInformation(a, ["x", "x", "x", "y"]).bits).toBeCloseTo(expected, 12);
});

test("the shuffled baseline is what the estimator says of independent variables", () => {
  // 4 × 4 cells over 200 pairs: the bias is about (4−1)(4−1)/(2·200·ln 2) = .0325 bits.
  const a = Array.from({ length: 200 }, (_, i) => i % 4);
  const b = a.map((value) => `routing ${value}`);
  const { bits, shuffled } = mutualInformation(a, b, { shuffles: 200, seed: 1 });
  expect(bits).toBeCloseTo(2, 12);
  expect(shuffled).toBeGreaterThan(0.025);
  expect(shuffled).toBeLessThan(0.04);
});
