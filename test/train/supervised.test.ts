import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test, vi } from "vitest";
import type { Dataset, LabelledColumn } from "../../lib/data/types.js";
import { native } from "../../lib/native/load.js";
import { annotateTable } from "../../lib/train/annotate.js";
import { evaluateRun } from "../../lib/train/evaluateRun.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { pretrain } from "../../lib/train/pretrain.js";
import { type SupervisedRun, trainSupervised } from "../../lib/train/supervised.js";
import { abortAt, folder, metricsOf, shortColumns, tinyDataset, tinyModel } from "./support.js";

describe("supervised training", () => {
  let dataset: Dataset;
  let run: SupervisedRun;
  beforeAll(async () => {
    dataset = await tinyDataset();
    run = {
      dataset,
      model: tinyModel,
      serialise: shortColumns,
      steps: 12,
      batchRows: 16,
      validateEvery: 4,
      saveEvery: 5,
      seed: 1,
      task: "tiny",
    };
  });

  test("interrupted and resumed, it continues to the very numbers of an unbroken run", async () => {
    await using dir = await folder();
    const [whole, broken] = [join(dir.path, "whole"), join(dir.path, "broken")];
    // Dropout draws by step; the n-gram table is part of weights and moments like any other.
    const all = { ...run, dropout: 0.2, model: { ...tinyModel, ngrams: { buckets: 500, width: 8 } } };
    const reference = await trainSupervised({ ...all, out: whole });
    for (const stop of [3, 7]) {
      const part = trainSupervised({ ...all, out: broken, resume: stop !== 3, ...abortAt("tiny", stop) });
      await expect(part).rejects.toMatchObject({ code: "ERR_ABORTED" });
    }
    const resumed = await trainSupervised({ dataset, out: broken, resume: true, task: "tiny" });
    expect(resumed.outcome.steps).toBe(12);
    expect(resumed.model.weightsHash()).toBe(reference.model.weightsHash());
    expect(await metricsOf(broken)).toEqual(await metricsOf(whole));
    for (const name of ["model", "optimizer"]) {
      const file = join("checkpoint", `${name}.safetensors`);
      expect((await readFile(join(broken, file))).equals(await readFile(join(whole, file)))).toBe(true);
    }
    reference.model.dispose();
    resumed.model.dispose();
  });

  test("it learns: the loss falls, and the run folder annotates and evaluates as the model in memory does", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    const { model, outcome, labels } = await trainSupervised({
      ...run,
      out,
      steps: 60,
      batchRows: 32,
      lr: 5e-3,
      // Evaluated, the model should say what training saw.
      calibrate: false,
    });
    const losses = (await metricsOf(out)).filter((r) => r.kind === "train").map((r) => r.loss as number);
    // 35 labels: a guess costs ln 35 = 3.56 nats.
    expect(losses[0]!).toBeGreaterThan(3);
    expect(Math.min(...losses.slice(-5))).toBeLessThan(2.5);
    using loaded = await loadRun(out);
    expect(loaded.model!.weightsHash()).toBe(model.weightsHash());
    expect(loaded.labels).toEqual(labels);
    const validation = await evaluateRun(loaded, dataset, { split: "validation" });
    expect(validation.macroF1).toBeCloseTo(outcome.best!.score, 10);
    const table = [...dataset.tables.values()][0]!;
    const annotations = await annotateTable(loaded, table);
    expect(annotations).toHaveLength(table.columns.length);
    for (const { type, confidence, runnerUp, runnerUpConfidence } of annotations) {
      expect(labels).toContain(type);
      expect(runnerUp).not.toBe(type);
      expect(confidence).toBeGreaterThanOrEqual(runnerUpConfidence);
      expect(confidence + runnerUpConfidence).toBeLessThanOrEqual(1 + 1e-6);
    }
    model.dispose();
  });

  test("tensors do not pile up", async () => {
    const before = native().memory().liveTensors;
    const { model } = await trainSupervised({ ...run, steps: 3 });
    model.dispose();
    await vi.waitFor(() => expect(native().memory().liveTensors).toBe(before));
  });

  test("pretraining lowers the next-byte loss and initialises a model of the same backbone", async () => {
    await using dir = await folder();
    const [pre, out] = [join(dir.path, "pre"), join(dir.path, "run")];
    const { model, outcome } = await pretrain({
      dataset,
      model: tinyModel,
      serialise: shortColumns,
      steps: 12,
      batchRows: 16,
      validateEvery: 6,
      out: pre,
    });
    // Uniform over 264 ids: ln 264 = 5.58 nats.
    expect(-outcome.best!.score).toBeLessThan(5.4);
    const embedding = "backbone.byteEmbedding.weight";
    const pretrained = model.stateDict()[embedding]!;
    const started = await trainSupervised({ ...run, init: pre, out, steps: 1, lr: 1e-12 });
    // One step of a vanishing learning rate leaves the copied weights as they are.
    expect(started.model.stateDict()[embedding]!.maxAbsDiff(pretrained)).toBeLessThan(1e-9);
    await expect(
      trainSupervised({ ...run, init: pre, model: { ...tinyModel, dModel: 64 } }),
    ).rejects.toMatchObject({ code: "ERR_CHECKPOINT", message: expect.stringContaining("dModel") });
    // Another way of pooling: the backbone is copied, the pooler keeps its initial values.
    const pooled = await trainSupervised({
      ...run,
      init: out,
      model: { ...tinyModel, pooling: ["mean", "max"] },
      steps: 1,
      lr: 1e-12,
    });
    expect(pooled.model.stateDict()[embedding]!.maxAbsDiff(pretrained)).toBeLessThan(1e-9);
    pooled.model.dispose();
    await expect(loadRun(pre)).rejects.toMatchObject({ code: "ERR_CONFIG" });
    model.dispose();
    started.model.dispose();
  });
});

describe("bad input", () => {
  let dataset: Dataset;
  beforeAll(async () => {
    dataset = await tinyDataset();
  });
  const small = { model: tinyModel, serialise: shortColumns, steps: 2, batchRows: 8 };

  test("an unknown option, a label absent from training: nothing is written", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    const options = { ...small, dataset, out, batchRow: 4 };
    await expect(trainSupervised(options)).rejects.toMatchObject({
      code: "ERR_CONFIG",
      message: expect.stringContaining("did you mean 'batchRows'"),
    });
    const [first] = dataset.splits.validation;
    const strange: Dataset = {
      ...dataset,
      labels: [...dataset.labels, "zodiacSign"],
      splits: {
        ...dataset.splits,
        validation: [{ ...first!, label: "zodiacSign" }, ...dataset.splits.validation],
      },
    };
    await expect(trainSupervised({ ...small, dataset: strange, out })).rejects.toMatchObject({
      code: "ERR_DATA",
      message: expect.stringMatching(/zodiacSign.*label a training column of each/),
    });
    expect(await readdir(dir.path)).toEqual([]);
  });

  test("resuming on other data is refused, and on the same read again goes on", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    const run = { ...small, dataset, out, steps: 12, saveEvery: 5, task: "tiny" };
    await expect(trainSupervised({ ...run, ...abortAt("tiny", 3) })).rejects.toMatchObject({
      code: "ERR_ABORTED",
    });
    const changes: [split: "train" | "validation", change: (data: Dataset, at: LabelledColumn) => void][] = [
      [
        "train",
        ({ tables }, { table, column }) => void tables.get(table)!.columns[column]!.cells.push("more"),
      ],
      [
        "validation",
        ({ tables }, { table, column }) => (tables.get(table)!.columns[column]!.cells[0] += "?"),
      ],
      [
        "train",
        ({ splits, labels }, at) => (splits.train[0] = { ...at, label: labels.find((l) => l !== at.label)! }),
      ],
      ["validation", ({ splits }) => void splits.validation.reverse()],
    ];
    for (const [split, change] of changes) {
      const other = structuredClone(dataset);
      change(other, other.splits[split][0]!);
      const resumed = trainSupervised({ ...run, dataset: other, resume: true });
      await expect(resumed).rejects.toThrow(
        /the labelled columns or their cells are not those that it began with/,
      );
    }
    const same = await trainSupervised({ ...run, dataset: structuredClone(dataset), resume: true });
    expect(same.outcome.steps).toBe(12);
    same.model.dispose();
  });

  test("a folder that holds a run already, resuming with other options, resuming nothing", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    const { model } = await trainSupervised({ ...small, dataset, out });
    model.dispose();
    await expect(trainSupervised({ ...small, dataset, out })).rejects.toThrow(/already holds a run/);
    await expect(trainSupervised({ ...small, dataset, out, resume: true, lr: 1e-3 })).rejects.toThrow(
      /options\.lr is 0\.0025 in the run, 0\.001 here/,
    );
    await expect(
      trainSupervised({ ...small, dataset, out: join(dir.path, "none"), resume: true }),
    ).rejects.toThrow(/no such run folder/);
    await expect(trainSupervised({ ...small, dataset, out: "" })).rejects.toThrow(
      /out \(--out\): expected a run/,
    );
    await expect(loadRun(dir.path)).rejects.toThrow(/is not a run folder/);
  });

  test.each([
    [{ step: "4" }, /checkpoint: state\.step: .*expected number/],
    [{ step: 1e6 }, /is of step 1000000, and the run has/],
    [{ metricsBytes: null }, /state\.metricsBytes/],
    [{ trainee: null }, /checkpoint: is damaged/],
  ])("a checkpoint whose state is %j is refused, and the folder is free again", async (change, message) => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    (await trainSupervised({ ...small, dataset, out })).model.dispose();
    const path = join(out, "checkpoint", "state.json");
    const head = JSON.parse(await readFile(path, "utf8"));
    await writeFile(path, JSON.stringify({ ...head, state: { ...head.state, ...change } }));
    await expect(trainSupervised({ dataset, out, resume: true })).rejects.toMatchObject({
      code: "ERR_CHECKPOINT",
      message: expect.stringMatching(message),
    });
    expect(await readdir(out)).not.toContain("lock");
  });

  test("a configuration that names no swarm, or folders outside, is refused", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    (await trainSupervised({ ...small, dataset, out })).model.dispose();
    const config = JSON.parse(await readFile(join(out, "config.json"), "utf8"));
    const parts = { fuse: "states", fusionMode: "gated" };
    for (const swarm of [undefined, {}, { ...parts, specialists: ["../../run"] }]) {
      await writeFile(join(out, "config.json"), JSON.stringify({ ...config, kind: "parl", swarm }));
      await expect(loadRun(out)).rejects.toMatchObject({
        code: "ERR_CHECKPOINT",
        message: expect.stringContaining("is not a run's: "),
      });
    }
  });

  test("damaged weights and weights of other geometry are named", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    const { model } = await trainSupervised({ ...small, dataset, out });
    model.dispose();
    const weights = join(out, "best", "model.safetensors");
    const whole = await readFile(weights);
    await writeFile(weights, whole.subarray(0, whole.length - 100));
    await expect(loadRun(out)).rejects.toThrow(/model\.safetensors is truncated/);
    await writeFile(weights, whole);
    const config = JSON.parse(await readFile(join(out, "config.json"), "utf8"));
    config.model.dModel = [64, 64];
    await writeFile(join(out, "config.json"), JSON.stringify(config));
    await expect(loadRun(out)).rejects.toMatchObject({
      code: "ERR_CHECKPOINT",
      message: expect.stringContaining("dModel[0] is 32 in the checkpoint, 64 in this model"),
    });
  });

  test("tables that cannot be annotated", async () => {
    const annotator = {
      task: "cta" as const,
      labels: ["a"],
      serialiser: null as never,
      logitsOf: null as never,
    };
    const wide = Array.from({ length: 5000 }, () => ({ header: null, cells: ["1"] }));
    await expect(annotateTable(annotator, { name: "wide.csv", columns: wide })).rejects.toThrow(
      /wide\.csv: 5000 columns/,
    );
    const empty = [{ header: "a", cells: ["", " "] }];
    await expect(annotateTable(annotator, { name: "empty.csv", columns: empty })).rejects.toThrow(
      /table is empty/,
    );
    await expect(annotateTable(annotator, { name: "none.csv", columns: [] })).rejects.toThrow(
      /table is empty/,
    );
  });
});
