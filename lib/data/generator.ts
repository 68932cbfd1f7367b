import type { Faker } from "@faker-js/faker";
import { z } from "zod";
import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import { calendar } from "./generator/calendar.js";
import { codes } from "./generator/codes.js";
import { commerce } from "./generator/commerce.js";
import { frequent } from "./generator/frequent.js";
import { geography } from "./generator/geography.js";
import { measures } from "./generator/measures.js";
import { media } from "./generator/media.js";
import { disturb, missingMarker } from "./generator/noise.js";
import { OTHER, other } from "./generator/other.js";
import { people } from "./generator/people.js";
import { society } from "./generator/society.js";
import {
  type CellMaker,
  type ColumnType,
  LOCALES,
  type Locale,
  loadLocales,
  Source,
} from "./generator/source.js";
import { technical } from "./generator/technical.js";
import { trade } from "./generator/trade.js";
import { wornCells, wornHeader } from "./generator/worn.js";
import { Random } from "./random.js";
import { splitTables } from "./split.js";
import type { Column, Dataset, LabelledColumn, Table } from "./types.js";

/** The semantic types of the domains that the generator writes where none are named. */
export const DOMAINS = { people, commerce, technical } as const;
export const DOMAIN_NAMES = Object.keys(DOMAINS) as (keyof typeof DOMAINS)[];

/** Everyday types: those above in more forms, and many more. A type may be in several domains, which write it differently. */
export const EVERYDAY_DOMAINS = {
  ...DOMAINS,
  society,
  geography,
  calendar,
  measures,
  trade,
  codes,
  media,
  frequent,
} as const;

/** All of them, and "other": columns of none of these types, labelled so. */
const ALL_DOMAINS = { ...EVERYDAY_DOMAINS, [OTHER]: other } as const;
export type Domain = keyof typeof ALL_DOMAINS;
export const ALL_DOMAIN_NAMES = Object.keys(ALL_DOMAINS) as Domain[];

const share = z.number().min(0).max(1);

export const generatorOptions = z.strictObject({
  seed: z.int().default(0),
  tables: z.int().min(1).max(1_000_000).default(600),
  /** Rows of the longest tables; the shortest have half as many. */
  rows: z.int().min(1).max(1_000_000).default(12),
  domains: z
    .array(z.enum(ALL_DOMAIN_NAMES as [Domain, ...Domain[]]))
    .min(1)
    .default(DOMAIN_NAMES),
  locales: z.array(z.enum(LOCALES)).min(1).default(["en", "de", "fr"]),
  /** Share of columns that may be written in any format of their type; the others use its usual one. */
  variety: share.default(0.2),
  /** Share of missing cells. */
  missing: share.default(0.05),
  /** Share of disturbed cells; columns of mixed formats are three times as frequent. */
  noise: share.default(0.03),
  /** Share of columns with habits of real files: footnote marks, units and case that change, names for missing values, headers in other notations. */
  wear: share.default(0),
  /** Share of columns that repeat one to five values, as categories and foreign keys do. */
  repeats: share.default(0.2),
  /** Share of tables with headers. */
  headers: share.default(1),
  /** Shares of tables held out. */
  validation: share.default(0.15),
  test: share.default(0.15),
});
export type GeneratorOptions = z.input<typeof generatorOptions>;
type Settings = z.output<typeof generatorOptions>;

/**
 * Generates labelled tables: every column has a type of one of the domains, whose types are dealt evenly, a table mixes one to three
 * domains and one locale, and no table is in two splits. The same options give the same data set.
 * @throws AegirError ERR_CONFIG for an unknown option, domain or locale
 */
export async function generateDataset(options: GeneratorOptions = {}): Promise<Dataset> {
  const settings = parseOptions("generateDataset", generatorOptions, options);
  if (settings.validation + settings.test >= 1) {
    throw new AegirError(
      "ERR_CONFIG",
      `generateDataset: validation + test was ${settings.validation + settings.test}, expected under 1 so that tables are left to train on`,
    );
  }
  const fakers = await loadLocales(settings.locales);
  const deal = new TypeDealer(settings);
  const tables = new Map<string, Table>();
  const labelled: LabelledColumn[] = [];
  for (let index = 0; index < settings.tables; index++) {
    const random = new Random(settings.seed, "table", index);
    const name = `table-${String(index).padStart(5, "0")}`;
    const types = deal.next(random);
    tables.set(name, {
      name,
      columns: makeColumns(
        types.map(([, type]) => type),
        fakers,
        random,
        settings,
      ),
    });
    for (const [column, [domain, type]] of types.entries()) {
      labelled.push({ table: name, column, label: type.label, domain });
    }
  }
  const labels = settings.domains.flatMap((domain) => ALL_DOMAINS[domain].map((type) => type.label));
  return {
    name: `generated-${settings.seed}`,
    task: "cta",
    labels: [...new Set(labels)].sort(),
    tables,
    splits: splitTables(labelled, settings),
  };
}

/** Deals types from one shuffled pack a domain, so that every type comes equally often. */
class TypeDealer {
  readonly #packs = new Map<Domain, ColumnType[]>();
  readonly #domains: Domain[];
  readonly #random: Random;

  constructor(settings: Settings) {
    this.#domains = [...new Set(settings.domains)];
    this.#random = new Random(settings.seed, "types");
  }

  /** The types of one table: two to six different ones of one to three domains. */
  next(random: Random): [Domain, ColumnType][] {
    const spread = random.next();
    const mixed = random.sample(random.shuffle([...this.#domains]), spread < 0.5 ? 1 : spread < 0.85 ? 2 : 3);
    const width = random.range(2, 6);
    const types: [Domain, ColumnType][] = [];
    for (let i = 0; i < width; i++) {
      const domain = mixed[i % mixed.length]!;
      const type = this.#draw(domain);
      // A type that the table has already goes back under the pack.
      if (types.some(([, other]) => other === type)) this.#packs.get(domain)!.unshift(type);
      else types.push([domain, type]);
    }
    return random.shuffle(types);
  }

  #draw(domain: Domain): ColumnType {
    let pack = this.#packs.get(domain);
    if (!pack || pack.length === 0) {
      pack = this.#random.shuffle([...ALL_DOMAINS[domain]]);
      this.#packs.set(domain, pack);
    }
    return pack.pop()!;
  }
}

function makeColumns(
  types: readonly ColumnType[],
  fakers: ReadonlyMap<Locale, Faker>,
  random: Random,
  settings: Settings,
): Column[] {
  const locale = random.pick(settings.locales);
  const source = new Source(fakers.get(locale)!, locale, random, settings.variety, [...fakers.values()]);
  const rows = random.range(Math.ceil(settings.rows / 2), settings.rows);
  const columns = types.map((type) => ({
    header: random.pick(type.headers),
    cells: makeCells(type, source, rows, settings),
  }));
  return worn(columns, random, settings);
}

function worn(columns: Column[], random: Random, { wear, headers }: Settings): Column[] {
  // Nothing is drawn where nothing is asked for: the tables of before these options stay as they were.
  const headless = headers < 1 && !random.chance(headers);
  return columns.map(({ header, cells }) => ({
    header: headless ? null : wear > 0 && random.chance(wear) ? wornHeader(header!, random) : header,
    cells: wear > 0 && random.chance(wear) ? wornCells(cells, header, random) : cells,
  }));
}

function makeCells(type: ColumnType, source: Source, rows: number, settings: Settings): string[] {
  const { random } = source;
  const makers: CellMaker[] = [type.column(source)];
  if (random.chance(3 * settings.noise)) makers.push(type.column(source));
  const values = random.chance(settings.repeats) ? random.range(1, 5) : rows;
  const pool: string[] = [];
  const marker = missingMarker(random);
  return Array.from({ length: rows }, (_, row) => {
    if (random.chance(settings.missing)) return marker;
    const fresh = pool.length < values;
    const cell = fresh ? random.pick(makers)(row) : random.pick(pool);
    if (fresh) pool.push(cell);
    return random.chance(settings.noise) ? disturb(cell, random) : cell;
  });
}
