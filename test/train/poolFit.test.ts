import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Random } from "../../lib/data/random.js";
import {
  LinearSpecialist,
  labelledRefs,
  trainFormatSpecialist,
  trainNgramSpecialist,
} from "../../lib/specialists/index.js";
import { specialistOf } from "../../lib/train/columnModel.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { trainParl } from "../../lib/train/parl.js";
import { poolWeights } from "../../lib/train/poolFit.js";
import { expectError, PRIMARY } from "../swarm/support.js";
import { folder, type TinySwarm, tinySwarm } from "./support.js";

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

describe("a swarm with a fitted pool", () => {
  let tiny: TinySwarm;
  let ngram: LinearSpecialist;
  let format: LinearSpecialist;

  beforeAll(async () => {
    tiny = await tinySwarm();
    const { dataset } = tiny;
    const data = { train: labelledRefs(dataset, "train"), validation: labelledRefs(dataset, "validation") };
    ngram = await trainNgramSpecialist(data);
    format = await trainFormatSpecialist(data);
  }, 120_000);

  afterAll(() => tiny.dispose());

  it("fits the pool's weights before the router learns, and leaves them to it alone", async () => {
    await using dir = await folder();
    const specialists = [ngram, format];
    const { numLabels: _, ...model } = PRIMARY;
    const start = await trainParl({
      ...tiny.run,
      specialists,
      fuse: "outputs",
      model,
      steps: 1,
      out: join(dir.path, "start"),
    });
    start[Symbol.dispose]();
    const run = { ...tiny.run, specialists, fuse: "outputs", model, init: join(dir.path, "start") } as const;
    using trained = await trainParl({ ...run, pool: "fitted", freezePrimary: true, steps: 2 });
    const state = trained.swarm.outputFusion!.native.stateDict();
    const weights = ["labelWeight0", "labelWeight1", "ownWeight"].map((name) => state[name]!.item());
    for (const tensor of Object.values(state)) tensor.dispose();
    // The labels of the training columns are likeliest under them.
    const columns = labelledRefs(tiny.run.dataset, "train");
    const truth = columns.map(({ label }) => ngram.labels.indexOf(label));
    const said = await Promise.all(specialists.map((each) => each.logProbabilities(columns)));
    const classes = ngram.labels.length;
    const loss = (w: number[]) =>
      truth.reduce((sum, label, row) => {
        const z = Array.from({ length: classes }, (_, c) =>
          said.reduce(
            (total, logp, k) => total + w[k]! * Math.max(-Math.log(1e4), logp[row * classes + c]!),
            0,
          ),
        );
        return sum + Math.log(z.reduce((total, value) => total + Math.exp(value), 0)) - z[label]!;
      }, 0);
    const best = loss(weights);
    expect(weights[2]).toBe(0);
    expect(best).toBeLessThan(loss([0.5, 0.5]));
    for (const k of [0, 1])
      for (const step of [-0.05, 0.05]) {
        const moved = weights.map((w, i) => (i === k ? w + step : w));
        if (moved[k]! >= 0) expect(loss(moved)).toBeGreaterThan(best);
      }
    await expect(
      trainParl({ ...tiny.run, fuse: "states", pool: "fitted", out: join(dir.path, "none") }),
    ).rejects.toThrow(expectError("ERR_CONFIG", /pool: was fitted, but no specialist/));
    expect(existsSync(join(dir.path, "none"))).toBe(false);

    // The same name and number of labels, and other labels: its weights would stand for something else.
    const { id, extractor, learned } = ngram;
    const labels = ngram.labels.map((label) => `not ${label}`);
    const other = new LinearSpecialist(id, extractor, { ...learned, labels });
    await expect(trainParl({ ...run, specialists: [other, format], steps: 1 })).rejects.toThrow(
      expectError("ERR_CHECKPOINT", /other geometry: specialists\[0\]\.labels\[0\] is/),
    );
    using swarm = await loadRun(join(dir.path, "start"));
    expect(() => specialistOf(swarm, "a", "--specialist a")).toThrow(
      expectError(
        "ERR_CONFIG",
        /--specialist a: .*start is a swarm, expected a model or a column specialist/,
      ),
    );
  });
});
