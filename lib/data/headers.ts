import { AegirError } from "../errors.js";
import type { Column, Dataset } from "./types.js";

export function haveHeaders(columns: readonly Column[]): boolean {
  return columns.some(({ header }) => Boolean(header));
}

/** For systems that are to learn from headers. @throws AegirError ERR_DATA where none of the columns has one */
export function checkHeaders(columns: readonly Column[]): void {
  if (haveHeaders(columns)) return;
  throw new AegirError(
    "ERR_DATA",
    "headers (--headers): no training column has a header; leave the option out, or give tables with headers",
  );
}

/** Every column of the tables that training columns lie in. */
export function trainingColumns({ splits, tables }: Dataset): Column[] {
  const names = new Set(splits.train.map(({ table }) => table));
  return [...names].flatMap((name) => tables.get(name)!.columns);
}
