import { cellText } from "../data/cells.js";
import type { Column, ColumnRef } from "../data/types.js";
import { checkNumbers } from "./checkStored.js";
import type { Extractor } from "./linearSpecialist.js";
import { SparseBuilder, type SparseRows } from "./sparse.js";

/** Cells of a column that are looked at, evenly spaced among those that are not empty, and characters of each. */
const CELLS = 64;
const CELL_CHARACTERS = 128;
/** Buckets of hashed cell shapes. */
const SHAPES = 256;

/** What a cell may look like as a whole; a column has the share of its cells that do. */
const FORMATS: Record<string, RegExp> = {
  integer: /^[+-]?\d+$/,
  decimalPoint: /^[+-]?\d*\.\d+$/,
  decimalComma: /^[+-]?\d+,\d{1,2}$/,
  thousands: /^[+-]?\d{1,3}(?:[,. ]\d{3})+(?:[.,]\d+)?$/,
  negative: /^-\s?\d/,
  percent: /\d\s?%$/,
  currency: /[$€£¥₹]|^[A-Z]{3}\s?\d|\d\s?[A-Z]{3}$/,
  unit: /^\d[\d.,]*\s?[a-zA-Zµ]{1,4}$/,
  range: /^\d[\d.,]*\s?(?:-|–|to)\s?\d/,
  leadingZero: /^0\d+$/,
  dateIso: /^\d{4}-\d{2}-\d{2}$/,
  dateTimeIso: /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}/,
  zone: /(?:Z|[+-]\d{2}:?\d{2})$/,
  dateSlashes: /^\d{1,2}\/\d{1,2}\/\d{2,4}$/,
  dateDots: /^\d{1,2}\.\d{1,2}\.\d{2,4}$/,
  dateWords: /\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b.*\d/i,
  year: /^(?:1[5-9]|20)\d{2}$/,
  time: /^\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]\.?m\.?)?$/i,
  hours: /\d{1,2}:\d{2}.*[-–].*\d{1,2}:\d{2}/,
  weekday: /\b(?:mo|tu|we|th|fr|sa|su)(?:n|e|s|d|u|r|i|t)?[a-z]*\b/i,
  duration: /^P(?:\d+[YMWD])*(?:T(?:\d+(?:\.\d+)?[HMS])+)?$/,
  durationTime: /^P?T\d/,
  telephone: /^\+?[\d\s().-]{7,20}$/,
  plusNumber: /^\+\d/,
  email: /^\S+@\S+\.\S+$/,
  url: /^(?:https?:\/\/|www\.)/i,
  image: /\.(?:jpe?g|png|gif|webp|svg)(?:\?|$)/i,
  coordinate: /^-?\d{1,3}\.\d{3,}$/,
  isbn: /^(?:97[89])?[-\d]{9,16}[\dX]$/,
  boolean: /^(?:true|false|yes|no|0|1)$/i,
  upperCode: /^[A-Z0-9]{2,12}$/,
  countryCode: /^[A-Z]{2,3}$/,
  localeCode: /^[a-z]{2}(?:[-_][A-Za-z]{2})?$/,
  hex: /^[0-9a-f-]{16,}$/i,
  braces: /^[[{]/,
  schema: /schema\.org/i,
};
const FORMAT_TESTS = Object.values(FORMATS);

const KINDS: readonly RegExp[] = [
  /\p{Lu}/u,
  /\p{Ll}/u,
  /\p{Lo}/u,
  /\p{Nd}/u,
  /\s/u,
  /[.,;:!?]/u,
  /[-–_/\\]/u,
  /[()[\]{}]/u,
];

const QUANTILES = [0, 0.25, 0.5, 0.75, 1];
const LENGTHS = QUANTILES.length + 2;
const NUMBERS = 8 + 2 * QUANTILES.length;

/** Number of features of a column. */
export const FORMAT_FEATURES = FORMAT_TESTS.length + KINDS.length + 1 + LENGTHS + NUMBERS + SHAPES;

/** A feature that hardly varies is not blown up beyond this. */
const LEAST_DEVIATION = 0.05;

/**
 * How a column is written, not what it says: shares of recognised formats and kinds of characters, lengths, statistics of its numbers, and
 * hashed shapes of its cells (a run of digits is 9, one of letters a or A). Each feature is divided by its standard deviation over the
 * training columns, each row by its length.
 */
export class FormatFeatures implements Extractor {
  readonly kind = "format";
  readonly columns = FORMAT_FEATURES;
  readonly options = {};

  /** @param deviation (FORMAT_FEATURES) */
  constructor(private readonly deviation: Float32Array) {}

  static fit(refs: readonly ColumnRef[]): FormatFeatures {
    const [sums, squares] = [new Float64Array(FORMAT_FEATURES), new Float64Array(FORMAT_FEATURES)];
    for (const { table, column } of refs) {
      for (const [feature, value] of formatFeatures(table.columns[column]!).entries()) {
        sums[feature]! += value;
        squares[feature]! += value * value;
      }
    }
    const n = Math.max(1, refs.length);
    const variance = (feature: number) => Math.max(0, squares[feature]! / n - (sums[feature]! / n) ** 2);
    return new FormatFeatures(
      Float32Array.from(sums, (_, feature) => Math.max(LEAST_DEVIATION, Math.sqrt(variance(feature)))),
    );
  }

  /** @throws AegirError ERR_CHECKPOINT */
  static restore(deviation: Float32Array): FormatFeatures {
    checkNumbers(deviation, FORMAT_FEATURES, "deviations of formats");
    return new FormatFeatures(deviation);
  }

  tensors(): Record<string, Float32Array> {
    return { deviation: this.deviation };
  }

  transform(refs: readonly ColumnRef[]): SparseRows {
    const builder = new SparseBuilder(FORMAT_FEATURES);
    for (const { table, column } of refs) {
      const values = formatFeatures(table.columns[column]!).map((value, i) => value / this.deviation[i]!);
      const length = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0)) || 1;
      for (const [feature, value] of values.entries()) if (value !== 0) builder.push(feature, value / length);
      builder.endRow();
    }
    return builder.build();
  }
}

/** (FORMAT_FEATURES) */
export function formatFeatures(column: Column): number[] {
  const cells = chosenCells(column);
  const share = (test: (cell: string) => boolean) => cells.filter(test).length / Math.max(1, cells.length);
  return [
    ...FORMAT_TESTS.map((format) => share((cell) => format.test(cell))),
    ...characterShares(cells),
    ...lengthFeatures(cells),
    ...numberFeatures(cells),
    ...shapeFeatures(cells),
  ];
}

function chosenCells({ cells }: Column): string[] {
  const filled = cells.map((cell) => cellText(cell).trim()).filter((cell) => cell !== "");
  const chosen =
    filled.length <= CELLS
      ? filled
      : Array.from({ length: CELLS }, (_, i) => filled[Math.floor((i * filled.length) / CELLS)]!);
  return chosen.map((cell) => cell.slice(0, CELL_CHARACTERS));
}

/** The share of each kind among all characters, and of those of no kind. */
function characterShares(cells: readonly string[]): number[] {
  const counts = new Array<number>(KINDS.length + 1).fill(0);
  let total = 0;
  for (const character of cells.join("")) {
    const kind = KINDS.findIndex((test) => test.test(character));
    counts[kind < 0 ? KINDS.length : kind]!++;
    total++;
  }
  return counts.map((count) => count / Math.max(1, total));
}

function lengthFeatures(cells: readonly string[]): number[] {
  const lengths = cells.map(({ length }) => Math.log1p(length) / 3);
  const words = cells.map((cell) => Math.log1p(cell.split(/\s+/u).length) / 2);
  const distinct = new Set(cells).size / Math.max(1, cells.length);
  return [...quantiles(lengths), mean(words), distinct];
}

/** Of the cells that are numbers: share, signs, decimals, order, whole steps, and quantiles of magnitude and value. */
function numberFeatures(cells: readonly string[]): number[] {
  const numbers = cells.map(numberOf).filter((value) => value !== null);
  if (numbers.length === 0) return new Array<number>(NUMBERS).fill(0);
  const some = (test: (value: number) => boolean) => numbers.filter(test).length / numbers.length;
  const steps = numbers.slice(1).map((value, i) => value - numbers[i]!);
  const all = (test: (step: number) => boolean) => (steps.length > 0 && steps.every(test) ? 1 : 0);
  const decimals = cells.map((cell) => /[.,](\d+)$/.exec(cell)?.[1]?.length ?? 0);
  return [
    numbers.length / cells.length,
    some((value) => value < 0),
    some((value) => Number.isInteger(value)),
    some((value) => value === 0),
    Math.min(mean(decimals), 8) / 4,
    all((step) => step >= 0),
    all((step) => step <= 0),
    all((step) => step === steps[0]),
    ...quantiles(numbers.map((value) => Math.log1p(Math.abs(value)) / 5)),
    ...quantiles(numbers.map((value) => Math.tanh(value / 10))),
  ];
}

/** The shares of the cells' hashed shapes. */
function shapeFeatures(cells: readonly string[]): number[] {
  const shares = new Array<number>(SHAPES).fill(0);
  for (const cell of cells) {
    const shape = shapeOf(cell);
    let hash = 0x811c9dc5;
    for (let i = 0; i < shape.length; i++) hash = Math.imul(hash ^ shape.charCodeAt(i), 0x01000193);
    shares[(hash ^ (hash >>> 15)) & (SHAPES - 1)]! += 1 / cells.length;
  }
  return shares;
}

/** "Tel. +49 (0)30" is "Aa. +9 (9)9". */
export function shapeOf(cell: string): string {
  return cell
    .slice(0, 48)
    .replace(/\p{Nd}+/gu, "9")
    .replace(/\p{Lu}+/gu, "A")
    .replace(/[\p{Ll}\p{Lo}]+/gu, "a")
    .replace(/\s+/gu, " ");
}

/** "1,234.50", "1.234,50", "12 kg" and "$5" are numbers too; null: it is none, or one that no float holds. */
export function numberOf(cell: string): number | null {
  const found = /^[^\d+-]{0,3}([+-]?\d[\d.,\s]*)\D{0,4}$/.exec(cell)?.[1]?.replace(/\s/g, "");
  if (found === undefined) return null;
  const comma = /,\d{1,2}$/.test(found);
  const plain = comma ? found.replaceAll(".", "").replace(",", ".") : found.replaceAll(",", "");
  const value = Number(plain);
  return Number.isFinite(value) ? value : null;
}

function quantiles(values: readonly number[]): number[] {
  const sorted = [...values].sort((a, b) => a - b);
  return QUANTILES.map((q) => sorted[Math.round(q * (sorted.length - 1))] ?? 0);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}
