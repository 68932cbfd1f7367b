import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { evaluationBatches } from "../../lib/data/batches.js";
import { Serialiser } from "../../lib/data/serialise.js";
import type { Dataset, LabelledColumn } from "../../lib/data/types.js";
import { AegirForColumnAnnotation, batchInput } from "../../lib/model/index.js";
import { native } from "../../lib/native/load.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { backward } from "../../lib/train/losses.js";
import { AdamW } from "../../lib/train/optimizer.js";
import { type SupervisedRun, trainSupervised } from "../../lib/train/supervised.js";
import { abortAt, folder, metricsOf, shortColumns, tinyDataset, tinyModel } from "./support.js";

/** The same tables with coarser labels: whether a column is mostly digits. */
function otherTask(dataset: Dataset, name: (table: string) => string = (table) => `other ${table}`): Dataset {
  const labelOf = ({ table, column }: LabelledColumn) => {
    const text = dataset.tables.get(table)!.columns[column]!.cells.join("");
    return text.replace(/\D/g, "").length * 2 > text.length ? "digits" : "text";
  };
  const renamed = (columns: LabelledColumn[]) =>
    columns.map((column) => ({ ...column, table: name(column.table), label: labelOf(column) }));
  const { train, validation, test } = dataset.splits;
  const tables = [...dataset.tables.values()].map((table) => ({ ...table, name: name(table.name) }));
  return {
    ...dataset,
    name: "other",
    labels: ["digits", "text"],
    tables: new Map(tables.map((table) => [table.name, table])),
    splits: { train: renamed(train), validation: renamed(validation), test: renamed(test) },
  };
}

describe("models on one backbone", () => {
  test("share what is learnt, have heads of their own, and outlive each other", async () => {
    const dataset = await tinyDataset();
    using model = new AegirForColumnAnnotation({ ...tinyModel, labels: ["a", "b"] }, { seed: 1 });
    const other = model.withHead(["x", "y", "z"], { seed: 2 });
    const examples = new Serialiser(shortColumns).encodeSplit(dataset, "validation").slice(0, 4);
    const [batch] = [...evaluationBatches(examples, { rows: 4 })];
    using inputs = batchInput(batch!);
    const before = (await model.forward(inputs)).pooled;
    const head = model.native.stateDict()["classifier.weight"]!.clone();
    const optimizer = new AdamW([{ module: other.native }], { weightDecay: 0 });
    const output = await other.forward(inputs, { grad: true });
    expect(output.logits.shape).toEqual([4, 3]);
    const labels = native().Tensor.fromData(Int32Array.from([0, 1, 2, 0]), [4], "i64");
    const { loss } = await native().crossEntropy(other.lane, { logits: output.logits, labels });
    await backward(other.lane, [{ losses: [loss], weights: [1] }]);
    await optimizer.step(other.lane, { lr: 1e-2, clipNorm: 1 });
    optimizer.dispose();
    other.dispose();
    const after = (await model.forward(inputs)).pooled;
    expect(after.maxAbsDiff(before)).toBeGreaterThan(1e-4);
    expect(model.native.stateDict()["classifier.weight"]!.equal(head)).toBe(true);
  });

  test("a backbone of other sizes is refused by name", () => {
    using model = new AegirForColumnAnnotation({ ...tinyModel, labels: ["a"] });
    expect(
      () => new AegirForColumnAnnotation({ ...tinyModel, vocabSize: 300, labels: ["a"] }, {}, model),
    ).toThrow(/backboneOf: its vocabSize is not this model's/);
  });
});

describe("multi-task training", () => {
  test("learns the other labels on the same backbone, resumes to the same numbers, and leaves an ordinary run", async () => {
    await using dir = await folder();
    const dataset = await tinyDataset();
    const run: SupervisedRun = {
      dataset,
      model: tinyModel,
      serialise: shortColumns,
      also: [{ name: "digits", dataset: otherTask(dataset), source: { kind: "test" } }],
      alsoShare: 0.5,
      steps: 14,
      batchRows: 16,
      lr: 5e-3,
      validateEvery: 7,
      saveEvery: 5,
      seed: 1,
      task: "tiny",
    };
    const [whole, broken] = [join(dir.path, "whole"), join(dir.path, "broken")];
    const reference = await trainSupervised({ ...run, out: whole });
    await expect(trainSupervised({ ...run, out: broken, ...abortAt("tiny", 8) })).rejects.toMatchObject({
      code: "ERR_ABORTED",
    });
    const resumed = await trainSupervised({
      dataset,
      also: run.also,
      out: broken,
      resume: true,
      task: "tiny",
    });
    expect(await metricsOf(broken)).toEqual(await metricsOf(whole));
    expect(resumed.model.weightsHash()).toBe(reference.model.weightsHash());
    const steps = (await metricsOf(whole)).filter(({ kind }) => kind === "train");
    const of = (name: string | null) =>
      steps.filter(({ also }) => also === name).map(({ loss }) => loss as number);
    expect(of(null).length + of("digits").length).toBe(14);
    expect(of("digits").length).toBeGreaterThan(3);
    // ln 2 at the start: two labels, and it is learnt.
    expect(of("digits")[0]).toBeCloseTo(Math.LN2, 0);
    expect(of("digits").at(-1)!).toBeLessThan(of("digits")[0]!);
    expect(of(null)[0]).toBeGreaterThan(2);
    using loaded = await loadRun(whole);
    expect(loaded.labels).toEqual(reference.labels);
    expect(loaded.config.also).toEqual([{ name: "digits", source: { kind: "test" } }]);
    for (const { model } of [reference, resumed]) model.dispose();
  });

  test("tables that the data are judged by teach nothing, under no other labels either", async () => {
    const dataset = await tinyDataset();
    const { validation, test: held } = dataset.splits;
    const names = new Set([...validation, ...held].map(({ table }) => table));
    // Everything that is left to train on is called as a held-out table is.
    const one = [...names][0]!;
    const other = otherTask(dataset, (table) => (names.has(table) ? table : one));
    const run = { dataset, model: tinyModel, serialise: shortColumns, steps: 1 };
    await using dir = await folder();
    const out = join(dir.path, "run");
    await expect(trainSupervised({ ...run, out, also: [{ name: "held", dataset: other }] })).rejects.toThrow(
      /held: no training column is left on sites that are not held out/,
    );
    expect(existsSync(out)).toBe(false);
    // labels.csv may name a table without .csv.
    const spelt = otherTask(dataset, (table) => (names.has(table) ? table : `${one}.csv`));
    await expect(trainSupervised({ ...run, also: [{ name: "spelt", dataset: spelt }] })).rejects.toThrow(
      /spelt: no training column is left/,
    );
    const twice = [1, 2].map(() => ({ name: "same", dataset: otherTask(dataset) }));
    await expect(trainSupervised({ ...run, also: twice })).rejects.toThrow(/two tasks have the name 'same'/);
  });
});
