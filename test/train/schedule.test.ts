import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { learningRate } from "../../lib/train/schedule.js";

describe("learning rate", () => {
  const schedule = { lr: 2e-3, warmup: 10, total: 101, finalFraction: 0.1 };

  test("warms up linearly, peaks at lr, halves the way down at the middle, ends at the fraction", () => {
    expect(learningRate(0, schedule)).toBeCloseTo(2e-4, 12);
    expect(learningRate(9, schedule)).toBeCloseTo(2e-3, 12);
    expect(learningRate(10, schedule)).toBeCloseTo(2e-3, 12);
    expect(learningRate(55, schedule)).toBeCloseTo(1.1e-3, 12);
    expect(learningRate(100, schedule)).toBeCloseTo(2e-4, 12);
  });

  test("rises, then falls, within (0, lr]", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 300 }), fc.nat({ max: 40 }), (total, warmup) => {
        const rates = Array.from({ length: total }, (_, s) =>
          learningRate(s, { lr: 1, warmup, total, finalFraction: 0.05 }),
        );
        for (let s = 0; s < total; s++) {
          expect(rates[s]!).toBeGreaterThan(0);
          expect(rates[s]!).toBeLessThanOrEqual(1);
          if (s > 0 && s < warmup) expect(rates[s]!).toBeGreaterThan(rates[s - 1]!);
          if (s > warmup) expect(rates[s]!).toBeLessThanOrEqual(rates[s - 1]!);
        }
      }),
    );
  });

  test("a step below 0 is refused", () => {
    expect(() => learningRate(-1, schedule)).toThrow(/step -1/);
  });
});
