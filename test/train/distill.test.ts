import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Serialiser } from "../../lib/data/serialise.js";
import { holdOutSites } from "../../lib/data/split.js";
import type { Dataset, LabelledColumn, Table } from "../../lib/data/types.js";
import { folderSource, generatedSource, openTables } from "../../lib/train/dataSource.js";
import { defined } from "../../lib/train/defined.js";
import { distill, unlabelledColumns } from "../../lib/train/distill.js";
import { type Head, meanProbabilities } from "../../lib/train/heads.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { readRunConfig } from "../../lib/train/runFolder.js";
import { trainSupervised } from "../../lib/train/supervised.js";
import { abortAt, folder, shortColumns, tinyDataset, tinyModel } from "./support.js";

function setOf(
  splits: Partial<Record<"train" | "validation" | "test", LabelledColumn[]>>,
  names: string[],
): Dataset {
  const column = (text: string) => ({ header: null, cells: [text, ""] });
  const tables = names.map((name): Table => ({ name, columns: [column("a"), column("b"), column("")] }));
  return {
    name: "set",
    task: "cta",
    labels: ["x"],
    tables: new Map(tables.map((table) => [table.name, table])),
    splits: { train: [], validation: [], test: [], ...splits },
  };
}
const at = (table: string, column = 0): LabelledColumn => ({ table, column, label: "x" });

function trainingTables({ splits, tables }: Dataset): Table[] {
  return splits.train.map(({ table }) => tables.get(table)!);
}

describe("distillation", () => {
  test("reads every CSV file of a folder without labels, of other content than its own tables of that name", async () => {
    await using dir = await folder();
    await writeFile(join(dir.path, "a.csv"), "city\nLyon\nNice\n");
    await writeFile(join(dir.path, "b.csv"), "name,age\nAda,36\nAlan,41\n");
    await writeFile(join(dir.path, "held.csv"), "x\n1\n2\n");
    const tables = await openTables(folderSource(dir.path));
    expect(tables.map(({ name, columns }) => [name, columns.length])).toEqual([
      ["a.csv", 1],
      ["b.csv", 2],
      ["held.csv", 1],
    ]);
    const dataset = setOf({ train: [at("a.csv")], validation: [at("held.csv")] }, ["a.csv", "held.csv"]);
    const again = dataset.tables.get("a.csv")!;
    const found = unlabelledColumns(dataset, [...tables, again]);
    expect(found.map(({ table, column }) => [table.columns[column]!.cells.join(), column])).toEqual([
      [again.columns[1]!.cells.join(), 1],
      ["Lyon,Nice", 0],
      ["Ada,Alan", 0],
      ["36,41", 1],
    ]);
    await expect(openTables(folderSource(join(dir.path, "none")))).rejects.toThrow(/no such folder/);
    // labels.csv may name tables without .csv: they are the same tables.
    const bare = setOf({ train: [at("a")], validation: [at("held")] }, ["a", "held"]);
    const read = unlabelledColumns(bare, [{ name: "held.csv", columns: tables[2]!.columns }]);
    expect(read.map(({ table, column }) => [table.name, column])).toEqual([["a", 1]]);
    const own = { name: "a.csv", columns: bare.tables.get("a")!.columns };
    expect(unlabelledColumns(bare, [own]).map(({ table }) => table.name)).toEqual(["a"]);
    await writeFile(join(dir.path, "odd.csv"), Buffer.from([0, 1, 2, 0, 255]));
    await expect(openTables(folderSource(dir.path))).rejects.toThrow(/odd\.csv.*; or take the file out of/);
  });

  test("learns from no column that has a label, and from no table or site of validation and test", () => {
    const names = [
      "Book_a.com_May2020_CTA.json.gz",
      "Book_b.com_May2020_CTA.json.gz",
      "Book_c.com_May2020_CTA.json.gz",
    ];
    const [train, validation, held] = names as [string, string, string];
    const dataset = setOf({ train: [at(train)], validation: [at(validation)], test: [at(held)] }, names);
    const others = [
      "Movie_b.com_May2020_CPA.json.gz",
      "Movie_c.com_May2020_CPA.json.gz",
      held,
      "Movie_d.com_May2020_CPA.json.gz",
    ];
    const other = setOf({ train: others.map((name) => at(name)), test: [at("unseen")] }, [
      ...others,
      "unseen",
    ]);
    const found = unlabelledColumns(dataset, trainingTables(other)).map(({ table, column }) => [
      table.name,
      column,
    ]);
    expect(found).toEqual([
      [train, 1],
      [others[3], 0],
      [others[3], 1],
    ]);
  });

  test("a training table of a held-out site is left out, of the data's own tables too", () => {
    const [train, ofHeldSite, held, ofValidationSite, validation] = [
      "Book_a.com_May2020_CTA.json.gz",
      "Movie_b.com_May2020_CTA.json.gz",
      "Book_b.com_May2020_CTA.json.gz",
      "Movie_c.com_May2020_CTA.json.gz",
      "Book_c.com_May2020_CTA.json.gz",
    ] as const;
    const names = [train, ofHeldSite, held, ofValidationSite, validation];
    const dataset = setOf(
      {
        train: [at(train), at(ofHeldSite), at(ofValidationSite)],
        validation: [at(validation)],
        test: [at(held)],
      },
      names,
    );
    for (const others of [[], [dataset]]) {
      const found = unlabelledColumns(dataset, others.flatMap(trainingTables)).map(({ table, column }) => [
        table.name,
        column,
      ]);
      expect(found).toEqual([[train, 1]]);
    }
  });

  test("a student of one teacher says what it says; the run records who taught, and resumes", async () => {
    await using dir = await folder();
    const dataset = await tinyDataset();
    // Half of the labels are taken away: their columns are what the teacher is asked about.
    const train = dataset.splits.train.filter((_, i) => i % 2 === 0);
    const half = { ...dataset, splits: { ...dataset.splits, train } };
    const [teacher, out] = [join(dir.path, "teacher"), join(dir.path, "student")];
    const shared = {
      dataset: half,
      model: tinyModel,
      serialise: shortColumns,
      batchRows: 32,
      lr: 5e-3,
      seed: 1,
    };
    (await trainSupervised({ ...shared, out: teacher, steps: 30 })).model.dispose();
    using taught = await loadRun(teacher);
    const unlabelled = [generatedSource({ seed: 8, tables: 20, rows: 5 })];
    const run = {
      ...shared,
      teachers: [taught],
      unlabelled,
      softShare: 1,
      mixedCopies: 2,
      steps: 12,
      task: "student",
      saveEvery: 4,
    };
    await expect(distill({ ...run, out, ...abortAt("student", 6) })).rejects.toMatchObject({
      code: "ERR_ABORTED",
    });
    // Its options and its seed are in the record.
    const { softShare: _share, mixedCopies: _copies, seed: _seed, ...rest } = run;
    const resumed = await distill({ ...rest, out, resume: true });
    const unbroken = await distill(run);
    expect(resumed.model.weightsHash()).toBe(unbroken.model.weightsHash());
    const { distill: recorded } = await readRunConfig(out);
    expect(recorded).toMatchObject({ teachers: [teacher], share: 1 });
    expect(recorded).toMatchObject({ mixedCopies: 2 });
    const alone = unlabelledColumns(half, (await openTables(unlabelled[0]!)) as Table[]).length;
    expect(recorded!.columns).toBe(alone);
    // Two copies with a fifth of the columns left out, of labelled ones too.
    expect(recorded!.mixedColumns).toBeGreaterThan(1.2 * alone);
    await expect(trainSupervised({ dataset: half, out, resume: true })).rejects.toThrow(
      /cannot be resumed: distill/,
    );
    resumed.model.dispose();
    unbroken.model.dispose();
  });

  test("held-out sites are learnt from by student and teacher alike, or not at all", async () => {
    await using dir = await folder();
    const dataset = await tinyDataset();
    const holdOut = 0.3;
    const { seen } = holdOutSites(dataset, holdOut);
    const shared = { dataset, model: tinyModel, serialise: shortColumns, batchRows: 32, steps: 3 };
    const [teacher, out, unaware] = ["teacher", "student", "unaware"].map((name) => join(dir.path, name));
    (await trainSupervised({ ...shared, holdOut, out: teacher })).model.dispose();
    (await trainSupervised({ ...shared, out: unaware })).model.dispose();
    using taught = await loadRun(teacher!);
    using seenAll = await loadRun(unaware!);
    const held = await distill({ ...shared, holdOut, teachers: [taught], out });
    using own = held.model;
    // As if the other sites were all there is.
    const same = await distill({ ...shared, dataset: seen, teachers: [taught] });
    using alike = same.model;
    expect(own.weightsHash()).toBe(alike.weightsHash());
    expect(held.calibration).toEqual(same.calibration);
    expect((await readRunConfig(out!)).options.holdOut).toBe(holdOut);
    await expect(distill({ ...shared, holdOut, teachers: [seenAll] })).rejects.toThrow(
      /distill\.teachers: .*unaware: a run that held out nothing has seen columns that are held out here; train it with holdOut 0\.3/,
    );
  });

  test("CPA's columns without labels belong to the subject that the labels of their table are about", () => {
    const set = { ...setOf({ train: [{ ...at("a"), mainColumn: 1 }] }, ["a", "b"]), task: "cpa" as const };
    const table = set.tables.get("a")!;
    table.columns.push({ header: null, cells: ["c"] });
    expect(unlabelledColumns(set, [set.tables.get("b")!])).toEqual([
      { table, column: 3, mainColumn: 1 },
      { table: set.tables.get("b")!, column: 1, mainColumn: 0 },
    ]);
  });

  test("the teachers' mean is of softmax(logits / temperature)", async () => {
    const column = { table: { name: "t", columns: [{ header: null, cells: ["a"] }] }, column: 0 };
    const head = (logits: number[]): Head => ({
      dir: "head",
      task: "cta",
      labels: ["x", "y"],
      serialiser: new Serialiser(),
      logitsOf: async ({ size }) =>
        Float32Array.from({ length: 2 * size }, (_, i) => Math.log(logits[i % 2]!)),
    });
    const heads = [head([3, 1]), head([1, 1])];
    const of = async (temperature?: number) =>
      Array.from(await meanProbabilities(heads, [column, column], defined({ temperature })));
    for (const [temperature, first] of [
      [undefined, (0.75 + 0.5) / 2],
      [0.5, (0.9 + 0.5) / 2],
    ] as const) {
      const [a, b, c, d] = await of(temperature);
      expect(a).toBeCloseTo(first, 6);
      expect(a! + b!).toBeCloseTo(1, 6);
      expect([c, d]).toEqual([a, b]);
    }
  });

  test("refuses no teacher, one of other labels, and one that learnt what the student is judged by", async () => {
    await using dir = await folder();
    const dataset = await tinyDataset();
    await expect(distill({ dataset, teachers: [] })).rejects.toThrow(
      /distill\.teachers: expected at least one, got none/,
    );
    const teacher = join(dir.path, "teacher");
    (
      await trainSupervised({ dataset, model: tinyModel, serialise: shortColumns, steps: 1, out: teacher })
    ).model.dispose();
    using taught = await loadRun(teacher);
    for (const [learnFrom, holdOut] of [
      ["validation", undefined],
      ["held-out", 0.3],
    ] as const) {
      const judged = { config: { options: { learnFrom, ...defined({ holdOut }) } } };
      await expect(
        distill({
          dataset,
          ...defined({ holdOut }),
          teachers: [{ ...taught, ...judged } as unknown as Head],
        }),
      ).rejects.toThrow(`learnt from ${learnFrom} (learnFrom) has seen labels`);
    }
    const [first] = dataset.labels;
    const keep = (columns: LabelledColumn[]) => columns.filter(({ label }) => label !== first);
    const { train, validation, test: held } = dataset.splits;
    const fewer = {
      ...dataset,
      splits: { train: keep(train), validation: keep(validation), test: keep(held) },
    };
    await expect(distill({ dataset: fewer, teachers: [taught] })).rejects.toThrow(
      /was trained on other labels than/,
    );
  });
});
