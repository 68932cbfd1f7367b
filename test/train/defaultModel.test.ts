import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { everydayTypes, NONE } from "../../lib/data/everyday.js";
import {
  annotateFiles,
  annotateTable,
  type DefaultModel,
  loadDefaultModel,
  parseCsv,
  Random,
  type Table,
} from "../../lib/index.js";
import { native } from "../../lib/native/load.js";
import { predictionsOf } from "../../lib/train/predict.js";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const weights = join(root, "models/default/best/model.safetensors");

/** The types of the example files' columns, from left to right. */
const TRUTH = [
  ["person", "email", "phone", "city", "postalCode", "country", "date"],
  ["orderId", "date", "product", "company", "quantity", "price", "currency", "weight"],
  ["url", "hostname", "ipAddress", "timestamp", "fileSize", "version", "identifier"],
];
/** Those that it may leave open. */
const UNSURE = new Set(["orderId", "hostname", "ipAddress", "version"]);

describe("the default model", () => {
  let model: DefaultModel;
  beforeAll(async () => {
    model = await loadDefaultModel();
  });
  afterAll(() => {
    model.dispose();
    expect(native().memory().liveTensors).toBe(0);
  });

  test("is at most 8 MB, and is the file whose hash the README gives", async () => {
    expect((await stat(weights)).size).toBeLessThanOrEqual(8_000_000);
    const hash = createHash("sha256")
      .update(await readFile(weights))
      .digest("hex");
    const readme = await readFile(join(root, "README.md"), "utf8");
    expect(readme.includes(hash), `README.md names ${hash}`).toBe(true);
  });

  test("knows the everyday types of the generator and no other", () => {
    expect(model.none).toBe(NONE);
    expect(model.labels).toEqual([...everydayTypes().keys(), NONE].sort());
    expect(model.abstainBelow).toBeGreaterThan(0);
    expect(model.config.data).toBeNull();
  });

  test("names columns of the examples, with and without a header", async () => {
    const files = ["customers.csv", "orders.csv", "sites.csv"].map((name) =>
      join(root, "examples/data", name),
    );
    const results = await annotateFiles(model, files);
    const said = results.map(({ columns }) => columns.map(({ type }) => type));
    for (const [file, types] of TRUTH.entries())
      for (const [column, type] of types.entries()) {
        const where = `${files[file]}, column ${column}`;
        // What it does not name it leaves open: no column of these files has a wrong type.
        expect([null, type], where).toContain(said[file]![column]);
        if (!UNSURE.has(type)) expect(said[file]![column], where).toBe(type);
      }
  });

  test("says nothing of random bytes, of words and numbers that mean nothing, and never the name of no type", async () => {
    const seed = 20_261_128;
    const random = new Random(seed, "noise");
    const column = (cell: () => string) => ({ header: null, cells: Array.from({ length: 12 }, cell) });
    const characters = (low: number, high: number, length: number) => () =>
      String.fromCodePoint(...Array.from({ length }, () => random.range(low, high)));
    const table: Table = {
      name: "noise",
      columns: [
        ...[5, 12, 30].map((length) => column(characters(33, 126, length))),
        ...[4, 9].map((length) => column(characters(0x4e00, 0x9fff, length))),
        ...[6, 20].map((length) => column(characters(0x80, 0x2ff, length))),
      ],
    };
    const said = await annotateTable(model, table);
    expect(
      said.map(({ type }) => type),
      `seed ${seed}`,
    ).toEqual(table.columns.map(() => null));
    const open = await annotateTable(model, table, { abstainBelow: 0 });
    expect(open.map(({ type }) => type)).toEqual(said.map(({ mostProbable }) => mostProbable));
    for (const { type, runnerUp } of open) {
      expect(type).not.toBe(NONE);
      expect(runnerUp).not.toBe(NONE);
    }
  });

  test("says the same of a table by any name, and of what it holds now", async () => {
    const names = [
      "Anna",
      "João",
      "Müller",
      "Pedro",
      "Maria",
      "Sofia",
      "Rui",
      "Inês",
      "Bo",
      "Cem",
      "Ida",
      "Ulf",
    ];
    const column = { header: null as string | null, cells: names };
    const answers = [];
    for (const name of ["a.csv", "b.csv", "c.csv"])
      answers.push({ ...(await annotateTable(model, { name, columns: [column] }))[0], table: "" });
    expect(answers[1]).toEqual(answers[0]);
    expect(answers[2]).toEqual(answers[0]);
    const table = { name: "t", columns: [column] };
    await annotateTable(model, table);
    column.header = "email";
    column.cells = names.map((_, i) => `someone${i}@example.org`);
    const [changed] = await annotateTable(model, table);
    expect(changed).toMatchObject({ type: "email", header: "email" });
  });

  test("says of a column the same alone as in a wide table", async () => {
    const text = await readFile(join(root, "examples/data/customers.csv"), "utf8");
    const table = await parseCsv("customers", text);
    const alone = await annotateTable(model, { ...table, columns: table.columns.slice(1, 2) });
    const wide = { ...table, columns: Array.from({ length: 10 }, () => table.columns).flat() };
    const all = await annotateTable(model, wide);
    expect(all[1]!.type).toBe(alone[0]!.type);
    expect(all[1]!.confidence).toBeCloseTo(alone[0]!.confidence, 4);
  });
});

test("a class that stands for none keeps its share of the probability and is never predicted", () => {
  const logits = Float32Array.from([1, 3, 2, 0, 0, 5]);
  const [first, second] = predictionsOf(logits, 3, 1);
  const sum = Math.exp(1) + Math.exp(3) + Math.exp(2);
  expect(first).toMatchObject({ label: 2, runnerUp: 0 });
  expect(first!.confidence).toBeCloseTo(Math.exp(2) / sum, 6);
  expect(first!.runnerUpConfidence).toBeCloseTo(Math.exp(1) / sum, 6);
  expect(second).toMatchObject({ label: 2, runnerUp: 0 });
  expect(predictionsOf(Float32Array.from([0, 4]), 2, 1)[0]).toMatchObject({ label: 0, runnerUp: 0 });
});
