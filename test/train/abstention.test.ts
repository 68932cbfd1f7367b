import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Abstention,
  abstentionThreshold,
  answers,
  calibrateAbstention,
  readAbstention,
  saveAbstention,
  selectiveFigures,
} from "../../lib/train/abstention.js";
import { annotateTable } from "../../lib/train/annotate.js";
import { saveCheckpoint } from "../../lib/train/checkpoint.js";
import { calibrateRun, evaluateRun } from "../../lib/train/evaluateRun.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { trainSupervised } from "../../lib/train/supervised.js";
import { folder, shortColumns, tinyDataset, tinyModel } from "./support.js";

const pick = ({ coverage, selectiveAccuracy }: Abstention["validation"]) => ({ coverage, selectiveAccuracy });

const predictionsOf = (confidences: number[], labels: number[]) =>
  confidences.map((confidence, i) => ({
    label: labels[i]!,
    confidence,
    runnerUp: labels[i]!,
    runnerUpConfidence: 0,
  }));

describe("abstention", () => {
  // By confidence: right, right, wrong, right, right, wrong.
  const predictions = predictionsOf([0.5, 0.9, 0.99, 0.7, 0.6, 0.8], [1, 0, 0, 0, 0, 1]);
  const truth = [0, 0, 0, 0, 0, 0];

  test("a target of accuracy takes the lowest threshold that reaches it, also past one that does not", () => {
    expect(calibrateAbstention(predictions, truth, { accuracy: 0.8 })).toEqual({
      threshold: expect.closeTo(0.55, 12),
      target: { accuracy: 0.8 },
      validation: { columns: 6, coverage: 5 / 6, selectiveAccuracy: 0.8 },
    });
    expect(calibrateAbstention(predictions, truth, { accuracy: 1 }).threshold).toBeCloseTo(0.85, 12);
    const everything = calibrateAbstention(predictions, truth, { accuracy: 0.6 });
    expect(everything).toMatchObject({ threshold: 0, validation: { coverage: 1 } });
    const adjacent = predictionsOf([0.5 + 2 ** -53, 0.5], [0, 1]);
    expect(calibrateAbstention(adjacent, truth, { accuracy: 1 }).threshold).toBeGreaterThan(0.5);
  });

  test("a target of coverage takes the highest threshold that reaches it; a tie is answered as a whole", () => {
    expect(calibrateAbstention(predictions, truth, { coverage: 0.5 }).threshold).toBeCloseTo(0.75, 12);
    expect(calibrateAbstention(predictions, truth, { coverage: 0.51 }).threshold).toBeCloseTo(0.65, 12);
    const tied = predictionsOf([0.9, 0.9, 0.9, 0.2], [0, 0, 1, 0]);
    expect(calibrateAbstention(tied, truth, { coverage: 0.25 }).validation.coverage).toBe(0.75);
  });

  test("figures count an answer left out as neither right nor wrong", () => {
    expect(selectiveFigures(predictions, truth, ["a", "b"], 0.8)).toMatchObject({
      coverage: 0.5,
      selectiveAccuracy: expect.closeTo(2 / 3, 12),
      microF1: expect.closeTo((2 * 2) / (6 + 3), 12),
    });
    expect(selectiveFigures(predictions, truth, ["a", "b"], 1)).toMatchObject({
      coverage: 0,
      selectiveAccuracy: null,
    });
  });

  test("laws: what is promised on validation holds there, and a stricter target never answers more", () => {
    const seed = 20;
    const column = fc.record({
      confidence: fc.integer({ min: 1, max: 20 }).map((k) => k / 20),
      right: fc.boolean(),
    });
    fc.assert(
      fc.property(
        fc.array(column, { minLength: 1, maxLength: 40 }),
        fc.double({ min: 0.05, max: 1, noNaN: true }),
        (columns, wanted) => {
          const given = predictionsOf(
            columns.map((c) => c.confidence),
            columns.map((c) => (c.right ? 0 : 1)),
          );
          const zeros = columns.map(() => 0);
          const covering = calibrateAbstention(given, zeros, { coverage: wanted });
          const figures = selectiveFigures(given, zeros, ["a", "b"], covering.threshold);
          expect(figures.coverage).toBeGreaterThanOrEqual(wanted - 1e-12);
          expect(figures.coverage).toBeCloseTo(covering.validation.coverage, 12);
          let accurate: Abstention;
          try {
            accurate = calibrateAbstention(given, zeros, { accuracy: wanted });
          } catch (error) {
            expect((error as Error).message).toMatch(/no threshold on confidence/);
            return;
          }
          const selective = selectiveFigures(given, zeros, ["a", "b"], accurate.threshold);
          expect(selective.selectiveAccuracy).toBeGreaterThanOrEqual(wanted - 1e-12);
          const looser = calibrateAbstention(given, zeros, { accuracy: wanted / 2 });
          expect(looser.validation.coverage).toBeGreaterThanOrEqual(accurate.validation.coverage);
        },
      ),
      { seed },
    );
  });

  test("bad targets and data are refused by name", () => {
    expect(() => calibrateAbstention(predictions, truth, { accuracy: 1.2 })).toThrow(
      /accuracy: expected a share/,
    );
    expect(() => calibrateAbstention([], [], { coverage: 0.5 })).toThrow(/no validation column/);
    expect(() => calibrateAbstention(predictionsOf([0.9], [1]), [0], { accuracy: 0.9 })).toThrow(
      /highest is 0.000/,
    );
  });

  test("is stored in the run's folder and read back; a damaged file is told of", async () => {
    await using dir = await folder();
    expect(await readAbstention(dir.path)).toBeNull();
    await expect(abstentionThreshold(dir.path, true)).rejects.toThrow(/was not calibrated to abstain/);
    const abstention = calibrateAbstention(predictions, truth, { accuracy: 0.8 });
    const weights = { geometry: {}, groups: {}, state: {} };
    await saveCheckpoint(join(dir.path, "best"), weights);
    await saveAbstention(dir.path, abstention);
    expect(await readAbstention(dir.path)).toEqual(abstention);
    expect(await abstentionThreshold(dir.path, true)).toBe(abstention.threshold);
    expect(await abstentionThreshold(dir.path, 0.3)).toBe(0.3);
    await expect(abstentionThreshold(dir.path, 3)).rejects.toThrow(/expected a confidence/);
    await writeFile(join(dir.path, "best", "abstention.json"), '{"threshold": 7');
    await expect(readAbstention(dir.path)).rejects.toMatchObject({ code: "ERR_CHECKPOINT" });
    // Other weights have other confidences.
    await saveCheckpoint(join(dir.path, "best"), weights);
    expect(await readAbstention(dir.path)).toBeNull();
  });

  test("a calibrated run is evaluated as a head that abstains beside one that does not, and annotates with gaps", async () => {
    await using dir = await folder();
    const dataset = await tinyDataset();
    const out = join(dir.path, "run");
    const trained = await trainSupervised({
      dataset,
      model: tinyModel,
      serialise: shortColumns,
      steps: 8,
      batchRows: 16,
      out,
    });
    trained.model.dispose();
    using run = await loadRun(out);
    expect((await evaluateRun(run, dataset)).abstention).toBeUndefined();
    const { threshold, validation } = await calibrateRun(run, dataset, { coverage: 0.4 });
    expect(validation.coverage).toBeGreaterThanOrEqual(0.4);
    expect(validation.coverage).toBeLessThan(0.6);
    const onValidation = await evaluateRun(run, dataset, { split: "validation", unknownLabels: "skip" });
    expect(onValidation.abstention).toMatchObject({ ...pick(validation), threshold });
    expect(onValidation.coverage).toBe(1);
    const table = dataset.tables.get(dataset.splits.test[0]!.table)!;
    const all = await annotateTable(run, table);
    const some = await annotateTable(run, table, { abstainBelow: threshold });
    expect(some.map(({ type }) => type)).toEqual(
      all.map(({ type, confidence }) => (confidence >= threshold ? type : null)),
    );
    const none = await annotateTable(run, table, { abstainBelow: 1.01 });
    expect(none.every(({ type }) => type === null)).toBe(true);
  });

  test("answers below the threshold are none", () => {
    expect(answers(predictions, 0.65)).toEqual([-1, 0, 0, 0, -1, 1]);
  });
});
