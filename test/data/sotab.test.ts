import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { FAMILIES, familyOf, HARD_LABELS, labelFamilies } from "../../lib/data/families.js";
import { openDataset } from "../../lib/data/open.js";
import { Serialiser } from "../../lib/data/serialise.js";
import { readSotab, siteOf } from "../../lib/data/sotab.js";
import { SHARED_ABSENT, sharedData } from "./shared.js";

const folders: string[] = [];
let dir = "";
beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "aegir-sotab-"));
  folders.push(dir);
  await mkdir(path.join(dir, "Train"));
  await mkdir(path.join(dir, "Test"));
});
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))));

const write = (name: string, text: string) => writeFile(path.join(dir, name), text);
const table = (folder: string, name: string, rows: object[]) =>
  writeFile(path.join(dir, folder, name), gzipSync(rows.map((row) => JSON.stringify(row)).join("\n")));

describe("SOTAB's layout", () => {
  beforeEach(async () => {
    await table("Train", "Book_a.com_September2020_CTA.json.gz", [
      { 0: "One", 1: 12, 2: null },
      { 0: "Two", 2: "x" },
    ]);
    await table("Test", "Book_b.com_September2020_CTA.json.gz", [{ 0: "One" }, { 0: "Two" }]);
    await write(
      "cta_training_set.csv",
      "table_name,column_index,label\nBook_a.com_September2020_CTA.json.gz,0,name\nBook_a.com_September2020_CTA.json.gz,0,title\nBook_a.com_September2020_CTA.json.gz,1,pages\n",
    );
    await write(
      "cta_training_set_small.csv",
      "table_name,column_index,label\nBook_a.com_September2020_CTA.json.gz,1,pages\n",
    );
    await write(
      "cta_test_set.csv",
      "table_name,column_index,label\nBook_b.com_September2020_CTA.json.gz,0,title\n",
    );
    await write("manifest_test.csv", "table_name,n_columns\nx,1\n");
  });

  it("reads tables, splits and labels, and counts the defects", async () => {
    const dataset = await openDataset(dir);
    expect(dataset.labels).toEqual(["name", "pages", "title"]);
    expect(dataset.splits.validation).toEqual([]);
    expect(dataset.splits.train).toEqual([
      { table: "Book_a.com_September2020_CTA.json.gz", column: 0, label: "name", alternatives: ["title"] },
      { table: "Book_a.com_September2020_CTA.json.gz", column: 1, label: "pages" },
    ]);
    expect(
      dataset.tables.get("Book_a.com_September2020_CTA.json.gz")!.columns.map((column) => column.cells),
    ).toEqual([
      ["One", "Two"],
      ["12", ""],
      ["", "x"],
    ]);
    const warnings = dataset.warnings!.join("\n");
    expect(warnings).toMatch(/1 further labels/);
    expect(warnings).toMatch(/1 contents carry several labels/);
    expect(warnings).toMatch(/1 of 1 test columns have contents that occur in training/);
  });

  it("takes the small training file, or leaves sites out", async () => {
    expect((await openDataset(dir, { trainFile: "small" })).splits.train).toHaveLength(1);
    expect((await readSotab(dir, { task: "cta", excludeSites: ["a.com"] })).splits.train).toEqual([]);
    expect(siteOf("Book_11x17.pt_September2020_CTA.json.gz")).toBe("11x17.pt");
    await expect(openDataset(dir, { trainFile: "tiny" })).rejects.toMatchObject({
      code: "ERR_DATA",
      message: expect.stringMatching(
        /no training file 'tiny'; it has cta_training_set.csv, cta_training_set_small.csv/,
      ),
    });
  });

  it.each([
    [
      "cpa without main column",
      "cta_test_set.csv",
      "table_name,column_index,label\nx,0,a\n",
      /no column main_column_index.*task cta/,
      "cpa",
    ],
    [
      "a column that is no number",
      "cta_test_set.csv",
      "table_name,column_index,label\nBook_b.com_September2020_CTA.json.gz,one,a\n",
      /line 2: column_index was 'one'/,
      "cta",
    ],
    [
      "a column that is not there",
      "cta_test_set.csv",
      "table_name,column_index,label\nBook_b.com_September2020_CTA.json.gz,7,a\n",
      /column 7 of .* columns 0 to 0/,
      "cta",
    ],
    [
      "a table that is not there",
      "cta_test_set.csv",
      "table_name,column_index,label\nnone.json.gz,0,a\n",
      /no table 'none.json.gz'/,
      "cta",
    ],
    [
      "a table in two splits",
      "cta_test_set.csv",
      "table_name,column_index,label\nBook_a.com_September2020_CTA.json.gz,0,a\n",
      /in the splits train and test/,
      "cta",
    ],
    [
      "a path out of the folder",
      "cta_test_set.csv",
      "table_name,column_index,label\n../x.json.gz,0,a\n",
      /leaves the folder/,
      "cta",
    ],
  ] as const)("refuses %s", async (_what, file, text, message, task) => {
    await write(file, text);
    await expect(openDataset(dir, { task })).rejects.toMatchObject({
      code: "ERR_DATA",
      message: expect.stringMatching(message),
    });
  });

  it("refuses a table that is damaged", async () => {
    await write("Test/Book_b.com_September2020_CTA.json.gz", "no gzip");
    await expect(openDataset(dir)).rejects.toMatchObject({
      code: "ERR_DATA",
      message: expect.stringMatching(/not a readable gzip/),
    });
    await table("Test", "Book_b.com_September2020_CTA.json.gz", []);
    await expect(openDataset(dir)).rejects.toMatchObject({
      code: "ERR_DATA",
      message: expect.stringMatching(/without rows/),
    });
  });

  it("says what it looked for in a folder of neither layout", async () => {
    await expect(openDataset(path.join(dir, "Train"))).rejects.toMatchObject({
      code: "ERR_DATA",
      message: expect.stringMatching(/labels\.csv, or SOTAB's layout/),
    });
    await expect(openDataset(path.join(dir, "none"))).rejects.toMatchObject({
      code: "ERR_DATA",
      message: expect.stringMatching(/no such folder/),
    });
  });
});

describe("real tables", () => {
  it.for([
    ["sotab_v2/CTA", "cta", { train: 3303, validation: 1769, test: 850, labels: 82 }],
    ["sotab_v2", "cpa", { train: 2160, validation: 2454, test: 1152, labels: 108 }],
    ["sportstables", "cta", { train: 12388, validation: 3246, test: 2135, labels: 412 }],
    ["wikitables_turl", "cta", { train: 942, validation: 1019, test: 423, labels: 66 }],
  ] as const)("reads and serialises %s (%s)", async ([name, task, counts], { skip }) => {
    const shared = sharedData(name) ?? skip(SHARED_ABSENT);
    const dataset = await openDataset(shared, { task });
    const { train, validation, test } = dataset.splits;
    expect({
      train: train.length,
      validation: validation.length,
      test: test.length,
      labels: dataset.labels.length,
    }).toEqual(counts);
    const examples = new Serialiser().encodeSplit(dataset, "test");
    expect(examples).toHaveLength(counts.test);
    expect(examples.every(({ ids, pool }) => ids.length <= 128 && pool.includes(1))).toBe(true);
  });

  it("SOTAB CTA: the small training file, and every label in a family", async ({ skip }) => {
    const shared = sharedData("sotab_v2/CTA") ?? skip(SHARED_ABSENT);
    const dataset = await openDataset(shared, { trainFile: "small" });
    expect(dataset.splits.train).toHaveLength(1996);
    const families = labelFamilies(dataset);
    const sizes = FAMILIES.map((family) => [...families.values()].filter((other) => other === family).length);
    expect(Math.min(...sizes)).toBeGreaterThanOrEqual(10);
    for (const label of HARD_LABELS) expect(dataset.labels).toContain(label);
  });
});

describe("families", () => {
  it.each([
    ["Hotel/name", [], "names"],
    ["Hotel/description", [], "texts"],
    ["telephone", [], "places"],
    ["price", [], "numbers"],
    ["unheard of", ["12.5", "13.75"], "numbers"],
    ["unheard of", ["https://a.org", "www.b.org"], "places"],
    ["unheard of", ["a long text of many words that says a thing or two"], "texts"],
    ["unheard of", ["New York Yankees"], "names"],
  ] as const)("%s with %j is of %s", (label, cells, family) => {
    expect(familyOf(label, cells)).toBe(family);
  });
});
