import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import path from "node:path";
import { parse } from "csv-parse/sync";
import { z } from "zod";
import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import { RecordSample, RecordSplitter } from "./csvRecords.js";
import {
  DELIMITERS,
  detectDelimiter,
  detectEncoding,
  detectHeader,
  type Encoding,
  looksUtf8,
  mayBeHeader,
  refuseNonText,
} from "./csvSniff.js";
import type { Column, Table } from "./types.js";

export const csvOptions = z.strictObject({
  delimiter: z.union([z.literal("auto"), z.enum(DELIMITERS)]).default("auto"),
  /** Whether the first record names the columns. */
  header: z.union([z.literal("auto"), z.boolean()]).default("auto"),
  /** "auto": UTF-16 by its byte order mark, else UTF-8. */
  encoding: z.enum(["auto", "utf-8", "utf-16le", "utf-16be", "windows-1252"]).default("auto"),
  /** Rows kept from the top of the file. */
  firstRows: z.int().min(1).default(1000),
  /** Rows kept from the others: a seeded uniform sample. */
  sampledRows: z.int().min(0).default(1000),
  seed: z.int().default(0),
});
export type CsvOptions = z.input<typeof csvOptions>;
type Settings = z.output<typeof csvOptions>;

export interface CsvTable extends Table {
  /** Data rows of the file; the columns hold the first ones and a sample of the others. */
  rows: number;
  delimiter: string;
  warnings: string[];
}

/** Bytes that detection looks at. */
const HEAD_BYTES = 64 * 1024;
const CHUNK_BYTES = 512 * 1024;
/** A file with more fields in a record than this is no table. */
const MOST_COLUMNS = 20_000;

/**
 * Reads a CSV file of any size with bounded memory: all rows are counted and checked, the first ones and a sample of the others are
 * kept. Copes with quotes, byte order marks, `,` `;` tab and `|`, CRLF, ragged rows and bytes that are no UTF-8; what it had to
 * mend is in `warnings`. Cells are trimmed unless quoted.
 * @throws AegirError ERR_DATA for a missing file, a directory, an empty or a binary file, one without rows, or one that is no table
 */
export async function readCsv(file: string, options: CsvOptions = {}): Promise<CsvTable> {
  const settings = parseOptions("readCsv", csvOptions, options);
  const info = await stat(file).catch((cause: NodeJS.ErrnoException) => {
    const why = cause.code === "ENOENT" ? "no such file" : cause.message;
    throw new AegirError("ERR_DATA", `${file}: ${why}`, { cause });
  });
  if (info.isDirectory()) {
    throw new AegirError("ERR_DATA", `${file}: a directory, expected a CSV file`);
  }
  const chunks = createReadStream(file, { highWaterMark: CHUNK_BYTES });
  try {
    return await readChunks(path.basename(file), file, chunks, settings);
  } catch (cause) {
    if (cause instanceof AegirError) throw cause;
    throw new AegirError("ERR_DATA", `${file}: cannot be read: ${(cause as Error).message}`, { cause });
  } finally {
    chunks.destroy();
  }
}

/** Reads CSV from a stream (or any iterable) of bytes, as `readCsv` does. */
export async function readCsvStream(
  name: string,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: CsvOptions = {},
): Promise<CsvTable> {
  return readChunks(name, name, chunks, parseOptions("readCsvStream", csvOptions, options));
}

/** Reads CSV from a text, as `readCsv` does. */
export async function parseCsv(name: string, text: string, options: CsvOptions = {}): Promise<CsvTable> {
  return readCsvStream(name, [Buffer.from(text, "utf8")], options);
}

async function readChunks(
  name: string,
  shown: string,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  settings: Settings,
): Promise<CsvTable> {
  const iterator = iterate(chunks);
  const { head, complete } = await readHead(iterator);
  if (head.length === 0) throw new AegirError("ERR_DATA", `${shown}: empty, expected a CSV file`);
  const found = detectEncoding(head);
  const encoding = settings.encoding === "auto" ? found.encoding : settings.encoding;
  refuseNonText(shown, head, encoding);

  const text = new TextDecoder(encoding).decode(head, { stream: true });
  const delimiter = settings.delimiter === "auto" ? detectDelimiter(text, complete) : settings.delimiter;
  const newline = text.includes("\n") || !text.includes("\r") ? "\n" : "\r";
  // One more than the rows: the first record may be a header.
  const sample = new RecordSample(settings.firstRows + 1, settings.sampledRows, settings.seed);
  const splitter = new RecordSplitter(delimiter, newline, (record) => sample.add(record));
  const decoded = { replaced: 0 };
  try {
    for await (const chunk of asUtf8(head, iterator, encoding, found.bom, decoded)) splitter.push(chunk);
    splitter.end();
  } catch (error) {
    throw error instanceof AegirError ? new AegirError(error.code, `${shown}: ${error.message}`) : error;
  }
  const records = parseRecords(sample.records(), delimiter, newline);
  if (records.length === 0) throw new AegirError("ERR_DATA", `${shown}: empty, expected a CSV file`);
  const table = buildTable(name, shown, records, sample.count, settings);
  const replaced = sample.replaced + decoded.replaced;
  const warnings = [...readWarnings(replaced, splitter, settings, encoding, head), ...table.warnings];
  return { ...table, delimiter, warnings };
}

async function* iterate(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  yield* chunks;
}

async function readHead(chunks: AsyncIterator<Uint8Array>): Promise<{ head: Uint8Array; complete: boolean }> {
  const parts: Uint8Array[] = [];
  let length = 0;
  while (length < HEAD_BYTES) {
    const { value, done } = await chunks.next();
    if (done) return { head: Buffer.concat(parts), complete: true };
    parts.push(value);
    length += value.length;
  }
  return { head: Buffer.concat(parts), complete: false };
}

/**
 * The stream from its head on as UTF-8 bytes without a byte order mark.
 * @param decoded counts what is U+FFFD after decoding; bytes that are no UTF-8 stay as they are, and are counted by record
 */
async function* asUtf8(
  head: Uint8Array,
  chunks: AsyncGenerator<Uint8Array>,
  encoding: Encoding,
  bom: number,
  decoded: { replaced: number },
): AsyncGenerator<Uint8Array> {
  if (encoding === "utf-8") {
    yield head.subarray(bom);
    yield* chunks;
    return;
  }
  const decoder = new TextDecoder(encoding);
  const next = (bytes: Uint8Array, last = false): Buffer => {
    const text = decoder.decode(bytes, { stream: !last });
    decoded.replaced += text.split("\ufffd").length - 1;
    return Buffer.from(text, "utf8");
  };
  yield next(head);
  for await (const chunk of chunks) yield next(chunk);
  yield next(new Uint8Array(), true);
}

function parseRecords(records: readonly Uint8Array[], delimiter: string, newline: string): string[][] {
  const lineEnd = Buffer.from(newline);
  const parsed = parseFields(
    Buffer.concat(records.flatMap((record) => [record, lineEnd])),
    delimiter,
    newline,
  );
  if (parsed?.length === records.length) return parsed;
  // A malformed quote in one record changes how the next ones are cut: one by one, only that record suffers.
  return records.map((record) => {
    const alone = parseFields(record, delimiter, newline);
    if (alone?.length === 1) return alone[0]!;
    return Buffer.from(record).toString("utf8").split(delimiter);
  });
}

/** Records of fields, or null where csv-parse finds the quotes malformed. */
function parseFields(bytes: Uint8Array, delimiter: string, newline: string): string[][] | null {
  const common = {
    delimiter,
    record_delimiter: [`\r${newline}`, newline],
    relax_column_count: true,
    relax_quotes: true,
    skip_empty_lines: true,
    bom: false,
  };
  // Trimming and text behind a closing quote exclude each other in csv-parse.
  for (const trim of [true, false]) {
    try {
      return parse(Buffer.from(bytes), { ...common, trim, ltrim: true });
    } catch (error) {
      if (!String((error as { code?: string }).code).startsWith("CSV_")) throw error;
    }
  }
  return null;
}

function buildTable(
  name: string,
  shown: string,
  records: string[][],
  count: number,
  settings: Settings,
): Omit<CsvTable, "delimiter"> {
  const width = records.reduce((most, record) => Math.max(most, record.length), 0);
  if (width > MOST_COLUMNS) {
    throw new AegirError(
      "ERR_DATA",
      `${shown}: a record has ${width} fields, expected at most ${MOST_COLUMNS}`,
    );
  }
  const hasHeader = settings.header === "auto" ? detectHeader(records.slice(0, 100)) : settings.header;
  const header = hasHeader ? records[0]! : null;
  const body = hasHeader ? records.slice(1) : records.slice(0, settings.firstRows + settings.sampledRows);
  if (body.length === 0) {
    throw new AegirError(
      "ERR_DATA",
      `${shown}: a header and no rows; if its only line is data, read it with header: false (--header no)`,
    );
  }
  const columns: Column[] = Array.from({ length: width }, (_, column) => ({
    header: header?.[column] || null,
    cells: body.map((record) => record[column] ?? ""),
  }));
  return {
    name,
    columns,
    rows: count - (hasHeader ? 1 : 0),
    warnings: [
      ...(settings.header === "auto" && !hasHeader && mayBeHeader(records)
        ? ["the first line was taken as data; if it names the columns, say header: true (--header yes)"]
        : []),
      ...tableWarnings(header, body, width),
    ],
  };
}

function tableWarnings(header: string[] | null, body: string[][], width: number): string[] {
  const warnings: string[] = [];
  const expected = header?.length ?? body[0]!.length;
  const ragged = body.filter((record) => record.length !== expected).length;
  if (ragged > 0) {
    warnings.push(
      `${ragged} of ${body.length} rows read have another number of fields than ${header ? "the header" : "the first row"} (${expected}); missing cells are empty`,
    );
  }
  const names = new Set<string>();
  const doubled = new Set<string>();
  for (const title of header ?? []) {
    if (title !== "" && names.has(title)) doubled.add(title);
    names.add(title);
  }
  if (doubled.size > 0) {
    warnings.push(`header names several columns alike: ${[...doubled].slice(0, 5).join(", ")}`);
  }
  const empty = Array.from({ length: width }, (_, column) => column).filter((column) =>
    body.every((record) => (record[column] ?? "") === ""),
  );
  if (empty.length > 0) {
    warnings.push(
      `${empty.length === 1 ? "empty column" : `${empty.length} empty columns`}, counted from 0: ${empty.slice(0, 10).join(", ")}`,
    );
  }
  return warnings;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function readWarnings(
  replaced: number,
  splitter: RecordSplitter,
  settings: Settings,
  encoding: Encoding,
  head: Uint8Array,
): string[] {
  const warnings: string[] = [];
  if (replaced > 0) {
    const hint =
      settings.encoding === "auto" && encoding === "utf-8" && !looksUtf8(head)
        ? "; if the file is in a Western single-byte encoding, read it with encoding: 'windows-1252' (annotate --encoding windows-1252)"
        : "";
    warnings.push(
      encoding.startsWith("utf-16")
        ? `${counted(replaced, "character")} could not be read as UTF-16 or had been lost before (U+FFFD); a file that was cut short can end in the middle of one`
        : `${counted(replaced, "character")} not in UTF-8, replaced by U+FFFD${hint}`,
    );
  }
  if (splitter.unbalanced > 0) {
    warnings.push(
      `${counted(splitter.unbalanced, "line")} with a quote that is not closed within 256 KiB, or never; it was taken as a character`,
    );
  }
  return warnings;
}
