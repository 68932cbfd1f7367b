import { AegirError } from "../errors.js";
import type { Column, Dataset } from "./types.js";

/** What reads headers: those of labelled columns alone, or those of the other columns of their tables too. */
type Readers = "target" | "table";

/** Whether a training column has a header. */
export function haveHeaders({ splits, tables }: Dataset, of: Readers): boolean {
  const columnsOf = (table: string): Column[] => tables.get(table)!.columns;
  return splits.train.some(({ table, column }) => {
    const read = of === "target" ? [columnsOf(table)[column]!] : columnsOf(table);
    return read.some(({ header }) => Boolean(header));
  });
}

/** For what is to learn from headers. @throws AegirError ERR_DATA where no training column has one */
export function checkHeaders(dataset: Dataset, of: Readers): void {
  if (haveHeaders(dataset, of)) return;
  throw new AegirError(
    "ERR_DATA",
    `headers (--headers): no ${of === "target" ? "labelled " : ""}training column of ${dataset.name} has a header; leave the option out, or give tables with headers`,
  );
}
