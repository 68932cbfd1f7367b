import { describe, expect, it } from "vitest";
import { labelsWithoutTraining, SPLITS, selectColumns } from "../../lib/data/dataset.js";
import { DOMAIN_NAMES, DOMAINS, type GeneratorOptions, generateDataset } from "../../lib/data/generator.js";
import type { Dataset } from "../../lib/data/types.js";

const cellsOf = (dataset: Dataset, label: string) =>
  SPLITS.flatMap((split) => dataset.splits[split])
    .filter((column) => column.label === label)
    .flatMap(({ table, column }) => dataset.tables.get(table)!.columns[column]!.cells)
    .filter((cell) => cell !== "");

describe("generateDataset", () => {
  it("has at least 28 types in at least three domains, each type in one domain and in every split", async () => {
    const dataset = await generateDataset({ tables: 600, seed: 1 });
    expect(DOMAIN_NAMES.length).toBeGreaterThanOrEqual(3);
    expect(dataset.labels.length).toBeGreaterThanOrEqual(28);
    const domainOf = new Map<string, string>();
    for (const split of SPLITS) {
      const labels = new Set(dataset.splits[split].map((column) => column.label));
      expect([...labels].sort()).toEqual(dataset.labels);
      for (const { label, domain } of dataset.splits[split]) {
        expect(domainOf.get(label) ?? domain).toBe(domain);
        domainOf.set(label, domain!);
      }
    }
    expect(new Set(domainOf.values()).size).toBe(DOMAIN_NAMES.length);
    expect(labelsWithoutTraining(dataset)).toEqual([]);
  });

  it("deals types evenly and has no table in two splits", async () => {
    const dataset = await generateDataset({ tables: 600, seed: 2 });
    const counts = new Map<string, number>();
    const splitOf = new Map<string, string>();
    for (const split of SPLITS) {
      for (const { label, table } of dataset.splits[split]) {
        counts.set(label, (counts.get(label) ?? 0) + 1);
        expect(splitOf.get(table) ?? split).toBe(split);
        splitOf.set(table, split);
      }
    }
    const sizes = [...counts.values()];
    expect(Math.max(...sizes) / Math.min(...sizes)).toBeLessThan(1.3);
    expect(splitOf.size).toBe(600);
    expect([...splitOf.values()].filter((split) => split === "test")).toHaveLength(90);
  });

  it("gives the same data set for the same options, and another for another seed", async () => {
    const options: GeneratorOptions = { tables: 40, seed: 5, locales: ["en", "pl"] };
    const [first, again, other] = [
      await generateDataset(options),
      await generateDataset(options),
      await generateDataset({ ...options, seed: 6 }),
    ];
    expect(again).toEqual(first);
    expect([...other.tables.values()]).not.toEqual([...first.tables.values()]);
  });

  it("writes values of each type's form", async () => {
    const plain = await generateDataset({
      tables: 250,
      seed: 3,
      variety: 0,
      noise: 0,
      missing: 0,
      locales: ["en"],
    });
    const forms: Record<string, RegExp> = {
      email: /^[a-z0-9.]+@[a-z0-9.-]+\.[a-z]+$/,
      price: /^\d+\.\d\d$/,
      year: /^(?:19|20)\d\d$/,
      ipAddress: /^\d{1,3}(?:\.\d{1,3}){3}$/,
      timestamp: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
      identifier: /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      currency: /^[A-Z]{3}$/,
      birthDate: /^(?:19|20)\d\d-\d\d-\d\d$/,
      weight: /^[\d.]+ ?(?:kg|g|lb|oz)$/,
    };
    for (const [label, form] of Object.entries(forms)) {
      const cells = cellsOf(plain, label);
      expect(cells.length, label).toBeGreaterThan(20);
      for (const cell of cells) expect(cell, label).toMatch(form);
    }
    for (const code of cellsOf(plain, "barcode")) {
      const sum = [...code]
        .reverse()
        .reduce((total, digit, i) => total + Number(digit) * (i % 2 === 0 ? 1 : 3), 0);
      expect(sum % 10, code).toBe(0);
    }
  });

  it("makes missing values and disturbed cells as often as asked", async () => {
    const share = async (options: GeneratorOptions) => {
      const dataset = await generateDataset({ tables: 200, seed: 4, ...options });
      const cells = [...dataset.tables.values()].flatMap((table) =>
        table.columns.flatMap((column) => column.cells),
      );
      return cells.filter((cell) => ["", "N/A", "-", "null", "?"].includes(cell)).length / cells.length;
    };
    expect(await share({ missing: 0, noise: 0 })).toBe(0);
    expect(Math.abs((await share({ missing: 0.3 })) - 0.3)).toBeLessThan(0.03);
  });

  it("writes many formats of a type, and numbers as the locale does", async () => {
    const dataset = await generateDataset({ tables: 400, seed: 8, variety: 1, locales: ["de"] });
    const shapes = new Set(cellsOf(dataset, "price").map((cell) => cell.replace(/\d+/g, "9")));
    expect(shapes.size).toBeGreaterThan(6);
    expect(cellsOf(dataset, "price").some((cell) => /^\d+,\d\d$/.test(cell))).toBe(true);
  });

  it("is limited to the domains asked for; selectColumns gives a specialist's part", async () => {
    const commerce = await generateDataset({ tables: 60, domains: ["commerce"] });
    expect(commerce.labels).toEqual(DOMAINS.commerce.map((type) => type.label).sort());
    const all = await generateDataset({ tables: 60 });
    const part = selectColumns(all, "commerce", (column) => column.domain === "commerce");
    expect(part.labels).toEqual(commerce.labels);
    expect(() => selectColumns(all, "none", () => false)).toThrow(/no column to train on/);
  });

  it("generates 2,000 labelled columns in under two CPU seconds", async () => {
    await generateDataset({ tables: 5 });
    const before = process.cpuUsage();
    const { splits } = await generateDataset({ tables: 560, seed: 9 });
    const { user, system } = process.cpuUsage(before);
    expect(splits.train.length + splits.validation.length + splits.test.length).toBeGreaterThan(2000);
    expect((user + system) / 1e6).toBeLessThan(2);
  });

  it("refuses unknown domains and locales, and shares that leave nothing to train on", async () => {
    const refusal = (options: object) =>
      expect(generateDataset(options)).rejects.toMatchObject({ code: "ERR_CONFIG" });
    await refusal({ domains: ["sport"] });
    await refusal({ locales: ["tlh"] });
    await refusal({ validation: 0.5, test: 0.5 });
    await refusal({ noise: 2 });
    await expect(generateDataset({ sead: 1 } as GeneratorOptions)).rejects.toThrow(/did you mean 'seed'/);
  });
});
