import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { evaluationBatches } from "../../lib/data/batches.js";
import type { Dataset } from "../../lib/data/types.js";
import { native } from "../../lib/native/load.js";
import { annotateTable } from "../../lib/train/annotate.js";
import { evaluateRun } from "../../lib/train/evaluateRun.js";
import { encodeTargets } from "../../lib/train/examples.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { trainParl } from "../../lib/train/parl.js";
import { pretrain } from "../../lib/train/pretrain.js";
import { type SupervisedRun, trainSupervised } from "../../lib/train/supervised.js";
import { abortAt, folder, metricsOf, shortColumns, tinyDataset, tinyModel } from "./support.js";

const columnWise = {
  model: {
    archLayout: ["w1<w1"],
    dModel: 32,
    headSize: 16,
    columns: { heads: 2 },
    pooling: ["mean", "max"] as const,
  },
  serialise: {
    ...shortColumns,
    form: "columns",
    maxContext: 3,
    contextCells: 2,
    contextCellBytes: 16,
  } as const,
};

describe("column-wise training", () => {
  let dataset: Dataset;
  let run: SupervisedRun;
  beforeAll(async () => {
    dataset = await tinyDataset();
    run = {
      ...columnWise,
      dataset,
      steps: 12,
      batchRows: 16,
      batchTokens: 900,
      validateEvery: 4,
      saveEvery: 5,
      seed: 1,
      task: "tiny",
      ema: 0.9,
      dropRate: 0.3,
      decay: "linear",
    };
  });

  test("interrupted and resumed, it continues to the very numbers of an unbroken run, averaged weights among them", async () => {
    await using dir = await folder();
    const [whole, broken] = [join(dir.path, "whole"), join(dir.path, "broken")];
    const reference = await trainSupervised({ ...run, out: whole });
    const part = trainSupervised({ ...run, out: broken, ...abortAt("tiny", 7) });
    await expect(part).rejects.toMatchObject({ code: "ERR_ABORTED" });
    const resumed = await trainSupervised({ dataset, out: broken, resume: true, task: "tiny" });
    expect(resumed.model.weightsHash()).toBe(reference.model.weightsHash());
    expect(await metricsOf(broken)).toEqual(await metricsOf(whole));
    for (const file of [join("checkpoint", "average.safetensors"), join("best", "calibration.json")])
      expect((await readFile(join(broken, file))).equals(await readFile(join(whole, file)))).toBe(true);
    reference.model.dispose();
    resumed.model.dispose();
  });

  test("the model that a run ends with is the average that was judged, and evaluates the same when loaded", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    const { model, outcome, calibration } = await trainSupervised({
      ...run,
      out,
      steps: 60,
      batchRows: 32,
      batchTokens: 2000,
      lr: 5e-3,
    });
    const losses = (await metricsOf(out)).filter((r) => r.kind === "train").map((r) => r.loss as number);
    // 35 labels: a guess costs ln 35 = 3.56 nats.
    expect(losses[0]!).toBeGreaterThan(3.4);
    expect(Math.min(...losses.slice(-5))).toBeLessThan(2.9);
    using loaded = await loadRun(out);
    expect(loaded.model!.weightsHash()).toBe(model.weightsHash());
    expect(loaded.calibration).toEqual(calibration);
    const validation = await evaluateRun(loaded, dataset, { split: "validation" });
    // The power of the prior was chosen on these columns: 0 gives what training saw.
    expect(validation.macroF1).toBeGreaterThanOrEqual(outcome.best!.score - 1e-10);
    expect(validation.calibrationError).toBeCloseTo(calibration!.calibrationError.after, 6);
    expect(await annotateTable(loaded, [...dataset.tables.values()][0]!)).not.toHaveLength(0);
    model.dispose();
  });

  test("shared columns: a table is annotated with one encoding of each column, in whatever batches", async () => {
    const serialise = { ...columnWise.serialise, shared: true, maxContext: 16 };
    const { model, serialiser } = await trainSupervised({ ...run, serialise, steps: 2 });
    const table = [...dataset.tables.values()][0]!;
    const examples = await encodeTargets(
      serialiser,
      table.columns.map((_, column) => ({ table, column })),
    );
    const [batch] = [...evaluationBatches(examples)];
    expect(batch!.columns!.cuSeqlens).toHaveLength(table.columns.length + 1);
    expect(batch!.columns!.width).toBe(table.columns.length - 1);
    model.dispose();
  });

  test("a batch holds no more tokens than batchTokens, and tensors do not pile up", async () => {
    const before = native().memory().liveTensors;
    await using dir = await folder();
    const { model } = await trainSupervised({
      ...run,
      steps: 6,
      batchTokens: 300,
      out: join(dir.path, "run"),
    });
    model.dispose();
    for (const { kind, tokens } of await metricsOf(join(dir.path, "run")))
      if (kind === "train") expect(tokens).toBeLessThanOrEqual(300);
    await vi.waitFor(() => expect(native().memory().liveTensors).toBe(before));
  });

  test("a run that was recorded before an option came to be is resumed with its default", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    const old = { ...run, model: tinyModel, serialise: shortColumns, out, ema: 0, decay: "cosine" } as const;
    await expect(trainSupervised({ ...old, ...abortAt("tiny", 5) })).rejects.toMatchObject({
      code: "ERR_ABORTED",
    });
    const path = join(out, "config.json");
    const config = JSON.parse(await readFile(path, "utf8"));
    for (const name of ["decay", "beta2", "ownWeight", "ema", "calibrate"]) delete config.options[name];
    for (const name of ["form", "shared", "choose"]) delete config.serialise[name];
    await writeFile(path, JSON.stringify(config));
    const resumed = await trainSupervised({ dataset, out, resume: true, task: "tiny" });
    expect(resumed.outcome.steps).toBe(12);
    resumed.model.dispose();
  });

  test("what does not go together is refused before anything is written", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    await expect(trainSupervised({ ...run, out, serialise: shortColumns })).rejects.toThrow(
      /serialise\.form: is "sequence", but the model has columns/,
    );
    await expect(trainSupervised({ ...run, out, model: tinyModel })).rejects.toThrow(
      /"columns" needs a model with columns/,
    );
    const { serialise } = columnWise;
    await expect(pretrain({ dataset, model: tinyModel, serialise, out })).rejects.toThrow(
      /a language model reads sequences/,
    );
    const { model, serialiser } = await trainSupervised({ ...run, steps: 1 });
    const specialists = [{ id: "wide", model, serialiser }];
    await expect(trainParl({ dataset, specialists, out })).rejects.toThrow(
      /no recurrent states of 'wide' to fuse; use fuse: "outputs"/,
    );
    await expect(trainParl({ dataset, specialists, out, ...columnWise })).rejects.toThrow(
      /the primary is a column-wise model, and the primary of a swarm reads/,
    );
    model.dispose();
    await expect(loadRun(out)).rejects.toThrow(/no such run folder/);
  });
});
