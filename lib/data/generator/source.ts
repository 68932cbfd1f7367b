import type { Faker } from "@faker-js/faker";
import { AegirError } from "../../errors.js";
import type { Random } from "../random.js";

/** Makes the cell of a row. A maker is made per column, so what it draws first (a format, a range) holds for the column. */
export type CellMaker = (row: number) => string;

/** One semantic type that the generator can write. */
export interface ColumnType {
  label: string;
  /** Header texts that such columns carry. */
  headers: readonly string[];
  column(source: Source): CellMaker;
}

/** What the cells of one row have in common. */
export interface RowEntity {
  first: string;
  last: string;
  host: string;
}

/** Those of Latin script whose names, places and telephone numbers faker knows well. */
export const LOCALES = [
  ...(["en", "en_AU", "en_GB", "en_IN"] as const),
  ...(["de", "fr", "es", "es_MX", "it", "nl", "pl", "pt_BR", "pt_PT"] as const),
  ...(["cs_CZ", "da", "fi", "hu", "nb_NO", "ro", "sv", "tr"] as const),
] as const;
export type Locale = (typeof LOCALES)[number];

/** Each locale is a module of its own: importing all of them takes seconds. */
const loaders: Record<Locale, () => Promise<{ faker: Faker }>> = {
  en: () => import("@faker-js/faker/locale/en"),
  en_AU: () => import("@faker-js/faker/locale/en_AU"),
  en_GB: () => import("@faker-js/faker/locale/en_GB"),
  en_IN: () => import("@faker-js/faker/locale/en_IN"),
  de: () => import("@faker-js/faker/locale/de"),
  fr: () => import("@faker-js/faker/locale/fr"),
  es: () => import("@faker-js/faker/locale/es"),
  es_MX: () => import("@faker-js/faker/locale/es_MX"),
  it: () => import("@faker-js/faker/locale/it"),
  nl: () => import("@faker-js/faker/locale/nl"),
  pl: () => import("@faker-js/faker/locale/pl"),
  pt_BR: () => import("@faker-js/faker/locale/pt_BR"),
  pt_PT: () => import("@faker-js/faker/locale/pt_PT"),
  cs_CZ: () => import("@faker-js/faker/locale/cs_CZ"),
  da: () => import("@faker-js/faker/locale/da"),
  fi: () => import("@faker-js/faker/locale/fi"),
  hu: () => import("@faker-js/faker/locale/hu"),
  nb_NO: () => import("@faker-js/faker/locale/nb_NO"),
  ro: () => import("@faker-js/faker/locale/ro"),
  sv: () => import("@faker-js/faker/locale/sv"),
  tr: () => import("@faker-js/faker/locale/tr"),
};

export async function loadLocales(locales: readonly Locale[]): Promise<Map<Locale, Faker>> {
  const loaded = new Map<Locale, Faker>();
  for (const locale of locales) {
    const module = await loaders[locale]().catch((cause: unknown) => {
      throw new AegirError("ERR_DATA", `generator: cannot load @faker-js/faker for locale '${locale}'`, {
        cause,
      });
    });
    loaded.set(locale, module.faker);
  }
  return loaded;
}

/** With a capital first letter. */
export function capitalised(text: string): string {
  return text.replace(/^./, (first) => first.toUpperCase());
}

/** When generated tables are made, for all that they tell of it. */
const NOW = new Date("2026-01-01T00:00:00Z");

/** The random material of one table: one locale, one generator, one entity a row. */
export class Source {
  readonly random: Random;
  readonly locale: Locale;
  readonly faker: Faker;
  readonly #variety: number;
  readonly #elsewhere: readonly Faker[];
  readonly #entities: RowEntity[] = [];

  /** @param elsewhere of all locales of the data set: people move */
  constructor(
    shared: Faker,
    locale: Locale,
    random: Random,
    variety: number,
    elsewhere: readonly Faker[] = [shared],
  ) {
    this.#variety = variety;
    this.#elsewhere = elsewhere;
    this.random = random;
    this.locale = locale;
    // An own instance over the shared locale data: the global faker's random state is left alone.
    const Own = shared.constructor as typeof Faker;
    this.faker = new Own({
      locale: shared.rawDefinitions,
      randomizer: { next: () => random.next(), seed: () => undefined },
    });
    // What holds a time of its making would otherwise be another with every run.
    this.faker.setDefaultRefDate(NOW);
  }

  entity(row: number): RowEntity {
    const known = this.#entities[row];
    if (known) return known;
    const entity: RowEntity = {
      first: this.faker.person.firstName(),
      last: this.faker.person.lastName(),
      host: this.faker.internet.domainName(),
    };
    this.#entities[row] = entity;
    return entity;
  }

  /** A family name of any locale of the data set. */
  lastNameFromAnywhere(): string {
    const { last_name: names } = this.random.pick(this.#elsewhere).rawDefinitions.person ?? {};
    const known = names?.generic ?? names?.female;
    return known ? this.random.pick(known) : this.faker.person.lastName();
  }

  /** A town that there is, in this table's country or any of the data set's; null where no locale lists its own. */
  realCity(): string | null {
    const here = this.faker.rawDefinitions.location?.city_name;
    const names = here ?? this.random.pick(this.#elsewhere).rawDefinitions.location?.city_name;
    return names ? this.random.pick(names) : null;
  }

  /** How a column writes its values: the first format, or any with probability `variety`. */
  format<T>(formats: readonly T[]): T {
    return this.random.chance(this.#variety) ? this.random.pick(formats) : formats[0]!;
  }

  /** One of the weighted choices. */
  weighted<T>(choices: readonly (readonly [number, T])[]): T {
    let at = this.random.next() * choices.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, choice] of choices) {
      at -= weight;
      if (at < 0) return choice;
    }
    return choices[choices.length - 1]![1];
  }

  /** exp of a normal: prices, weights and sizes spread over orders of magnitude. */
  logNormal(median: number, sigma: number): number {
    return median * Math.exp(sigma * this.random.gaussian());
  }

  /** Whether numbers have a decimal point, and ordinals an ending. */
  get english(): boolean {
    return this.locale.startsWith("en");
  }

  /** A number as this locale writes it: decimal comma outside English, thousands separated where asked. */
  number(value: number, decimals: number, grouped = false): string {
    const [whole, fraction] = Math.abs(value).toFixed(decimals).split(".") as [string, string?];
    const digits = grouped ? whole.replace(/\B(?=(\d{3})+$)/g, this.english ? "," : ".") : whole;
    const sign = value < 0 ? "-" : "";
    return fraction === undefined ? sign + digits : `${sign}${digits}${this.english ? "." : ","}${fraction}`;
  }

  /** Unaccented lower-case ASCII, for addresses and user names. */
  ascii(text: string): string {
    const folded = text.normalize("NFKD").replace(/ß/g, "ss").replace(/ł/gi, "l");
    return folded.toLowerCase().replace(/[^a-z0-9]+/g, "");
  }
}

/** As English writes it: 1st, 22nd, 113th. */
export const ordinal = (n: number) =>
  `${n}${n % 100 > 10 && n % 100 < 14 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th")}`;

export const pad2 = (n: number): string => String(n).padStart(2, "0");

export function digits(random: Random, count: number): string {
  let text = "";
  while (text.length < count) text += random.int(10);
  return text;
}

export function hex(random: Random, count: number): string {
  let text = "";
  while (text.length < count) text += random.int(16).toString(16);
  return text;
}

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

export function letters(random: Random, count: number): string {
  let text = "";
  while (text.length < count) text += LETTERS[random.int(LETTERS.length)];
  return text;
}

/** Fills a form: `0` becomes a digit, `A` a capital letter, the rest stays. */
export function pattern(random: Random, form: string): string {
  return form.replace(/[0A]/g, (sign) => (sign === "0" ? digits(random, 1) : letters(random, 1)));
}
