import { AegirError } from "../errors.js";
import type { Table } from "./types.js";

const EXPECTED = "expected { name, columns: [{ header: a string or null, cells: strings }, …] }";

/** A table that was made in memory, and not by a reader. @throws AegirError ERR_ARGUMENT naming the first part that is not as `Table` says */
export function checkIsTable(table: Table): void {
  if (typeof table !== "object" || table === null || Array.isArray(table)) throw refusal("table", table);
  const { name, columns } = table;
  if (typeof name !== "string") throw refusal("table.name", name);
  if (!Array.isArray(columns)) throw refusal("table.columns", columns);
  for (const [i, column] of columns.entries()) {
    const part = `table.columns[${i}]`;
    if (typeof column !== "object" || column === null || Array.isArray(column)) throw refusal(part, column);
    const { header, cells } = column;
    if (header !== null && typeof header !== "string") throw refusal(`${part}.header`, header);
    if (!Array.isArray(cells)) throw refusal(`${part}.cells`, cells);
    const odd = cells.findIndex((cell) => typeof cell !== "string");
    if (odd >= 0) throw refusal(`${part}.cells[${odd}]`, cells[odd]);
  }
}

function refusal(part: string, was: unknown): AegirError {
  return new AegirError("ERR_ARGUMENT", `${part} was ${described(was)}; ${EXPECTED}`);
}

function described(value: unknown): string {
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return typeof value === "object" && value !== null ? "an object" : String(value);
}
