import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Random } from "../../lib/data/random.js";
import {
  adjust,
  calibrate,
  calibrated,
  expectedCalibrationError,
  readCalibration,
  saveCalibration,
} from "../../lib/train/calibration.js";
import { folder } from "./support.js";

/** Logits that are log-probabilities times `sharpness`, and labels drawn from those probabilities. */
function drawn(seed: number, rows: number, classes: number, sharpness: number) {
  const random = new Random(seed);
  const logits = new Float32Array(rows * classes);
  const truth: number[] = [];
  for (let r = 0; r < rows; r++) {
    const weights = Array.from({ length: classes }, () => random.next() ** 3 + 1e-3);
    const total = weights.reduce((a, b) => a + b);
    let left = random.next() * total;
    let label = 0;
    while (label < classes - 1 && left >= weights[label]!) left -= weights[label++]!;
    truth.push(label);
    for (const [c, w] of weights.entries()) logits[r * classes + c] = sharpness * Math.log(w / total);
  }
  return { logits, truth };
}

describe("calibration", () => {
  it("finds the temperature that logits were sharpened by, and confidence becomes a share of right answers", () => {
    for (const sharpness of [0.5, 1, 3]) {
      const { logits, truth } = drawn(7, 4000, 4, sharpness);
      const { temperature, calibrationError } = calibrate(logits, truth, [10, 10, 10, 10]);
      expect(Math.abs(Math.log(temperature / sharpness))).toBeLessThan(0.12);
      expect(calibrationError.after).toBeLessThan(0.03);
      if (sharpness !== 1) expect(calibrationError.after).toBeLessThan(calibrationError.before);
    }
  });

  it("undoes the skew of the training labels where validation has none", () => {
    const { logits, truth } = drawn(3, 3000, 3, 1);
    const counts = [800, 150, 50];
    const skewed = logits.map((z, i) => z + Math.log(counts[i % 3]! / 1000));
    const { priorPower, logPrior, temperature } = calibrate(skewed, truth, counts);
    expect(priorPower).toBe(1);
    const back = adjust(skewed, { temperature: 1, priorPower, logPrior });
    for (const [i, z] of logits.entries()) expect(back[i]).toBeCloseTo(z, 4);
    expect(Math.abs(Math.log(temperature))).toBeLessThan(0.12);
  });

  it("the temperature changes no answer, and no power of a flat prior is better than none", () => {
    fc.assert(
      fc.property(fc.nat(1000), fc.double({ min: 0.1, max: 9, noNaN: true }), (seed, temperature) => {
        const { logits, truth } = drawn(seed, 40, 5, 2);
        const calibration = calibrate(logits, truth, [3, 3, 3, 3, 3]);
        expect(calibration.priorPower).toBe(0);
        const adjusted = adjust(logits, { ...calibration, temperature });
        const best = (from: Float32Array, r: number) => {
          const row = [...from.subarray(5 * r, 5 * r + 5)];
          return row.indexOf(Math.max(...row));
        };
        for (let r = 0; r < 40; r++) expect(best(adjusted, r)).toBe(best(logits, r));
      }),
      { numRuns: 30 },
    );
  });

  it("measures the error as the gap in each interval of confidence", () => {
    expect(expectedCalibrationError([], [])).toBe(0);
    expect(expectedCalibrationError([1, 1], [true, true])).toBe(0);
    expect(expectedCalibrationError([0.9, 0.9, 0.9, 0.9], [true, true, false, false])).toBeCloseTo(0.4, 12);
    // Two intervals that would cancel out if they were one.
    expect(expectedCalibrationError([0.99, 0.5], [false, true])).toBeCloseTo((0.99 + 0.5) / 2, 12);
  });

  it("is kept with a run, read back as it was, and refused where damaged or of other classes", async () => {
    await using dir = await folder();
    expect(await readCalibration(dir.path, 3)).toBeNull();
    await mkdir(join(dir.path, "best"));
    const { logits, truth } = drawn(1, 50, 3, 1);
    const calibration = calibrate(logits, truth, [0, 5, 9]);
    expect(calibration.logPrior.every(Number.isFinite)).toBe(true);
    await saveCalibration(dir.path, calibration);
    expect(await readCalibration(dir.path, 3)).toEqual(calibration);
    await expect(readCalibration(dir.path, 4)).rejects.toMatchObject({
      code: "ERR_CHECKPOINT",
      message: expect.stringContaining("of 3 classes"),
    });
    const logitsOf = async () => logits;
    expect(calibrated(logitsOf, null)).toBe(logitsOf);
    expect(await calibrated(logitsOf, calibration)(null as never)).toEqual(adjust(logits, calibration));
  });
});
