import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ABSTAIN, classificationReport, confusionMatrix, formatReport } from "../../lib/data/metrics.js";

interface Golden {
  V14_r_perf: {
    inputs: { y: number[]; pred: number[] };
    expected: {
      macro_f1_present: number;
      micro_f1: number;
      column_accuracy: number;
      per_class: Record<string, number>;
      coverage: number;
    };
  };
}
const { V14_r_perf: golden }: Golden = JSON.parse(
  readFileSync(new URL("../golden/data-vectors.json", import.meta.url), "utf8"),
);

describe("classificationReport", () => {
  it("gives the golden numbers (V14)", () => {
    const report = classificationReport(golden.inputs.y, golden.inputs.pred, ["0", "1", "2", "unseen"]);
    expect(report.macroF1).toBeCloseTo(golden.expected.macro_f1_present, 6);
    expect(report.microF1).toBeCloseTo(golden.expected.micro_f1, 6);
    expect(report.accuracy).toBeCloseTo(golden.expected.column_accuracy, 6);
    expect(report.coverage).toBeCloseTo(golden.expected.coverage, 6);
    expect(report.perClass.map((score) => score.label)).toEqual(["0", "1", "2"]);
    for (const { label, f1 } of report.perClass) expect(f1).toBeCloseTo(golden.expected.per_class[label]!, 6);
  });

  const labels = ["a", "b", "c", "d", "e"];
  const pairs = fc.array(fc.tuple(fc.nat({ max: 4 }), fc.integer({ min: -1, max: 4 })), {
    minLength: 1,
    maxLength: 80,
  });

  it("agrees with precision and recall counted class by class", () => {
    fc.assert(
      fc.property(pairs, (rows) => {
        const truth = rows.map(([y]) => y);
        const predicted = rows.map(([, p]) => p);
        const report = classificationReport(truth, predicted, labels);
        for (const score of report.perClass) {
          const id = labels.indexOf(score.label);
          const right = rows.filter(([y, p]) => y === id && p === id).length;
          const asked = truth.filter((y) => y === id).length;
          const answered = predicted.filter((p) => p === id).length;
          expect(score.support).toBe(asked);
          expect(score.precision).toBeCloseTo(answered ? right / answered : 0, 12);
          expect(score.recall).toBeCloseTo(asked ? right / asked : 0, 12);
          const { precision: P, recall: R } = score;
          expect(score.f1).toBeCloseTo(P + R > 0 ? (2 * P * R) / (P + R) : 0, 12);
        }
        const wrong = rows.filter(([y, p]) => p !== ABSTAIN && y !== p).length;
        expect(report.confusions.reduce((sum, { count }) => sum + count, 0)).toBe(wrong);
        const counts = report.confusions.map(({ count }) => count);
        expect(counts).toEqual([...counts].sort((a, b) => b - a));
        // Without abstention micro F1 is accuracy.
        if (!predicted.includes(ABSTAIN)) expect(report.microF1).toBeCloseTo(report.accuracy, 12);
      }),
    );
  });

  it("is 1 for perfect answers, 0 for none and for no columns", () => {
    expect(classificationReport([0, 1, 1], [0, 1, 1], labels)).toMatchObject({
      microF1: 1,
      macroF1: 1,
      confusions: [],
    });
    expect(classificationReport([0, 1], [ABSTAIN, ABSTAIN], labels)).toMatchObject({
      microF1: 0,
      macroF1: 0,
      coverage: 0,
    });
    expect(classificationReport([], [], labels)).toMatchObject({
      n: 0,
      microF1: 0,
      macroF1: 0,
      perClass: [],
    });
  });

  it("refuses ids that are no classes and lengths that differ", () => {
    expect(() => classificationReport([0], [0, 1], labels)).toThrow(/predicted has 2 entries and truth 1/);
    expect(() => classificationReport([-1], [0], labels)).toThrow(/truth\[0\] was -1/);
    expect(() => classificationReport([0], [5], labels)).toThrow(
      /predicted\[0\] was 5, expected a class id from 0 to 4/,
    );
    expect(() => classificationReport([0.5], [0], labels)).toThrow(/truth\[0\] was 0.5/);
  });
});

describe("texts", () => {
  it("draws the confusion matrix", () => {
    expect(confusionMatrix([0, 0, 1, 1], [0, 1, 1, ABSTAIN], ["city", "person"])).toBe(
      ["            0  1  –", "  city (0)  1  1  ·", "person (1)  ·  1  1"].join("\n"),
    );
  });

  it("lists classes from worst to best and the most frequent confusions", () => {
    const text = formatReport(classificationReport([0, 0, 1], [0, 1, 1], ["city", "person"]));
    expect(text).toMatch(/micro F1 0\.667/);
    expect(text).toMatch(/1 × city taken for person/);
  });
});
