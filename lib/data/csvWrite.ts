import type { Table } from "./types.js";

/** What a reader could take for structure: delimiters of any dialect, quotes, line ends, edge spaces, a byte order mark. */
const NEEDS_QUOTES = /[,;\t|"\r\n]|^[\s\ufeff]|\s$/;

/** One CSV record, comma-separated, with its line end. A record of one empty field is quoted, as an empty line is no record. */
export function formatRecord(fields: readonly string[]): string {
  if (fields.length === 1 && fields[0] === "") return '""\n';
  const quoted = fields.map((field) =>
    NEEDS_QUOTES.test(field) ? `"${field.replaceAll('"', '""')}"` : field,
  );
  return `${quoted.join(",")}\n`;
}

/** A table as CSV, with a header record where any column has a header. */
export function formatCsv(table: Table): string {
  const lines: string[] = [];
  if (hasHeader(table)) lines.push(formatRecord(table.columns.map((column) => column.header ?? "")));
  const rows = table.columns.reduce((most, column) => Math.max(most, column.cells.length), 0);
  for (let row = 0; row < rows; row++) {
    lines.push(formatRecord(table.columns.map((column) => column.cells[row] ?? "")));
  }
  return lines.join("");
}

export function hasHeader(table: Table): boolean {
  return table.columns.some((column) => column.header !== null);
}
