import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  AegirForColumnAnnotation,
  type Annotator,
  annotateFiles,
  annotateTable,
  Lane,
  readCsv,
  Serialiser,
  type Table,
} from "../../lib/index.js";
import { native } from "../../lib/native/load.js";
import { modelLogits } from "../../lib/train/predict.js";

const labels = ["city", "price", "name"];

describe("annotateFiles", () => {
  let dir: string;
  const model = new AegirForColumnAnnotation(
    { archLayout: ["w2"], dModel: 32, headSize: 16, labels },
    { seed: 1 },
  );
  const lanes = [new Lane({ name: "a" }), new Lane({ name: "b" })];
  const annotator = (given: Partial<Annotator> = {}): Annotator => ({
    task: "cta",
    labels,
    serialiser: new Serialiser({ maxTokens: 48 }),
    logitsOf: modelLogits(model, lanes),
    concurrency: 3,
    ...given,
  });
  const path = (name: string) => join(dir, name);

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "aegir-annotate-"));
    for (const [i, folder] of ["2025", "2026"].entries()) {
      await mkdir(path(folder));
      await writeFile(path(`${folder}/shops.csv`), `city;price\nParis;1${i}.50\nLyon;3.00\n`);
    }
    await writeFile(path("people.csv"), "name,age,id\nAnna,31,A1\nBo,4,B2\nCara,55,C3\n");
    await writeFile(path("header.csv"), "Kennung;Ort\n");
    await writeFile(path("empty.csv"), "name,city\n,\n , \n");
  });
  afterAll(async () => {
    model.dispose();
    await Promise.all(lanes.map((lane) => lane.close()));
    expect(native().memory().liveTensors).toBe(0);
    await rm(dir, { recursive: true });
  });

  test.each([
    [[["a", "b"]], "table was an array of 1"],
    [{ columns: [] }, "table.name was undefined"],
    [{ name: "t", header: ["a"], columns: [["Ann"]] }, "table.columns[0] was an array of 1"],
    [{ name: "t", columns: [{ cells: ["a"] }] }, "table.columns[0].header was undefined"],
    [{ name: "t", columns: [{ header: null, cells: "a" }] }, "table.columns[0].cells was a"],
    [{ name: "t", columns: [{ header: null, cells: ["a", 3] }] }, "table.columns[0].cells[1] was 3"],
  ])("of a table in memory that is none, %j, names the first part that is wrong", async (table, message) => {
    await expect(annotateTable(annotator(), table as unknown as Table)).rejects.toMatchObject({
      code: "ERR_ARGUMENT",
      message: expect.stringContaining(`${message}; expected { name, columns:`),
    });
  });

  test("says of several tables what it says of each, in their order", async () => {
    const files = Array.from({ length: 300 }, (_, i) => path(i % 2 ? "people.csv" : "2025/shops.csv"));
    const results = await annotateFiles(annotator(), files);
    expect(results.map(({ file }) => file)).toEqual(files);
    const alone = await Promise.all(
      files.slice(0, 2).map(async (file) => annotateTable(annotator(), await readCsv(file))),
    );
    for (const [i, { columns, error }] of results.entries()) {
      expect(error).toBeNull();
      for (const [c, column] of columns.entries()) {
        const expected = alone[i % 2]![c]!;
        expect(column).toMatchObject({ column: c, header: expected.header, type: expected.type });
        // Other rows in the batch: other sizes of matrix products, so other sums.
        expect(column.confidence).toBeCloseTo(expected.confidence, 5);
      }
      expect(columns).toHaveLength(alone[i % 2]!.length);
    }
  });

  test("names tables by file, or by path where two files have one name", async () => {
    const files = [path("2025/shops.csv"), path("people.csv"), path("2026/shops.csv")];
    const tables = (await annotateFiles(annotator(), files)).map(({ columns }) => columns[0]!.table);
    expect(tables).toEqual([files[0], "people.csv", files[2]]);
  });

  test("a bad file gets its error, the others their types", async () => {
    const files = ["header.csv", "people.csv", "missing.csv", "empty.csv"].map(path);
    const results = await annotateFiles(annotator(), files);
    expect(results.map(({ columns }) => columns.length)).toEqual([0, 3, 0, 0]);
    for (const [i, message] of [
      [0, "a header and no rows"],
      [2, "no such file"],
      [3, "the table is empty"],
    ] as const) {
      expect(results[i]!.error).toMatchObject({ code: "ERR_DATA" });
      expect(results[i]!.error!.message).toContain(`${files[i]}: ${message}`);
    }
    const blank = { name: "blank", columns: [{ header: null, cells: ["&nbsp;", " ", "&#32;"] }] };
    await expect(annotateTable(annotator(), blank)).rejects.toThrow("the table is empty");
    const cpa = await annotateFiles(annotator({ task: "cpa" }), files.slice(1, 2), { mainColumn: 7 });
    expect(cpa[0]!.error!.message).toContain("mainColumn was 7");
    const narrow = await annotateFiles(annotator(), files.slice(1, 2), { maxColumns: 2 });
    expect(narrow[0]!.error!.message).toContain("people.csv: 3 columns, more than the limit of 2");
  });

  test("reports files done, and is interrupted", async () => {
    const files = Array.from({ length: 400 }, () => path("people.csv"));
    const steps: number[] = [];
    const controller = new AbortController();
    const onProgress = ({ step, total }: { step: number; total: number }) => {
      expect(total).toBe(400);
      steps.push(step);
    };
    await annotateFiles(annotator(), files, { onProgress });
    expect(steps.at(-1)).toBe(400);
    expect(steps).toEqual([...steps].sort((a, b) => a - b));
    const { signal } = controller;
    await expect(
      annotateFiles(annotator(), files, { signal, onProgress: () => controller.abort() }),
    ).rejects.toMatchObject({ code: "ERR_ABORTED" });
  });

  test("an error of the model itself is everyone's", async () => {
    const logitsOf = async () => {
      throw new Error("broken");
    };
    await expect(annotateFiles(annotator({ logitsOf }), [path("people.csv")])).rejects.toThrow("broken");
  });
});
