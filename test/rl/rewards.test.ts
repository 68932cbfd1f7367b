import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ABSTAIN, classificationReport } from "../../lib/data/metrics.js";
import {
  activationCost,
  classWeights,
  correctReward,
  coverage,
  criticalStepsHinge,
  finishReward,
  loglikReward,
  parallelReward,
  RateController,
  routingStatistics,
  totalReward,
} from "../../lib/rl/rewards.js";
import { expectClose, vector } from "./support.js";

describe("r_perf", () => {
  it("loglik is floored at -3", () => {
    expect([...loglikReward([-0.5, -3.5, -Infinity, 0])]).toEqual([-0.5, -3, -3, 0]);
    expect(loglikReward([Number.NaN])[0]).toBeNaN();
  });

  it("correct, and F1 of whole evaluation sets, agree with the golden values", () => {
    const { inputs, expected } = vector<{
      inputs: { y: number[]; pred: number[]; abstain: number };
      expected: {
        macro_f1_present: number;
        micro_f1: number;
        column_accuracy: number;
        per_class: Record<string, number>;
        coverage: number;
      };
    }>("V14_r_perf");
    const labels = Object.keys(expected.per_class);
    const report = classificationReport(inputs.y, inputs.pred, labels);
    expectClose([report.macroF1, report.microF1], [expected.macro_f1_present, expected.micro_f1]);
    expectClose(
      report.perClass.map(({ f1 }) => f1),
      labels.map((label) => expected.per_class[label]!),
    );
    expect(correctReward(inputs.y, inputs.pred)).toBeCloseTo(expected.column_accuracy, 6);
    expect(inputs.abstain).toBe(ABSTAIN);
    expect(coverage(inputs.pred.map((p) => p !== ABSTAIN))).toBeCloseTo(expected.coverage, 6);
  });

  it("an abstention is wrong, unlabelled columns do not count, a table without labels is left out", () => {
    expect(correctReward([2, -1, 0], [2, 1, -1])).toBe(0.5);
    expect(correctReward([-1, -1], [-1, 3])).toBeNull();
    expect(correctReward([], [])).toBeNull();
  });

  it("class weights lift rare classes up to the limit, with mean 1 on the training distribution", () => {
    const counts = [60, 30, 9, 1, 0];
    const weights = classWeights(counts);
    expect(weights.reduce((sum, w, y) => sum + (w * counts[y]!) / 100, 0)).toBeCloseTo(1, 12);
    // Before rescaling: 100/(5·60), 100/(5·30), 100/(5·9), min(100/5, 5).
    expectClose(
      weights.map((w) => w / weights[0]!),
      [1, 2, 60 / 9, 5 / (1 / 3), 0],
      1e-12,
    );
    const labels = counts.flatMap((c, y) => Array(c).fill(y) as number[]);
    expect(correctReward(labels, labels, weights)).toBeCloseTo(1, 12);
    expect(() => classWeights([0, 0])).toThrow(/classWeights/);
  });
});

describe("r_parallel", () => {
  const { rows } = vector<{
    rows: {
      case: string;
      counts: number[];
      n_decisions: number;
      aegir_raw: number;
      cv_norm: number;
      utilization: number;
      rate: number;
      overload: number;
      spec01: number;
    }[];
  }>("V7_r_parallel");

  it.each(rows)("agrees with the golden values: $case", (row) => {
    const n = row.counts.length;
    const statistics = routingStatistics(row.counts, row.n_decisions);
    expectClose(
      [n > 1 ? statistics.cv / Math.sqrt(n - 1) : 0, statistics.utilisation, statistics.rate],
      [row.cv_norm, row.utilization, row.rate],
    );
    expectClose([statistics.overload], [row.overload]);
    expectClose([parallelReward(row.counts, row.n_decisions)!], [row.spec01]);
    expectClose([parallelReward(row.counts, row.n_decisions, { compat: "aegir" })!], [row.aegir_raw]);
  });

  it("is masked for an empty batch and 0 where nothing is activated", () => {
    expect(parallelReward([0, 0], 0)).toBeNull();
    expect(parallelReward([0, 0], 4)).toBe(0);
    expect(parallelReward([0], 4)).toBe(0);
    expect(() => parallelReward([], 4)).toThrow(/at least 1 specialist/);
  });

  it("rho moves the overload term and 1 switches it off", () => {
    expect(parallelReward([8, 8, 8, 8], 8, { rho: 1 })).toBe(1);
    expect(parallelReward([2, 2, 2, 2], 8, { rho: 0.25 })).toBe(1);
    expect(parallelReward([5, 5, 5, 5], 8, { rho: 0.25 })).toBeCloseTo(0.5, 12);
  });

  it("lies in [0, 1] and does not depend on the order of the specialists", () => {
    const counts = fc.array(fc.nat(20), { minLength: 1, maxLength: 16 });
    fc.assert(
      fc.property(counts, fc.double({ min: 0, max: 1, noNaN: true }), (c, rho) => {
        const value = parallelReward(c, 20, { rho })!;
        expect(value).toBeGreaterThanOrEqual(0);
        expect(value).toBeLessThanOrEqual(1);
        expect(parallelReward([...c].reverse(), 20, { rho })).toBeCloseTo(value, 9);
      }),
    );
  });
});

describe("r_finish", () => {
  it("coverage counts abstentions and failed calls as unfinished", () => {
    expect(coverage([true, true, false, true])).toBe(0.75);
    expect(coverage([true, true, false, true], [0, 2, 0, 0])).toBe(0.5);
    expect(coverage([])).toBeNull();
  });

  it("maps coverage - penalty to [0, 1]", () => {
    expect(finishReward(1, 0)).toBe(1);
    expect(finishReward(1, 1)).toBe(0.5);
    expect(finishReward(0, 1)).toBe(0);
    expect(finishReward(null, 0.3)).toBeNull();
  });
});

describe("cost and total", () => {
  it("charges the share of activated specialists", () => {
    expect(activationCost(2, 4, 0.3)).toBeCloseTo(0.15, 12);
  });

  it("critical steps cost nothing within their budget and in proportion beyond it", () => {
    expect(criticalStepsHinge(6, 6, 0.5)).toBe(0);
    expect(criticalStepsHinge(9, 6, 0.5)).toBeCloseTo(0.25, 12);
    expect(() => criticalStepsHinge(1, 0, 1)).toThrow(/budget/);
  });

  it("the controller brings a rate that answers the cost to its target", () => {
    const controller = new RateController({ target: 0.3, initial: 0.1 });
    let rate = 1;
    for (let step = 0; step < 2000; step++) rate = Math.max(0, 1 - controller.update(rate));
    expect(rate).toBeCloseTo(0.3, 3);
    controller.restore(-1);
    expect(controller.update(0)).toBe(0);
  });

  it("adds the terms with their weights; masked terms count 0", () => {
    const lambdas = { parallel: 0.3, finish: 0.1 };
    expect(totalReward({ perf: -1, parallel: 0.5, finish: 1, cost: 0.2 }, lambdas)).toBeCloseTo(-0.95, 12);
    expect(totalReward({ perf: -1, parallel: null, finish: null }, lambdas)).toBe(-1);
  });
});
