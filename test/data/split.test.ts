import { describe, expect, test } from "vitest";
import { generateDataset } from "../../lib/data/generator.js";
import { siteOf } from "../../lib/data/sotab.js";
import { holdOutSites } from "../../lib/data/split.js";
import type { Dataset, LabelledColumn } from "../../lib/data/types.js";
import { folderSource, openDataSource } from "../../lib/train/dataSource.js";
import { SHARED_ABSENT, sharedData } from "./shared.js";

const sitesOf = (columns: readonly LabelledColumn[]) => new Set(columns.map(({ table }) => siteOf(table)));
const labelsOf = (columns: readonly LabelledColumn[]) => new Set(columns.map(({ label }) => label));

function checkHeldOut(dataset: Dataset, share: number): void {
  const { seen, held } = holdOutSites(dataset, share);
  const { train, validation, test: tested } = dataset.splits;
  expect(seen.splits.validation).toEqual(held.splits.train);
  expect(seen.splits.test).toEqual([...validation, ...tested]);
  expect([held.splits.validation, held.splits.test]).toEqual([validation, tested]);
  // Together they are the training columns, in their order; no site is in both; no label is lost.
  const out = new Set(held.splits.train);
  expect(train.filter((column) => !out.has(column))).toEqual(seen.splits.train);
  expect(out.size + seen.splits.train.length).toBe(train.length);
  const sites = sitesOf(seen.splits.train);
  expect([...sitesOf(held.splits.train)].filter((site) => sites.has(site))).toEqual([]);
  expect(labelsOf(seen.splits.train)).toEqual(labelsOf(train));
  const wanted = Math.round(share * sitesOf(train).size);
  expect(sitesOf(held.splits.train).size).toBeLessThanOrEqual(wanted);
  expect(sitesOf(held.splits.train).size).toBeGreaterThan(0.7 * wanted);
  expect(holdOutSites(dataset, share)).toEqual({ seen, held });
}

describe("sites that are held out of the training columns", () => {
  test("are the share of them, always the same, and leave every label", async () => {
    const dataset = await generateDataset({ seed: 3, tables: 120, rows: 4 });
    for (const share of [0.1, 1 / 3, 0.6]) checkHeldOut(dataset, share);
    // A smaller share is within a larger one.
    const of = (share: number) => sitesOf(holdOutSites(dataset, share).held.splits.train);
    expect([...of(0.1)].every((site) => of(0.4).has(site))).toBe(true);
  });

  test("keep the last columns of a label, and are never none or all", () => {
    const at = (table: string, label: string): LabelledColumn => ({ table, column: 0, label });
    const of = (...train: LabelledColumn[]): Dataset => ({
      name: "set",
      task: "cta",
      labels: ["x", "rare"],
      tables: new Map(),
      splits: { train, validation: [], test: [] },
    });
    const one = of(at("a", "x"), at("b", "rare"), at("c", "x"));
    const { seen, held } = holdOutSites(one, 0.99);
    expect(held.splits.train).toHaveLength(1);
    expect(held.splits.train[0]!.label).toBe("x");
    expect(labelsOf(seen.splits.train)).toEqual(new Set(["x", "rare"]));
    expect(() => holdOutSites(of(at("a", "x"), at("b", "rare")), 0.5)).toThrow(
      /holdOut: 0\.5 of 2 training sites holds out 0/,
    );
    expect(() => holdOutSites(one, 0.1)).toThrow(/holdOut: 0\.1 of 3 training sites holds out 0/);
  });

  test("are sites of SOTAB's, not tables", async ({ skip }) => {
    const shared = sharedData("sotab_v2") ?? skip(SHARED_ABSENT);
    checkHeldOut(await openDataSource(folderSource(shared, "cta")), 1 / 3);
  }, 60_000);
});
