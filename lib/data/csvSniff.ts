import { isUtf8 } from "node:buffer";
import { AegirError } from "../errors.js";

export const DELIMITERS = [",", ";", "\t", "|"] as const;
export type Delimiter = (typeof DELIMITERS)[number];
export type Encoding = "utf-8" | "utf-16le" | "utf-16be" | "windows-1252";

const MAGIC: readonly (readonly [string, string])[] = [
  ["PK\u0003\u0004", "a zip archive or an Excel workbook (save the sheet as CSV)"],
  ["\u00d0\u00cf\u0011\u00e0", "an old Excel workbook (save the sheet as CSV)"],
  ["\u001f\u008b", "gzip-compressed (unpack it with gunzip)"],
  ["%PDF", "a PDF document"],
  ["PAR1", "a Parquet file (export it as CSV)"],
  ["SQLite format 3", "an SQLite database (export a table as CSV)"],
  ["\u007fELF", "a program"],
  ["\u0089PNG", "an image"],
];
const MARKUP = /^\s*(?:<!doctype\b|<html\b|<\?xml\b|<svg\b|\{\s*"|\[\s*[[{"])/i;

/** The encoding that the first bytes tell by a byte order mark, and how long that mark is. */
export function detectEncoding(head: Uint8Array): { encoding: Encoding; bom: number } {
  if (head[0] === 0xff && head[1] === 0xfe) return { encoding: "utf-16le", bom: 2 };
  if (head[0] === 0xfe && head[1] === 0xff) return { encoding: "utf-16be", bom: 2 };
  const utf8Mark = head[0] === 0xef && head[1] === 0xbb && head[2] === 0xbf;
  return { encoding: "utf-8", bom: utf8Mark ? 3 : 0 };
}

/**
 * Refuses bytes that are no table of text.
 * @throws AegirError ERR_DATA naming what the file looks like
 */
export function refuseNonText(name: string, head: Uint8Array, encoding: Encoding): void {
  const latin = Buffer.from(head).toString("latin1");
  const known = MAGIC.find(([magic]) => latin.startsWith(magic));
  if (known) throw new AegirError("ERR_DATA", `${name}: not CSV, but ${known[1]}`);
  if (encoding === "utf-8" && head.includes(0)) {
    throw new AegirError(
      "ERR_DATA",
      `${name}: not CSV, but a binary file (it has NUL bytes), or UTF-16 without a byte order mark: then name it, as in encoding: "utf-16le" (--encoding utf-16le)`,
    );
  }
  const text = new TextDecoder(encoding).decode(head.subarray(0, 256));
  const markup = MARKUP.exec(text);
  if (markup) {
    const kind = /[{[]/.test(markup[0]) ? "JSON" : "HTML or XML";
    throw new AegirError("ERR_DATA", `${name}: not CSV, but ${kind} by its first characters`);
  }
}

/** True where the bytes, up to a character that the end may cut, are valid UTF-8. */
export function looksUtf8(head: Uint8Array): boolean {
  for (let cut = 0; cut < 4 && cut <= head.length; cut++) {
    if (isUtf8(head.subarray(0, head.length - cut))) return true;
  }
  return false;
}

/** Records that detection looks at. */
const SNIFF_RECORDS = 100;
const [QUOTE, NEWLINE, RETURN, SPACE] = ['"', "\n", "\r", " "].map((c) => c.charCodeAt(0));
const DELIMITER_CODES = DELIMITERS.map((c) => c.charCodeAt(0));

/** Fields per record for one delimiter, quotes respected; the last record is left out where it may be cut. */
function fieldCounts(text: string, delimiter: string, complete: boolean): number[] {
  const counts: number[] = [];
  const code = delimiter.charCodeAt(0);
  let fields = 1;
  let quoted = false;
  let fieldStart = true;
  let empty = true;
  for (let i = 0; i < text.length && counts.length < SNIFF_RECORDS; i++) {
    const c = text.charCodeAt(i);
    if (quoted) {
      if (c === QUOTE) quoted = false;
    } else if (c === QUOTE && fieldStart) {
      quoted = true;
      fieldStart = false;
      empty = false;
    } else if (c === QUOTE && text.charCodeAt(i - 1) === QUOTE) {
      quoted = true;
    } else if (c === NEWLINE || c === RETURN) {
      if (!empty) counts.push(fields);
      fields = 1;
      fieldStart = true;
      empty = true;
    } else {
      if (c === code) fields++;
      // Behind any delimiter: quoted fields of another dialect hide their content too.
      fieldStart = DELIMITER_CODES.includes(c) || (fieldStart && c === SPACE);
      empty = false;
    }
  }
  // A first record longer than the head is better than nothing.
  if ((complete || counts.length === 0) && !empty && counts.length < SNIFF_RECORDS) counts.push(fields);
  return counts;
}

/**
 * The delimiter that cuts most records into the same number of fields, more than one. A comma is also a decimal sign and
 * part of prose, so among equals it comes last; where nothing cuts, a comma (one column).
 * @param complete the text is the whole file
 */
export function detectDelimiter(text: string, complete: boolean): Delimiter {
  let best: Delimiter = ",";
  let bestScore = 0;
  for (const delimiter of ["\t", ";", "|", ","] as const) {
    const counts = fieldCounts(text, delimiter, complete);
    const tally = new Map<number, number>();
    for (const count of counts) tally.set(count, (tally.get(count) ?? 0) + 1);
    for (const [fields, records] of tally) {
      const score = fields > 1 ? records / counts.length : 0;
      if (score > bestScore + 1e-9) {
        best = delimiter;
        bestScore = score;
      }
    }
  }
  return best;
}

const NUMBER = /^[-+]?[\p{Sc}]?\s?\d[\d.,' ]*(?:e[-+]?\d+)?\s?(?:%|\p{Sc}|[a-z]{1,3}|°[cf]?)?$/iu;
const DATE = /^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:[T ]\d{1,2}:\d{2}.*)?$/;
const ADDRESS = /^(?:https?:\/\/|www\.)\S+$|^\S+@\S+\.\S+$/i;
const HEADER_WORDS =
  /^(?:id|key|code|no|nr|number|name|first|last|title|label|type|kind|class|category|status|state|country|region|city|town|place|location|address|street|zip|postcode|phone|tel|mobile|email|e-mail|mail|url|link|website|date|time|year|month|day|start|end|created|updated|price|cost|amount|total|currency|quantity|qty|count|value|unit|size|weight|height|width|length|rating|score|description|comment|notes?|user|username|author|company|product|item|brand|model|color|colour|language|lang|latitude|longitude|lat|lon|lng|age|sex|gender|birth|born|job|position|role|department|team|order|customer|supplier|sku|ean|isbn|version|file|path|ip|host|temperature|duration)$/i;

/** What kind of value a cell is written as: columns of one kind make a header of another stand out. */
function kindOf(cell: string): "empty" | "number" | "date" | "address" | "text" {
  const text = cell.trim();
  if (text === "") return "empty";
  if (DATE.test(text)) return "date";
  if (NUMBER.test(text)) return "number";
  return ADDRESS.test(text) ? "address" : "text";
}

/**
 * Whether the first record is a header. Values (numbers, dates, addresses) in it speak against; names over columns of values, usual
 * header words and texts that do not recur below speak for. A record alone is a header where it holds no value.
 */
export function detectHeader(records: readonly (readonly string[])[]): boolean {
  const [first, ...body] = records;
  if (!first) return false;
  // A single record of texts alone names columns that have no rows.
  if (body.length === 0) return first.every((name) => ["text", "empty"].includes(kindOf(name)));
  let votes = 0;
  for (const [column, name] of first.entries()) {
    const kind = kindOf(name);
    // A year over numbers ("2019", "2020") is a header now and then, a price never: any value is a vote against.
    if (kind === "number" || kind === "date" || kind === "address") votes -= 3;
    if (kind !== "text") continue;
    if (name.length > 60) votes -= 2;
    const words = name.trim().split(/[\s_\-./()[\]]+|(?<=[a-z])(?=[A-Z])/u);
    if (words.some((word) => HEADER_WORDS.test(word))) votes += words.length <= 4 ? 1 : 0;
    const cells = body.map((record) => record[column] ?? "").filter((cell) => cell.trim() !== "");
    if (cells.length === 0) continue;
    const values = cells.filter((cell) => kindOf(cell) !== "text").length;
    if (values >= 0.8 * cells.length) votes += 2;
    if (cells.includes(name)) votes -= 2;
    else votes += sameLength(cells) && cells[0]!.length !== name.length ? 1 : 0;
  }
  return votes > 0;
}

/**
 * Whether a first record that `detectHeader` takes as data might be a header all the same: words, without digits as codes have, or
 * nothing, different ones, and none that recurs below.
 */
export function mayBeHeader(records: readonly (readonly string[])[]): boolean {
  const [first, ...body] = records;
  const names = first?.filter((name) => name.trim() !== "") ?? [];
  if (names.length === 0 || body.length === 0 || new Set(names).size < names.length) return false;
  if (names.some((name) => kindOf(name) !== "text" || /\d/.test(name) || name.length > 60)) return false;
  return first!.every((name, column) => name === "" || !body.some((record) => record[column] === name));
}

/** At least three cells of one length, as codes have. */
function sameLength(cells: readonly string[]): boolean {
  return cells.length >= 3 && cells.every((cell) => cell.length === cells[0]!.length);
}
