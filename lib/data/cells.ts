import { decodeHTMLStrict } from "entities";
import type { Random } from "./random.js";
import type { Column } from "./types.js";

/** Rows of a column that are looked at when its cells are chosen. */
const SCANNED_ROWS = 4096;

/** Characters of a cell that are looked at for references: no reader reads as much. */
const DECODED = 1 << 19;

/**
 * What a cell says: HTML character references are the characters that they stand for. Tables from web pages are full of them, and some sites write
 * whole e-mail addresses so. References without a semicolon stay as they are: in URLs they are parameters.
 */
export function cellText(cell: string): string {
  if (!cell.includes("&")) return cell;
  return cell.length <= DECODED
    ? decodeHTMLStrict(cell)
    : decodeHTMLStrict(cell.slice(0, DECODED)) + cell.slice(DECODED);
}

/** Says nothing. */
export function isBlank(cell: string): boolean {
  return cellText(cell).trim() === "";
}

/**
 * Up to `count` cells that stand for a column: distinct non-empty ones first (a seeded sample where there are more), then repeats.
 * As `cellText` has them, in the order of the table, or shuffled.
 */
export function chooseCells(column: Column, count: number, shuffle: boolean, random: Random): string[] {
  const distinct = new Map<string, number>();
  const repeats: string[] = [];
  const rows = Math.min(column.cells.length, SCANNED_ROWS);
  for (let row = 0; row < rows; row++) {
    const cell = cellText(column.cells[row]!).trim();
    if (cell === "") continue;
    const times = distinct.get(cell) ?? 0;
    distinct.set(cell, times + 1);
    if (times > 0 && repeats.length < count) repeats.push(cell);
  }
  const chosen = random.sample([...distinct.keys()], count);
  if (shuffle) random.shuffle(chosen);
  return chosen.concat(repeats.slice(0, count - chosen.length));
}

/** The first bytes of a text in UTF-8, at most `limit`, cut where a character ends. */
export function utf8Prefix(text: string, limit: number): Uint8Array {
  // Every UTF-16 unit is at least one byte: the rest of a huge cell is never encoded.
  const bytes = Buffer.from(text.length > limit ? text.slice(0, limit) : text, "utf8");
  if (text.length > limit && isHighSurrogate(text.charCodeAt(limit - 1))) {
    // The slice split a pair, and its half became U+FFFD: three bytes to leave out.
    return utf8Cut(bytes.subarray(0, bytes.length - 3), limit);
  }
  return utf8Cut(bytes, limit);
}

/** The longest prefix of at most `limit` bytes that ends with a whole character. */
export function utf8Cut(bytes: Uint8Array, limit: number): Uint8Array {
  if (bytes.length <= limit) return bytes;
  let end = limit;
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.subarray(0, end);
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
