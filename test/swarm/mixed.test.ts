import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { evaluationBatches } from "../../lib/data/batches.js";
import { logSoftmax } from "../../lib/data/logitAdjustment.js";
import { Serialiser } from "../../lib/data/serialise.js";
import { holdOutSites, learnFromValidation } from "../../lib/data/split.js";
import type { Batch, ColumnRef, Dataset } from "../../lib/data/types.js";
import { AegirForColumnAnnotation, batchInput } from "../../lib/model/index.js";
import {
  type LinearSpecialist,
  labelledRefs,
  trainFormatSpecialist,
  trainNgramSpecialist,
} from "../../lib/specialists/index.js";
import { ColumnSpecialist, SpecialistCache, SwarmOrchestrator } from "../../lib/swarm/index.js";
import { calibrated } from "../../lib/train/calibration.js";
import type { ColumnModelSpecialist } from "../../lib/train/columnModel.js";
import { criticalStepsOf, stepCounts } from "../../lib/train/criticalSteps.js";
import { evaluate, evaluationSet } from "../../lib/train/evaluate.js";
import { evaluateRun } from "../../lib/train/evaluateRun.js";
import { encodeTargets } from "../../lib/train/examples.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { type ParlRun, trainParl } from "../../lib/train/parl.js";
import { allLogits } from "../../lib/train/predict.js";
import { readRunConfig } from "../../lib/train/runFolder.js";
import { trainSpecialist } from "../../lib/train/specialistRun.js";
import { trainSupervised } from "../../lib/train/supervised.js";
import { swarmLogits } from "../../lib/train/swarmPredict.js";
import { folder, type TinySwarm, tinyModel, tinySwarm } from "../train/support.js";
import {
  expectError,
  liveTensors,
  PRIMARY,
  randomInputs,
  rowOf,
  settledTensors,
  specialist,
} from "./support.js";

let tiny: TinySwarm;
let dataset: Dataset;
let ngram: LinearSpecialist;
let format: LinearSpecialist;
let batch: Batch;

beforeAll(async () => {
  tiny = await tinySwarm();
  dataset = tiny.dataset;
  const data = { train: labelledRefs(dataset, "train"), validation: labelledRefs(dataset, "validation") };
  ngram = await trainNgramSpecialist(data);
  format = await trainFormatSpecialist(data);
  const serialiser = new Serialiser({ maxTokens: 32, maxContext: 1 });
  const examples = serialiser.encodeSplit(dataset, "validation").slice(0, 6);
  batch = [...evaluationBatches(examples, { rows: 6 })][0]!;
}, 120_000);

afterAll(() => tiny.dispose());

/** Says what the n-gram specialist says, and remembers of which tables. */
class Witness extends ColumnSpecialist {
  readonly seen = new Set<string>();

  constructor() {
    super("witness", ngram.labels);
  }

  async logProbabilities(columns: readonly ColumnRef[]) {
    for (const { table } of columns) this.seen.add(table.name);
    return ngram.logProbabilities(columns);
  }

  weightsHash() {
    return ngram.weightsHash();
  }
}

function mixed(fuse: "outputs" | "states+outputs" = "states+outputs") {
  const primaryModel = new AegirForColumnAnnotation(PRIMARY, { seed: 1 });
  const model = specialist(2, "model");
  const swarm = new SwarmOrchestrator({ primaryModel, specialists: [ngram, model, format], fuse });
  const dispose = () => {
    swarm.dispose();
    model.model.dispose();
    primaryModel.dispose();
  };
  return { swarm, dispose, [Symbol.dispose]: dispose };
}

describe("a swarm of mixed kinds", () => {
  it("runs every kind on the rows that activate it, however they run, and frees everything", async () => {
    const before = await settledTensors();
    {
      using made = mixed();
      const { swarm } = made;
      const { dispose, ...inputs } = batchInput(batch);
      const mask = Array.from({ length: batch.size }, (_, row) => [
        row % 2,
        row % 3 === 0 ? 1 : 0,
        row < 2 ? 1 : 0,
      ]);
      const logits: number[][] = [];
      for (const execution of ["serial", "streams", "batched"] as const) {
        swarm.execution = execution;
        using result = await swarm.withRouting({ mask }).forward({ ...inputs, routingHidden: "auto" });
        expect(result.specialistOutputs.map(({ id }) => id)).toEqual(["ngram", "model", "format"]);
        expect(result.specialistOutputs.map(({ states }) => Object.keys(states).length)).toEqual([0, 1, 0]);
        logits.push(Array.from(result.output.logits.data(), Number));
        const { nodes, criticalPath } = result.timing;
        expect(
          nodes
            .filter(({ role }) => role === "specialist")
            .map(({ steps }) => steps ?? 1)
            .sort(),
        ).toEqual([0, 0, 1]);
        expect(criticalPath.ideal).toBeLessThanOrEqual(criticalPath.work);
      }
      for (const others of logits.slice(1))
        for (const [i, value] of others.entries()) expect(value).toBeCloseTo(logits[0]![i]!, 4);
      const alone = await ngram.logProbabilities(batch.sources!);
      const all = await swarm.runSpecialists(inputs, ones(batch.size, 3));
      for (let row = 0; row < batch.size; row++) {
        const classes = ngram.labels.length;
        expect(rowOf(all[0]!.output!.logits, row)).toEqual(
          Array.from(alone.subarray(row * classes, (row + 1) * classes)),
        );
        for (const value of rowOf(all[0]!.output!.pooled, row)) expect(value >= 0 && value <= 1).toBe(true);
      }
      for (const each of all) each.dispose();
      dispose();
    }
    expect(liveTensors()).toBe(before);
  });

  it("has the primary's own result where nobody is active, and its controls", async () => {
    using made = mixed();
    const { swarm } = made;
    using inputs = batchInput(batch);
    const { dispose: _, ...rows } = inputs;
    using own = await swarm.forward(rows);
    using off = await swarm.withRouting("all-off").forward({ ...rows, routingHidden: "auto" });
    expect(off.output.logits.equal(own.output.logits)).toBe(true);
    using on = await swarm.withRouting("all-on").forward({ ...rows, routingHidden: "auto" });
    expect(on.specialistOutputs.length).toBe(3);
    // Output fusion starts at zero, and only the model has states.
    const mask = ones(batch.size, 3).map(([a, , c]) => [a!, 0, c!]);
    using readers = await swarm.withRouting({ mask }).forward({ ...rows, routingHidden: "auto" });
    expect(readers.output.logits.maxAbsDiff(own.output.logits)).toBeLessThan(1e-5);
  });

  it("gives the same from a cache", async () => {
    using made = mixed();
    const { swarm } = made;
    using cache = await SpecialistCache.build(swarm.specialists, [batch], { stages: swarm.specialistStages });
    using inputs = batchInput(batch);
    const { dispose: _, ...rows } = inputs;
    using live = await swarm.withRouting("all-on").forward({ ...rows, routingHidden: "auto" });
    using prefix = await swarm.prefix(rows);
    using cached = await swarm.complete(prefix, ones(batch.size, 3), cache.select(batch.rows)!);
    expect(cached.logits.maxAbsDiff(live.output.logits)).toBeLessThan(1e-5);
  });

  it("counts no recurrent steps of kinds without states", () => {
    using made = mixed("outputs");
    const counts = stepCounts(made.swarm);
    expect([counts.sub[0], counts.sub[2]]).toEqual([0, 0]);
    expect(criticalStepsOf([1, 0, 1, 1, 1, 0], counts)).toEqual([counts.main, counts.main + counts.sub[1]!]);
  });

  it("says what has nothing to fuse, and what it cannot read", async () => {
    using primaryModel = new AegirForColumnAnnotation(PRIMARY, { seed: 1 });
    const model = specialist(2, "model");
    const make =
      (
        specialists: ConstructorParameters<typeof SwarmOrchestrator>[0]["specialists"],
        fuse?: "states+outputs",
      ) =>
      () =>
        new SwarmOrchestrator({ primaryModel, specialists, fuse });
    expect(make([ngram])).toThrow(
      expectError("ERR_CONFIG", /fuse: "states" .* of 'ngram' to fuse; use fuse: "outputs"/),
    );
    expect(make([ngram, model])).toThrow(
      expectError("ERR_CONFIG", /use fuse: "states\+outputs" or "outputs"/),
    );
    expect(make([ngram, format], "states+outputs")).toThrow(
      expectError("ERR_CONFIG", /'ngram', 'format' to fuse; use fuse: "outputs"/),
    );
    using inputs = randomInputs(Math.random, 3, 8);
    await expect(ngram.forward(inputs)).rejects.toThrow(
      expectError("ERR_ARGUMENT", /^specialist 'ngram': inputs.columns: .* got none/),
    );
    await expect(ngram.forward({ ...inputs, columns: batch.sources!.slice(0, 2) })).rejects.toThrow(
      expectError("ERR_ARGUMENT", /got 2 for 3 rows/),
    );
    await expect(
      ngram.forward({ ...inputs, columns: batch.sources!.slice(0, 3) }, { stages: [0] }),
    ).rejects.toThrow(expectError("ERR_ARGUMENT", /no recurrent states, got \[0\]/));
    model.model.dispose();
  });
});

describe("a column specialist of one's own", () => {
  class Saying extends ColumnSpecialist {
    constructor(
      private readonly value: number,
      labels: readonly string[] = ngram.labels,
    ) {
      super("own", labels);
    }
    async logProbabilities(columns: readonly ColumnRef[]) {
      const said = await ngram.logProbabilities(columns);
      said.fill(this.value, this.labels.length, 2 * this.labels.length);
      return said;
    }
    weightsHash() {
      return ngram.weightsHash();
    }
  }

  it.each([
    [Number.NaN, /NaN/],
    [5, /it said 5/],
    [Number.NEGATIVE_INFINITY, /-Infinity of every label/],
  ])("that says %d is told so, with the column", async (value, message) => {
    using inputs = batchInput(batch);
    const { dispose: _, ...rows } = inputs;
    await expect(new Saying(value).forward(rows)).rejects.toThrow(message);
    await expect(new Saying(value).forward(rows)).rejects.toThrow(
      expectError("ERR_NON_FINITE", /^specialist 'own': .* of column 1/),
    );
  });

  it("that is not finite is left out of a training, which goes on", async () => {
    const warnings: string[] = [];
    using trained = await trainParl({
      ...tiny.run,
      specialists: [ngram, new Saying(Number.NaN)],
      fuse: "outputs",
      model: tinyModel,
      steps: 3,
      onWarning: (text) => warnings.push(text),
    });
    expect(trained.outcome.steps).toBe(3);
    expect(warnings.filter((text) => /specialist 'own' failed .*NaN/.test(text)).length).toBeGreaterThan(0);
  });

  it("needs labels, each once, and cannot be stored", async () => {
    expect(() => new Saying(0, [])).toThrow(expectError("ERR_ARGUMENT", /'own': labels: .* got none/));
    expect(() => new Saying(0, ["a", "b", "a"])).toThrow(expectError("ERR_ARGUMENT", /got 'a' twice/));
    await using dir = await folder();
    const out = join(dir.path, "run");
    const specialists = [new Saying(0)];
    await expect(
      trainParl({ ...tiny.run, specialists, fuse: "outputs", model: tinyModel, out }),
    ).rejects.toThrow(expectError("ERR_CONFIG", /of a kind that no run folder can hold/));
    expect(existsSync(out)).toBe(false);
  });
});

describe("parl over mixed kinds", () => {
  it("trains, stores, loads and evaluates", async () => {
    await using dir = await folder();
    const out = join(dir.path, "swarm");
    const specialists = [...tiny.specialists.slice(0, 1), ngram, format];
    using trained = await trainParl({ ...tiny.run, specialists, fuse: "outputs", out });
    expect(trained.outcome.steps).toBe(tiny.run.steps);
    expect(trained.swarm.specialists.map(({ id }) => id)).toEqual(["people", "ngram", "format"]);
    using run = await loadRun(out);
    expect(run.swarm!.specialists.slice(1).map((each) => each.weightsHash())).toEqual([
      ngram.weightsHash(),
      format.weightsHash(),
    ]);
    const figures = await evaluateRun(run, dataset, { split: "validation" });
    const controls = ["all-on", "all-off", "shuffled", "only people", "only ngram", "only format"];
    expect(Object.keys(figures.swarm!.controls)).toEqual(controls);
    const routing = ({ size }: Batch) =>
      Uint8Array.from({ length: 3 * size }, (_, at) => Number(at % 3 === 1));
    const set = await evaluationSet(dataset, "validation", run.labels, run.serialiser);
    const onlyNgram = await evaluate(calibrated(swarmLogits(run.swarm!, { routing }), run.calibration), set);
    expect(figures.swarm!.controls["only ngram"]!.macroF1).toBe(onlyNgram.macroF1);
    expect(Object.keys(figures.swarm!.activationRate)).toEqual(["people", "ngram", "format"]);
    const again = await trainParl({ ...tiny.run, specialists, fuse: "outputs", out, resume: true });
    again[Symbol.dispose]();
    await expect(trainParl({ ...tiny.run, specialists: [ngram], fuse: "states" })).rejects.toThrow(
      expectError("ERR_CONFIG", /no recurrent states of 'ngram'/),
    );
  });

  it("takes a column-wise model, which reads columns by a serialiser of its own", async () => {
    await using dir = await folder();
    const [wide, out] = [join(dir.path, "wide"), join(dir.path, "swarm")];
    const geometry = { archLayout: ["w1"], dModel: 32, headSize: 16, columns: { heads: 2 } };
    const serialise = { form: "columns", maxTokens: 32, maxContext: 2, targetCells: 3 } as const;
    const { model } = await trainSupervised({ dataset, model: geometry, serialise, steps: 4, out: wide });
    model.dispose();
    using alone = await loadRun(wide, { name: "wide" });
    const specialists = [ngram, { id: "wide", ...alone, model: alone.model! }];
    using trained = await trainParl({ ...tiny.run, specialists, fuse: "outputs", out, model: tinyModel });
    using run = await loadRun(out);
    const [, reader] = run.swarm!.specialists as [LinearSpecialist, ColumnModelSpecialist];
    expect(reader.weightsHash()).toBe(alone.model!.weightsHash());
    expect(stepCounts(run.swarm!).sub).toEqual([0, 1]);
    const columns = labelledRefs(dataset, "validation").slice(0, 5);
    const examples = await encodeTargets(alone.serialiser, columns);
    const own = await allLogits(alone.logitsOf, examples, alone.labels.length);
    const said = await reader.logProbabilities(columns);
    for (const [i, value] of logSoftmax(own, alone.labels.length).entries())
      expect(said[i]).toBeCloseTo(value, 5);
    expect(run.swarm!.outputFusion!.options.specialists.map(({ weight }) => weight)).toEqual([0.5, 0.5]);
    const before = await evaluateRun(run, dataset, { split: "validation" });
    const { macroF1, temperature, calibrationError } = run.calibration!;
    expect(before.macroF1).toBeCloseTo(macroF1, 5);
    expect(macroF1).toBeGreaterThanOrEqual(trained.outcome.best!.score - 1e-6);
    expect(temperature).not.toBe(1);
    expect(before.calibrationError).toBeCloseTo(calibrationError.after, 4);
  });

  it("learns from half of the validation sites, on which its specialists were not trained", async () => {
    const halves = learnFromValidation(dataset, tiny.run.seed!);
    const witness = new Witness();
    const { seen } = witness;
    const specialists = [witness];
    using trained = await trainParl({
      ...tiny.run,
      specialists,
      fuse: "outputs",
      model: tinyModel,
      learnFrom: "validation",
      primaryLrScale: 0,
      steps: 3,
    });
    expect(trained.outcome.steps).toBe(3);
    const names = (split: "train" | "validation") => new Set(halves.splits[split].map(({ table }) => table));
    expect(seen).toEqual(new Set([...names("train"), ...names("validation")]));
    expect([...names("train")].filter((name) => names("validation").has(name))).toEqual([]);
    expect(halves.splits.train.length + halves.splits.validation.length).toBe(
      dataset.splits.validation.length,
    );
    using fresh = new AegirForColumnAnnotation(
      { ...tinyModel, labels: trained.labels },
      { seed: tiny.run.seed },
    );
    // Nothing of the primary was learnt.
    expect(trained.swarm.primary.weightsHash()).toBe(fresh.weightsHash());
  });

  it("learns on held-out sites, where stand-ins answer that have not seen them", async () => {
    await using dir = await folder();
    const [first, out, primary] = [
      join(dir.path, "ngram"),
      join(dir.path, "swarm"),
      join(dir.path, "primary"),
    ];
    const holdOut = 0.4;
    const { seen: rest, held } = holdOutSites(dataset, holdOut);
    await trainSpecialist({ kind: "ngram", dataset, options: { folds: 0 }, holdOut, out: first });
    using run = await loadRun(first);
    // It was fitted to the other sites alone.
    const train = labelledRefs(rest, "train");
    const same = await trainNgramSpecialist(
      { train, validation: labelledRefs(rest, "validation"), labels: run.labels },
      { folds: 0 },
    );
    expect(run.specialist!.weightsHash()).toBe(same.weightsHash());
    const { model } = await trainSupervised({ dataset, model: tinyModel, holdOut, steps: 2, out: primary });
    model.dispose();

    const [own, stranger] = [new Witness(), new Witness()];
    const standIns = { witness: { ...run, specialist: stranger as unknown as LinearSpecialist } };
    const learning = {
      ...tiny.run,
      fuse: "outputs",
      model: tinyModel,
      learnFrom: "held-out",
      steps: 3,
    } as const;
    const whole = { ...learning, holdOut, specialists: [own], standIns, init: primary };
    (await trainParl(whole))[Symbol.dispose]();
    const names = (split: "train" | "validation") => new Set(held.splits[split].map(({ table }) => table));
    expect(stranger.seen).toEqual(names("train"));
    expect(own.seen).toEqual(names("validation"));

    // The swarm has the specialist itself, and its folder says who stood in for it.
    (await trainParl({ ...whole, specialists: [ngram], standIns: { ngram: run }, out }))[Symbol.dispose]();
    using loaded = await loadRun(out);
    expect(loaded.swarm!.specialists[0]!.weightsHash()).toBe(ngram.weightsHash());
    expect((await readRunConfig(out)).standIns).toEqual([{ id: "ngram", run: first }]);

    const seenAll = join(dir.path, "seen-all");
    await trainSpecialist({ kind: "ngram", dataset, options: { folds: 0 }, out: seenAll });
    using unfit = await loadRun(seenAll);
    const refused: [change: Partial<ParlRun>, message: RegExp][] = [
      [{ holdOut: undefined }, /holdOut: was undefined, with learnFrom held-out/],
      [{ learnFrom: "train" }, /holdOut: was 0\.4, with learnFrom train/],
      [{ holdOut: 0.3 }, /holdOut 0\.3 \(--hold-out 0\.3\)/],
      [{ standIns: { witness: unfit } }, /standIns 'witness': a run that held out nothing has seen/],
      [{ standIns: { other: run } }, /standIns: no specialist is called 'other'; they are witness/],
      [
        { specialists: tiny.specialists, standIns: { people: run }, fuse: "states" },
        /fuse was states, expected outputs/,
      ],
      [
        { init: tiny.run.init ?? join(out, "specialists", "ngram") },
        /trainParl\.init: a run that held out nothing/,
      ],
    ];
    for (const [change, message] of refused)
      await expect(trainParl({ ...whole, ...change }), String(message)).rejects.toThrow(
        expectError("ERR_CONFIG", message),
      );
  });

  it("learns the pool's weights alone where that is asked for", async () => {
    const specialists = [ngram, format];
    const run = {
      ...tiny.run,
      specialists,
      fuse: "outputs",
      model: tinyModel,
      primaryLrScale: 0,
      steps: 4,
    } as const;
    for (const poolOnly of [true, false]) {
      using trained = await trainParl({ ...run, poolOnly });
      const learnt = trained.swarm.outputFusion!.native.stateDict();
      const moved = (name: string, start: number) =>
        Array.from(learnt[name]!.data(), Number).some((x) => x !== start);
      expect([moved("labelWeight0", 0.5), moved("labelWeight1", 0.5), moved("ownWeight", 0)]).toEqual([
        true,
        true,
        true,
      ]);
      for (const name of ["projection0", "projection1", "labels0", "labels1"])
        expect(moved(name, 0), name).toBe(!poolOnly);
      for (const tensor of Object.values(learnt)) tensor.dispose();
    }
  });

  it("needs no model among the specialists", async () => {
    const { numLabels: _, ...model } = PRIMARY;
    using trained = await trainParl({ ...tiny.run, specialists: [ngram], fuse: "outputs", steps: 3, model });
    expect(trained.outcome.steps).toBe(3);
  });
});

function ones(rows: number, n: number): number[][] {
  return Array.from({ length: rows }, () => new Array<number>(n).fill(1));
}
