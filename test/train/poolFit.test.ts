import { describe, expect, it } from "vitest";
import { Random } from "../../lib/data/random.js";
import { poolWeights } from "../../lib/train/poolFit.js";

const CLASSES = 4;

/** Rows of ln p around the true label, as sure as `sharpness` says, right as often as `right` says. */
function member(labels: Int32Array, random: Random, right: number, sharpness: number): Float64Array {
  return Float64Array.from(
    Array.from(labels, (label) => {
      const said = random.next() < right ? label : random.int(CLASSES);
      const raw = Array.from({ length: CLASSES }, (_, c) => (c === said ? sharpness : 0) + random.next());
      const total = Math.log(raw.reduce((sum, z) => sum + Math.exp(z), 0));
      return raw.map((z) => z - total);
    }).flat(),
  );
}

function negativeLogLikelihood(said: Float64Array[], labels: Int32Array, weights: number[]): number {
  return labels.reduce((sum, label, row) => {
    const z = Array.from({ length: CLASSES }, (_, c) =>
      said.reduce((total, logp, k) => total + weights[k]! * logp[row * CLASSES + c]!, 0),
    );
    return sum + Math.log(z.reduce((total, value) => total + Math.exp(value), 0)) - z[label]!;
  }, 0);
}

describe("weights of a pool", () => {
  it.each([1, 2, 3])("are those that make the labels likeliest (seed %i)", (seed) => {
    const random = new Random(seed, "pool");
    const labels = Int32Array.from({ length: 400 }, () => random.int(CLASSES));
    const said = [
      member(labels, random, 0.8, 3),
      member(labels, random, 0.6, 1),
      member(labels, random, 0.7, 6),
    ];
    const weights = poolWeights(said, labels, CLASSES);
    const best = negativeLogLikelihood(said, labels, weights);
    for (const [k, weight] of weights.entries()) {
      for (const step of [-0.02, 0.02]) {
        const moved = weights.map((w, i) => (i === k ? weight + step : w));
        if (weight + step >= 0) expect(negativeLogLikelihood(said, labels, moved)).toBeGreaterThan(best);
      }
    }
  });

  it("are 1 of one member that is as sure as it is right, and less where it is too sure", () => {
    // Right in 3 of 4 columns, wrong with one other label.
    const labels = Int32Array.from({ length: 400 }, (_, i) => (i % 4 === 0 ? 1 : 0));
    const sure = (p: number) =>
      Float64Array.from(Array.from(labels, () => [p, 1 - p, 1e-30, 1e-30].map(Math.log)).flat());
    expect(poolWeights([sure(0.75)], labels, CLASSES)[0]).toBeCloseTo(1, 3);
    // (p / (1 − p))^w = 3
    expect(poolWeights([sure(0.9)], labels, CLASSES)[0]).toBeCloseTo(Math.log(3) / Math.log(9), 3);
  });

  it("are 0 of a member that is worse than nothing, and of one that says nothing", () => {
    const random = new Random(4, "pool");
    const labels = Int32Array.from({ length: 300 }, () => random.int(CLASSES));
    const good = member(labels, random, 0.8, 2);
    // What it finds likely is not what is so.
    const wrong = member(labels, random, 0.8, 2).map((logp) => -logp);
    const weights = poolWeights([good, wrong, new Float64Array(good.length)], labels, CLASSES);
    expect(weights[0]).toBeGreaterThan(0.5);
    expect(weights.slice(1)).toEqual([0, 0]);
    expect(poolWeights([wrong], labels, CLASSES)).toEqual([0]);
  });
});
