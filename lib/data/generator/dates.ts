import { pad2, type Source } from "./source.js";

type DateFormat = (date: Date) => string;

/** How a column of dates is written; one format holds for a column. */
export function dateFormat(source: Source): DateFormat {
  const { faker, locale } = source;
  const months = faker.definitions.date.month;
  const long = (date: Date) => months.wide[date.getUTCMonth()]!;
  const short = (date: Date) => (months.abbr ?? months.wide)[date.getUTCMonth()]!;
  const d = (date: Date) => date.getUTCDate();
  const m = (date: Date) => date.getUTCMonth() + 1;
  const y = (date: Date) => date.getUTCFullYear();
  const english: DateFormat[] = [
    (date) => `${m(date)}/${d(date)}/${y(date)}`,
    (date) => `${long(date)} ${d(date)}, ${y(date)}`,
    (date) => `${pad2(m(date))}/${pad2(d(date))}/${String(y(date)).slice(2)}`,
  ];
  const continental: DateFormat[] = [
    (date) => `${pad2(d(date))}.${pad2(m(date))}.${y(date)}`,
    (date) => `${d(date)} ${long(date)} ${y(date)}`,
    (date) => `${pad2(d(date))}/${pad2(m(date))}/${y(date)}`,
  ];
  const anywhere: DateFormat[] = [
    (date) => date.toISOString().slice(0, 10),
    (date) => `${d(date)}-${short(date)}-${y(date)}`,
    (date) => date.toISOString().slice(0, 10).replaceAll("-", ""),
  ];
  return source.format([...anywhere, ...(locale === "en" ? english : continental)]);
}

/** Milliseconds of a moment between two years, the second not included. */
export function momentBetween(source: Source, firstYear: number, endYear: number): number {
  const start = Date.UTC(firstYear, 0, 1);
  return start + Math.floor(source.random.next() * (Date.UTC(endYear, 0, 1) - start));
}
