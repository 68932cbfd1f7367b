import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { readCsv } from "../../lib/data/csv.js";
import { writeDataset } from "../../lib/data/csvFolder.js";
import { SPLITS } from "../../lib/data/dataset.js";
import { generateDataset } from "../../lib/data/generator.js";
import { openDataset } from "../../lib/data/open.js";
import type { Dataset } from "../../lib/data/types.js";

const folders: string[] = [];
let dir = "";
beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "aegir-folder-"));
  folders.push(dir);
});
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))));

const write = (name: string, text: string) => writeFile(path.join(dir, name), text);

describe("a folder of CSV files with labels.csv", () => {
  it("is read back as it was written", async () => {
    const dataset = await generateDataset({ tables: 60, seed: 3, noise: 0.2, variety: 1 });
    const out = path.join(dir, "data");
    await writeDataset(out, dataset);
    const read = await openDataset(out);
    await expect(openDataset(out, { trainFile: "small" })).rejects.toMatchObject({
      code: "ERR_CONFIG",
      message: expect.stringContaining("trainFile (--train-file): was 'small'"),
    });
    expect(read.labels).toEqual(dataset.labels);
    expect(read.splits).toEqual(dataset.splits);
    for (const table of dataset.tables.values()) expect(read.tables.get(table.name)).toEqual(table);
    expect(read.tables.size).toBe(dataset.tables.size);
  });

  it("is read back for CPA, with hostile cells and without headers", async () => {
    const cells = ['"q"', "a,b;c\td|e", "x\ny", " edge ", "", "\ufeffmark"];
    const dataset: Dataset = {
      name: "cpa",
      task: "cpa",
      labels: ["p,q", "r"],
      tables: new Map([
        [
          "t one",
          {
            name: "t one",
            columns: [cells, cells.toReversed(), cells].map((c) => ({ header: null, cells: c })),
          },
        ],
      ]),
      splits: {
        train: [
          { table: "t one", mainColumn: 0, column: 1, label: "p,q" },
          { table: "t one", mainColumn: 0, column: 2, label: "r" },
        ],
        validation: [],
        test: [],
      },
    };
    await writeDataset(path.join(dir, "cpa"), dataset);
    const read = await openDataset(path.join(dir, "cpa"), { task: "cpa" });
    expect({ ...read, warnings: undefined }).toEqual({ ...dataset, warnings: undefined });
  });

  it("is never overwritten unasked, and nothing but a data set is", async () => {
    const dataset = await generateDataset({ tables: 3 });
    const out = path.join(dir, "data");
    await writeDataset(out, dataset);
    await expect(writeDataset(out, dataset)).rejects.toMatchObject({
      code: "ERR_DATA",
      message: expect.stringMatching(/not empty/),
    });
    await writeDataset(out, await generateDataset({ tables: 2 }), { overwrite: true });
    expect((await readdir(out)).sort()).toEqual(["labels.csv", "table-00000.csv", "table-00001.csv"]);
    await write("precious.txt", "keep me");
    await expect(writeDataset(dir, dataset, { overwrite: true })).rejects.toThrow(/no data set to overwrite/);
    expect(await readFile(path.join(dir, "precious.txt"), "utf8")).toBe("keep me");
  });

  it("gets a seeded split by table where labels.csv has none", async () => {
    const lines = ["table_name,column_index,label"];
    for (let i = 0; i < 40; i++) {
      await write(`t${i}.csv`, `id,city\n${i},Rome\n${i + 1},Oslo\n`);
      lines.push(`t${i}.csv,0,id`, `t${i}.csv,1,city`);
    }
    await write("labels.csv", lines.join("\n"));
    const dataset = await openDataset(dir, { seed: 1 });
    const tablesOf = SPLITS.map((split) => new Set(dataset.splits[split].map((column) => column.table)));
    expect(tablesOf.map((tables) => tables.size)).toEqual([28, 6, 6]);
    expect(new Set(tablesOf.flatMap((tables) => [...tables])).size).toBe(40);
    expect((await openDataset(dir, { seed: 1 })).splits).toEqual(dataset.splits);
    expect((await openDataset(dir, { seed: 2 })).splits).not.toEqual(dataset.splits);
    expect(dataset.tables.get("t0.csv")!.columns[1]).toEqual({ header: "city", cells: ["Rome", "Oslo"] });
  });

  it.each([
    [
      "a table in two splits",
      "t.csv,0,a,train\nt.csv,1,b,test\n",
      /line 3: table 't\.csv' is in the splits train and test/,
    ],
    ["a split of another name", "t.csv,0,a,holdout\n", /line 2: split was 'holdout'/],
    ["a missing split", "t.csv,0,a,train\nt.csv,1,b,\n", /line 3: no split/],
    ["a missing file", "u.csv,0,a,train\n", /no file 'u\.csv'/],
    ["a column that is not there", "t.csv,2,a,train\n", /column 2 of 't\.csv', which has columns 0 to 1/],
    ["a path out of the folder", "../t.csv,0,a,train\n", /leaves the folder/],
    ["a split named as a property of objects", "t.csv,0,a,constructor\n", /split was 'constructor'/],
    ["two names of one table", "t.csv,0,a,train\nt,1,b,test\n", /line 3: 't' is named 't\.csv' in line 2/],
    ["no lines", "", /labels\.csv: no lines below its header/],
    ["an empty label", "t.csv,0,,train\n", /line 2: label is empty/],
  ])("refuses %s", async (_what, lines, message) => {
    await write("t.csv", "x,y\n1,2\n");
    await write("labels.csv", `table_name,column_index,label,split\n${lines}`);
    await expect(openDataset(dir)).rejects.toMatchObject({
      code: "ERR_DATA",
      message: expect.stringMatching(message),
    });
  });

  it("refuses a header that is neither yes nor no, or both, and columns of one name", async () => {
    await write("t.csv", "x,y\n1,2\n");
    const labels = (header: string, lines: string) =>
      write("labels.csv", `table_name,column_index,${header}\n${lines}`);
    await labels("label,header", "t,0,a,maybe\n");
    await expect(openDataset(dir)).rejects.toThrow(/line 2: header was 'maybe', expected yes or no/);
    await labels("label,header", "t,0,a,yes\nt,1,b,no\n");
    await expect(openDataset(dir)).rejects.toThrow(/line 3: header of 't' differs from that in line 2/);
    await labels("label,label", "t,0,a,b\n");
    await expect(openDataset(dir)).rejects.toThrow(/two columns are named 'label'/);
  });

  it("names the columns that labels.csv lacks", async () => {
    await write("labels.csv", "table,label\nt.csv,a\n");
    await expect(openDataset(dir)).rejects.toThrow(/no column table_name, column_index; it has table, label/);
  });
});

describe("example tables", () => {
  const examples = path.resolve(import.meta.dirname, "../../examples/data");

  it.each([
    ["customers.csv", ",", 7, 32, "customer"],
    ["orders.csv", ";", 8, 36, "order"],
    ["sites.csv", ",", 7, 40, null],
  ])("%s is read as it is meant", async (name, delimiter, width, rows, header) => {
    const table = await readCsv(path.join(examples, name));
    expect([table.delimiter, table.columns.length, table.rows]).toEqual([delimiter, width, rows]);
    expect(table.columns[0]!.header).toBe(header);
  });
});
