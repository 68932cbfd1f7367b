import { createHash } from "node:crypto";
import { faker as en } from "@faker-js/faker/locale/en";
import { faker as pl } from "@faker-js/faker/locale/pl";
import { describe, expect, it, vi } from "vitest";
import { SPLITS } from "../../lib/data/dataset.js";
import { everydayTables, everydayTypes, NONE } from "../../lib/data/everyday.js";
import { LOCALES } from "../../lib/data/generator/source.js";
import {
  ALL_DOMAIN_NAMES,
  EVERYDAY_DOMAINS,
  type GeneratorOptions,
  generateDataset,
} from "../../lib/data/generator.js";
import type { Column, Dataset } from "../../lib/data/types.js";

const domains = Object.keys(EVERYDAY_DOMAINS) as (keyof typeof EVERYDAY_DOMAINS)[];
const further = domains.filter((domain) => !["people", "commerce", "technical"].includes(domain));

function columnsOf(dataset: Dataset, label: string): Column[] {
  return SPLITS.flatMap((split) => dataset.splits[split])
    .filter((column) => column.label === label)
    .map(({ table, column }) => dataset.tables.get(table)!.columns[column]!);
}
const cellsOf = (dataset: Dataset, label: string) =>
  columnsOf(dataset, label).flatMap(({ cells }) => cells.filter((cell) => cell !== ""));

const matches = (cells: string[], form: RegExp) =>
  cells.map((cell) => form.exec(cell)).filter((match) => match !== null);

const plain: GeneratorOptions = { variety: 0, noise: 0, missing: 0, locales: ["en"] };

describe("the generator's everyday domains", () => {
  it("have at least 60 types, each with headers and a column of every locale in every format", async () => {
    expect(everydayTypes().size).toBeGreaterThanOrEqual(60);
    const dataset = await generateDataset({
      tables: 900,
      seed: 11,
      variety: 1,
      domains,
      locales: [...LOCALES],
    });
    const labels = new Set(domains.flatMap((domain) => EVERYDAY_DOMAINS[domain].map(({ label }) => label)));
    expect(dataset.labels).toEqual([...labels].sort());
    for (const label of labels) {
      const cells = cellsOf(dataset, label);
      expect(cells.length, label).toBeGreaterThan(20);
      for (const cell of cells) expect(cell, label).not.toMatch(/undefined|NaN|\[object/);
    }
  });

  it("leave the tables of the default options as they were", async () => {
    const { tables, splits } = await generateDataset({ tables: 60, seed: 3, variety: 0.5 });
    const hash = createHash("sha256")
      .update(JSON.stringify([[...tables], splits]))
      .digest("hex");
    expect(hash).toBe("1bc7a70384ce5ec30f3ac2a2f1af416e24393eac391866f3cdc8757bd17990e1");
  });

  it("write values of each type's form", async () => {
    const dataset = await generateDataset({ ...plain, tables: 700, seed: 5, domains: further });
    const forms: Record<string, RegExp> = {
      latitude: /^-?\d{1,2}\.\d+$/,
      longitude: /^-?\d{1,3}\.\d+$/,
      coordinates: /^-?\d+\.\d+, -?\d+\.\d+$/,
      timeZone: /^\w+(?:\/[\w-]+)*$/,
      date: /^\d{4}-\d\d-\d\d$/,
      time: /^[0-2]\d:[0-5]\d$/,
      weekday: /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day$/,
      quarter: /^Q[1-4] \d{4}$/,
      openingHours: /^(?:Mo|Tu|Sa)[\w,-]* \d\d:\d\d-\d\d:\d\d$/,
      area: /^[\d.]+ \S/,
      speed: /^[\d.]+ (?:km\/h|kmh|mph|m\/s|knots|kn|kph)$/,
      percentage: /^-?[\d.]+%$/,
      dimensions: /^[\d.]+ ?[x×X] ?[\d.]+ ?[x×X] ?[\d.]+ (?:cm|mm|in|"|m|ft)$/,
      bloodType: /^(?:A|B|AB|O)[+-]$/,
      macAddress: /^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$/,
      mimeType: /^\w+\/[\w.+-]+$/,
      vin: /^[A-Z0-9]{17}$/,
      bic: /^[A-Z0-9]{8}(?:[A-Z0-9]{3})?$/,
      priceRange: /^([$€£])\1{0,3}$/,
      hashtag: /^#\w+$/,
    };
    for (const [label, form] of Object.entries(forms)) {
      const cells = cellsOf(dataset, label);
      expect(cells.length, label).toBeGreaterThan(20);
      for (const cell of cells) expect(cell, label).toMatch(form);
    }
    for (const cell of cellsOf(dataset, "latitude")) expect(Math.abs(Number(cell))).toBeLessThanOrEqual(90);
    for (const cell of cellsOf(dataset, "iban")) expect(ibanRemainder(cell), cell).toBe(1);
    for (const cell of cellsOf(dataset, "isbn")) {
      const digits = cell.replaceAll("-", "");
      const sum = [...digits].reduce((total, digit, i) => total + Number(digit) * (i % 2 === 0 ? 1 : 3), 0);
      expect(sum % 10, cell).toBe(0);
    }
  });

  it("write days that there are, hours of twelve with AM or PM, and ordinals as they are said", async () => {
    const options: GeneratorOptions = { ...plain, tables: 800, seed: 14, variety: 1 };
    const dataset = await generateDataset({ ...options, domains: ["calendar", "other"] });
    const stamps = cellsOf(dataset, "timestamp");
    const german = matches(stamps, /^(\d\d)\.(\d\d)\.(\d{4}) /);
    const american = matches(stamps, /^(\d\d)\/(\d\d)\/(\d{4}) (\d+):\d\d [AP]M$/);
    expect(Math.min(german.length, american.length)).toBeGreaterThan(20);
    const exists = (year: string, month: string, day: string) =>
      new Date(`${year}-${month}-${day}T00:00:00Z`).toISOString().startsWith(`${year}-${month}-${day}`);
    for (const [cell, day, month, year] of german) expect(exists(year!, month!, day!), cell).toBe(true);
    for (const [cell, month, day, year, hour] of american) {
      expect(exists(year!, month!, day!), cell).toBe(true);
      expect(Number(hour), cell).toBeLessThanOrEqual(12);
    }
    const said = [...cellsOf(dataset, "date"), ...cellsOf(dataset, "other")].flatMap((cell) => [
      ...cell.matchAll(/\b(\d+)(st|nd|rd|th)\b/g),
    ]);
    expect(said.length).toBeGreaterThan(20);
    for (const [text, n, ending] of said) {
      const tens = Number(n) % 100;
      const last = Number(n) % 10;
      const right =
        tens > 10 && tens < 14 ? "th" : last === 1 ? "st" : last === 2 ? "nd" : last === 3 ? "rd" : "th";
      expect(ending, text).toBe(right);
    }
  });

  it("write ISBN-10 with its check digit", async () => {
    const dataset = await generateDataset({ tables: 400, seed: 6, variety: 1, noise: 0, domains: ["codes"] });
    const old = cellsOf(dataset, "isbn").filter((cell) => /^\d{9}[\dX]$/.test(cell));
    expect(old.length).toBeGreaterThan(20);
    for (const cell of old) {
      const sum = [...cell].reduce(
        (total, sign, i) => total + (10 - i) * (sign === "X" ? 10 : Number(sign)),
        0,
      );
      expect(sum % 11, cell).toBe(0);
    }
  });

  it("say measures in the locale's numbers, and units that go with them", async () => {
    const dataset = await generateDataset({ ...plain, tables: 200, locales: ["de"], domains: ["measures"] });
    const weights = cellsOf(dataset, "weight");
    expect(weights.some((cell) => /\d,\d/.test(cell))).toBe(true);
    for (const cell of weights) expect(cell).toMatch(/^[\d,]+ \w+\.?$/);
  });

  it("write goods in the plural where they are a category", async () => {
    const options: GeneratorOptions = { ...plain, tables: 900, seed: 9, domains: ["trade"] };
    const cells = cellsOf(await generateDataset(options), "category").join("\n");
    for (const right of ["Shelves", "Knives", "Scarves", "Brushes", "Boxes"]) expect(cells).toContain(right);
    expect(cells).not.toMatch(/(?:shs|chs|xs|[^aeo]ys|fs|fes|ss s)\b/);
  });

  it("write towns that there are, of every locale that lists its own", async () => {
    const options: GeneratorOptions = { ...plain, tables: 300, seed: 12, domains: ["geography"] };
    const cities = async (locale: "en" | "pl" | "en_GB") =>
      cellsOf(await generateDataset({ ...options, locales: [locale] }), "city");
    const share = (cells: string[], towns: readonly string[] | null | undefined) =>
      cells.filter((cell) => towns!.includes(cell)).length / cells.length;
    expect(share(await cities("en"), en.rawDefinitions.location?.city_name)).toBeGreaterThan(0.4);
    expect(share(await cities("pl"), pl.rawDefinitions.location?.city_name)).toBeGreaterThan(0.4);
    // Of a locale without towns of its own every city is one all the same.
    for (const cell of await cities("en_GB")) expect(cell).toMatch(/^\p{Lu}/u);
  });

  it("have no telephone number of North America whose area code or exchange begins with 0 or 1", async () => {
    const options: GeneratorOptions = { ...plain, tables: 500, seed: 13, variety: 1, domains: ["society"] };
    const cells = cellsOf(await generateDataset(options), "phone");
    const form = /^(?:\+?1[- ]?)?\(?(\d{3})\)?[-. ]?(\d{3})[-. ]\d{4}(?: ext\. \d{3})?$/;
    const american = matches(cells, form);
    expect(american.length).toBeGreaterThan(200);
    for (const [cell, area, exchange] of american) {
      expect(Number(area), cell).toBeGreaterThanOrEqual(200);
      expect(Number(exchange), cell).toBeGreaterThanOrEqual(200);
    }
  });

  it("write the frequent types more often than others where all are asked for", async () => {
    const { splits } = await everydayTables({ tables: 2000, seed: 6 });
    const columns = SPLITS.flatMap((split) => splits[split]);
    const count = (wanted: string) => columns.filter(({ label }) => label === wanted).length;
    for (const label of ["person", "city", "product", "price"]) {
      expect(count(label), label).toBeGreaterThan(2 * count("bloodType"));
    }
  });

  it("wear cells and headers where asked, and leave headers out of whole tables", async () => {
    const options: GeneratorOptions = { ...plain, tables: 200, seed: 8, domains: ["trade"] };
    const clean = await generateDataset(options);
    const worn = await generateDataset({ ...options, wear: 1 });
    const marked = (dataset: Dataset) =>
      cellsOf(dataset, "color").filter((cell) => /\[\d+\]$|\*$|†$|^\(|^"|…$|\(est\.\)$/.test(cell)).length;
    expect(marked(clean)).toBe(0);
    expect(marked(worn)).toBeGreaterThan(20);
    const headers = (dataset: Dataset) => columnsOf(dataset, "color").map(({ header }) => header!);
    expect(headers(clean).every((header) => /^(?:colou?r|farbe|hair color)$/.test(header))).toBe(true);
    expect(
      headers(worn).some((header) => /^(?:COLOR|Color|HAIR_COLOR|hairColor|hair_color)$/.test(header)),
    ).toBe(true);
    const half = await generateDataset({ ...options, headers: 0.5 });
    const tables = [...half.tables.values()].map(({ columns }) =>
      columns.map(({ header }) => header === null),
    );
    for (const absent of tables) expect(new Set(absent).size).toBe(1);
    const share = tables.filter(([absent]) => absent).length / tables.length;
    expect(Math.abs(share - 0.5)).toBeLessThan(0.12);
  });

  it("give the same tables whenever they are made", async () => {
    const options = { tables: 900, seed: 2, domains: ["other" as const, "calendar" as const], variety: 1 };
    const made = async (now: string) => {
      vi.useFakeTimers({ toFake: ["Date"], now: new Date(now) });
      try {
        return [...(await generateDataset(options)).tables];
      } finally {
        vi.useRealTimers();
      }
    };
    const [one, later] = [await made("2026-02-03T04:05:06Z"), await made("2031-12-11T10:09:08Z")];
    // The types that hold a time of their making are among them.
    expect(
      one.some(([, { columns }]) =>
        columns.some(({ cells }) => cells.some((cell) => cell.startsWith("eyJ"))),
      ),
    ).toBe(true);
    expect(later).toEqual(one);
  });

  it("give the same tables for the same options, and other ones for another seed", async () => {
    const first = await everydayTables({ tables: 40, seed: 2 });
    expect(await everydayTables({ tables: 40, seed: 2 })).toEqual(first);
    const other = await everydayTables({ tables: 40, seed: 3 });
    expect([...other.tables.values()]).not.toEqual([...first.tables.values()]);
  });
});

describe("everydayTables", () => {
  it("refuses a seed that has none after it, by the number that was given", async () => {
    const refused = everydayTables({ tables: 1, seed: Number.MAX_SAFE_INTEGER });
    await expect(refused).rejects.toMatchObject({ code: "ERR_CONFIG" });
    await expect(refused).rejects.toThrow(/everydayTables.*seed.*9007199254740990/s);
  });

  it("has every everyday type and columns of none, dates as one type, no table in two splits", async () => {
    const dataset = await everydayTables({ tables: 800, seed: 1 });
    expect(dataset.labels).toEqual([...everydayTypes().keys(), NONE].sort());
    expect(dataset.labels).not.toContain("birthDate");
    const splitOf = new Map<string, string>();
    for (const split of SPLITS)
      for (const { table, column } of dataset.splits[split]) {
        expect(dataset.tables.get(table)!.columns[column]).toBeDefined();
        expect(splitOf.get(table) ?? split).toBe(split);
        splitOf.set(table, split);
      }
    const columns = SPLITS.flatMap((split) => dataset.splits[split]);
    const none = columns.filter(({ label }) => label === NONE).length / columns.length;
    expect(none).toBeGreaterThan(0.2);
    expect(none).toBeLessThan(0.35);
    expect(ALL_DOMAIN_NAMES).toContain(NONE);
  });

  it("gives numbers without a unit or a header no type", async () => {
    const dataset = await everydayTables({ tables: 800, seed: 4 });
    const named = (label: string) => columnsOf(dataset, label).filter(({ header }) => header === null);
    for (const label of ["weight", "quantity", "age", "rating", "percentage"]) {
      expect(columnsOf(dataset, label).length, label).toBeGreaterThan(0);
      for (const { cells } of named(label)) {
        const bare = cells.filter((cell) => /^\d+(?:[.,]\d+)?$/.test(cell)).length;
        expect(bare, `${label}: ${cells}`).toBeLessThanOrEqual(cells.length / 2);
      }
    }
    expect(
      columnsOf(dataset, "quantity").some(({ header, cells }) => header !== null && /^\d+$/.test(cells[0]!)),
    ).toBe(true);
  });
});

/** ISO 13616: the account number behind the country and check digits, letters as numbers from 10, is 1 modulo 97. */
function ibanRemainder(iban: string): number {
  const digits = (iban.slice(4) + iban.slice(0, 4)).replace(/[A-Z]/g, (letter) =>
    String(letter.charCodeAt(0) - 55),
  );
  return Number(BigInt(digits) % 97n);
}
