import { z } from "zod";
import { parseOptions } from "../config.js";
import { OTHER } from "./generator/other.js";
import { EMPTY_HEADERS } from "./generator/worn.js";
import { type Domain, EVERYDAY_DOMAINS, generateDataset } from "./generator.js";
import type { Column, Dataset, LabelledColumn, Split } from "./types.js";

/** The class of columns that the default model has no name for. */
export const NONE = OTHER;

const NAMED = Object.keys(EVERYDAY_DOMAINS) as Domain[];

/** Dates by what they are of cannot be told apart by their values: one type. */
const MERGED: Record<string, string> = { birthDate: "date", orderDate: "date" };

/** Types that nothing but a header or a sign beside the number tells from a count. */
const NUMBERS = new Set(
  `age,area,duration,energy,fileSize,length,orderId,percentage,power,pressure,quantity,rank,rating,speed,temperature,version,voltage,volume,weight`.split(
    ",",
  ),
);
const BARE_NUMBER = /^[-+]?(?:\d{1,3}(?:[.,]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?)$/;

/** Whether a column's values, or its header, say what it is: numbers alone are of no type. */
function isTellable(label: string, { header, cells }: Column): boolean {
  if (!NUMBERS.has(label) || (header !== null && !EMPTY_HEADERS.includes(header))) return true;
  const plain = cells
    .map((cell) => cell.replace(/\[\d+\]|[*†?~"()\s]/g, ""))
    .filter((cell) => /\d/.test(cell));
  return plain.filter((cell) => BARE_NUMBER.test(cell)).length <= 0.5 * plain.length;
}

/** English writes most tables that are shared, so it writes half of these; the rest is for others of Latin script. */
const LOCALES = [
  ...Array<"en">(12).fill("en"),
  ...(["en_GB", "en_GB", "en_AU", "en_IN"] as const),
  ...(["de", "de", "fr", "fr", "es", "es_MX", "it", "nl", "pl", "pt_BR", "pt_PT"] as const),
  ...(["cs_CZ", "da", "fi", "hu", "nb_NO", "ro", "sv", "tr"] as const),
];

/** The types that the default model names, by the domain that writes them first. */
export function everydayTypes(): Map<string, string> {
  const types = new Map<string, string>();
  for (const domain of NAMED)
    for (const { label } of EVERYDAY_DOMAINS[domain as keyof typeof EVERYDAY_DOMAINS]) {
      const type = MERGED[label] ?? label;
      if (!types.has(type)) types.set(type, domain);
    }
  return types;
}

const everydayOptions = z.strictObject({
  tables: z.int().min(1),
  /** That of the other things' tables is the next one. */
  seed: z.int().max(Number.MAX_SAFE_INTEGER - 1),
});

/**
 * The tables that the default model learns from: everyday types of all domains in any locale and format, half of them without headers, some worn; and
 * columns of other things, alone and beside them, labelled `NONE`, as are numbers without a unit or a header.
 * @param options tables: how many, a quarter more of them of other things alone
 */
export async function everydayTables(options: z.input<typeof everydayOptions>): Promise<Dataset> {
  const { tables, seed } = parseOptions("everydayTables", everydayOptions, options);
  const common = {
    rows: 10,
    locales: LOCALES,
    variety: 0.75,
    missing: 0.06,
    noise: 0.02,
    wear: 0.25,
    repeats: 0.4,
    headers: 0.5,
    validation: 0.06,
    test: 0.04,
  };
  const mixed = await generateDataset({ ...common, tables, seed, domains: [...NAMED, NONE] });
  const others = await generateDataset({
    ...common,
    tables: Math.ceil(tables / 4),
    seed: seed + 1,
    domains: [NONE],
  });
  return joined(`everyday-${seed}`, mixed, others);
}

function joined(name: string, ...parts: Dataset[]): Dataset {
  const tables: Dataset["tables"] = new Map();
  const splits: Record<Split, LabelledColumn[]> = { train: [], validation: [], test: [] };
  const labels = new Set<string>();
  for (const [i, part] of parts.entries()) {
    const renamed = (table: string) => `${i}-${table}`;
    for (const [key, table] of part.tables) tables.set(renamed(key), { ...table, name: renamed(key) });
    for (const split of ["train", "validation", "test"] as const)
      for (const column of part.splits[split]) {
        const { columns } = part.tables.get(column.table)!;
        const type = MERGED[column.label] ?? column.label;
        const label = isTellable(type, columns[column.column]!) ? type : NONE;
        labels.add(label);
        splits[split].push({ ...column, label, table: renamed(column.table) });
      }
  }
  return { name, task: "cta", labels: [...labels].sort(), tables, splits };
}
