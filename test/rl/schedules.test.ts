import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  budgetCap,
  clipRange,
  estimateBudget,
  lambdaSchedule,
  phaseAt,
  routingPhase,
  toggleRewards,
} from "../../lib/rl/schedules.js";
import { expectClose, vector } from "./support.js";

describe("lambda and epsilon", () => {
  const rows = vector<{ expected: { frac: number; lambda1: number; lambda2: number; eps: number }[] }>(
    "V15_schedules",
  ).expected;

  it.each(rows)("agrees with the golden values at $frac", ({ frac, lambda1, lambda2, eps }) => {
    const { parallel, finish } = lambdaSchedule(frac, { annealToZero: false });
    expectClose([parallel, finish, clipRange(frac)], [lambda1, lambda2, eps], 1e-12);
  });

  it("anneals to zero over the last tenth by default", () => {
    expect(lambdaSchedule(0.9)).toEqual({ parallel: 0.05, finish: 0.05 });
    expectClose(Object.values(lambdaSchedule(0.95)), [0.025, 0.025], 1e-12);
    expect(lambdaSchedule(1)).toEqual({ parallel: 0, finish: 0 });
  });

  it("takes the constructor's weights in the first phase only", () => {
    const initial = { parallel: 0.7, finish: 0.2 };
    expect(lambdaSchedule(0.1, { initial })).toEqual(initial);
    expect(lambdaSchedule(0.3, { initial })).toEqual({ parallel: 0.1, finish: 0.3 });
  });

  it("holds its ends outside [0, 1] and refuses NaN", () => {
    expect(clipRange(-1)).toBe(0.2);
    expect(clipRange(2)).toBe(0.1);
    expect(() => lambdaSchedule(Number.NaN)).toThrow(/NaN/);
  });
});

describe("toggle", () => {
  const v13 = vector<{
    inputs: { r: number[]; cost: number[]; m: number; budget: number };
    expected: { t: number; lam: number; out: number[] }[];
  }>("V13_toggle");

  it.each(v13.expected)("agrees with the golden values at t = $t, λ = $lam", ({ t, lam, out }) => {
    const { r, cost, m, budget } = v13.inputs;
    expectClose(toggleRewards(r, cost, { phase: phaseAt(t, m), lambda: lam, budget }), out, 0);
  });

  it("takes the mean of enumerated rollouts by their probabilities", () => {
    const toggled = (weights: number[]) => [
      ...toggleRewards([1, 0], [3, 1], { phase: "budget", lambda: 0.5, budget: 2, weights }),
    ];
    expect(toggled([0.9, 0.1])).toEqual([0, 0]);
    expect(toggled([0.1, 0.9])).toEqual([1, 0]);
  });

  it("estimates the budget from correct rollouts alone", () => {
    expect(estimateBudget([1, 9, 2, 3], [1, 0, 1, 1], 50)).toBe(2);
    expect(estimateBudget([1, 9, 2, 3], [1, 0, 1, 1], 75)).toBe(2.5);
    expect(estimateBudget([4, 5], [0, 0], 50)).toBe(Number.POSITIVE_INFINITY);
  });
});

describe("phases", () => {
  it("alternates, budget-limited first, with a cap that starts at 1 and grows to the limit", () => {
    const options = { period: 10, totalSteps: 100, numSpecialists: 5 };
    const phases = Array.from({ length: 10 }, (_, i) => routingPhase(i * 10 + 3, options));
    expect(phases.map((p) => p.kind)).toEqual(Array(5).fill(["budget", "standard"]).flat());
    expect(phases.map((p) => p.cap)).toEqual([1, 5, 2, 5, 3, 5, 4, 5, 5, 5]);
    expect(phases.map((p) => p.rho)).toEqual([0.2, 0.5, 0.4, 0.5, 0.6, 0.5, 0.8, 0.5, 1, 0.5]);
  });

  it("keeps K = 1 in every second budget phase where that is asked for", () => {
    expect([0, 1, 2, 3, 4].map((nth) => budgetCap(nth, 5, 5, true))).toEqual([1, 1, 3, 1, 5]);
  });

  it("the cap never falls and stays within [1, maxCap]", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 128 }), (count, maxCap) => {
        const caps = Array.from({ length: count }, (_, nth) => budgetCap(nth, count, maxCap));
        expect(caps[0]).toBe(1);
        if (count > 1) expect(caps.at(-1)).toBe(maxCap);
        caps.forEach((cap, i) => {
          expect(cap).toBeGreaterThanOrEqual(caps[i - 1] ?? 1);
        });
      }),
    );
  });

  it("refuses a period that is no positive integer", () => {
    expect(() => phaseAt(3, 0)).toThrow(/period/);
    expect(() => phaseAt(3, 1.5)).toThrow(/period/);
  });
});
