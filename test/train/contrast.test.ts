import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { ColumnRef } from "../../lib/data/types.js";
import { contrastable, viewsOf } from "../../lib/train/contrast.js";
import { pretrain } from "../../lib/train/pretrain.js";
import { trainSupervised } from "../../lib/train/supervised.js";
import { abortAt, folder, metricsOf, shortColumns, tinyDataset, tinyModel } from "./support.js";

function ref(...cells: string[]): ColumnRef {
  return { table: { name: "t", columns: [{ header: null, cells }] }, column: 0 };
}

describe("views of a column", () => {
  test("share no cell, lose none, and change with the epoch alone", () => {
    const column = ref("a", "b", "", "c", "d", " ", "e");
    for (const objective of ["same-column", "masked-cell"] as const) {
      const epochs = Array.from({ length: 20 }, (_, epoch) => viewsOf(column, objective, 3, epoch));
      for (const [first, second] of epochs) {
        expect([...first, ...second].sort()).toEqual(["a", "b", "c", "d", "e"]);
        expect(second.length).toBe(objective === "same-column" ? 2 : 1);
      }
      expect(viewsOf(column, objective, 3, 7)).toEqual(epochs[7]);
      expect(new Set(epochs.map(([, second]) => second.toSorted().join())).size).toBeGreaterThan(3);
    }
  });

  test("need two cells that are not blank", () => {
    expect(contrastable([ref("a", ""), ref("a", "b"), ref(" ", "")])).toEqual([ref("a", "b")]);
  });
});

describe.each(["same-column", "masked-cell"] as const)("pretraining by %s", (objective) => {
  test("tells columns apart better than chance, resumes to the same numbers, and starts a model", async () => {
    await using dir = await folder();
    const dataset = await tinyDataset();
    const [whole, broken] = [join(dir.path, "whole"), join(dir.path, "broken")];
    const run = {
      dataset,
      objective,
      model: tinyModel,
      serialise: shortColumns,
      steps: 40,
      batchRows: 16,
      lr: 1e-2,
      validateEvery: 40,
      saveEvery: 12,
      seed: 1,
      task: "tiny",
    };
    const { model, outcome } = await pretrain({ ...run, out: whole });
    const records = await metricsOf(whole);
    const validation = records.find(({ kind }) => kind === "validation")!;
    const losses = records.flatMap(({ kind, loss }) => (kind === "train" ? [loss as number] : []));
    // 16 columns of a batch, nothing known: ln 16.
    expect(losses[0]).toBeGreaterThan(2);
    expect(-outcome.best!.score).toBeLessThan(Math.log(16) - 0.5);
    expect(validation.retrieved).toBeGreaterThan(2 / 16);
    await expect(pretrain({ ...run, out: broken, ...abortAt("tiny", 18) })).rejects.toMatchObject({
      code: "ERR_ABORTED",
    });
    const resumed = await pretrain({ dataset, out: broken, resume: true, task: "tiny" });
    expect(await metricsOf(broken)).toEqual(records);
    expect(resumed.model.weightsHash()).toBe(model.weightsHash());
    const { steps: _, task: __, objective: ___, ...shared } = run;
    const started = await trainSupervised({ ...shared, steps: 1, lr: 1e-12, init: whole });
    for (const name of ["backbone.byteEmbedding.weight", "pooler.weight"]) {
      const [own, from] = [started.model, model].map((each) => each.stateDict()[name]!);
      expect(own!.maxAbsDiff(from!), name).toBeLessThan(1e-9);
    }
    for (const each of [model, resumed.model, started.model]) each.dispose();
  });
});

test("a column-wise model learns by contrast too; columns of one cell are refused", async () => {
  const dataset = await tinyDataset();
  const geometry = { archLayout: ["w1"], dModel: 32, headSize: 16 };
  const run = { dataset, objective: "same-column", steps: 3, batchRows: 8 } as const;
  const serialise = { ...shortColumns, form: "columns" } as const;
  const { model } = await pretrain({ ...run, model: { ...geometry, columns: { heads: 2 } }, serialise });
  model.dispose();
  await expect(pretrain({ ...run, model: geometry, serialise })).rejects.toThrow(
    /"columns" needs a model with columns/,
  );
  const tables = [...dataset.tables].map(
    ([name, { columns }]) =>
      [name, { name, columns: columns.map((one) => ({ ...one, cells: one.cells.slice(0, 1) })) }] as const,
  );
  const short = { ...dataset, tables: new Map(tables) };
  await expect(pretrain({ ...run, dataset: short, model: geometry })).rejects.toThrow(
    /0 columns have two cells that are not blank/,
  );
});
