import { createHash } from "node:crypto";
import type { Dataset } from "../data/types.js";

/** Cells of a column that are looked at: a table that was edited further down is not noticed. */
const CELLS = 16;

/** Of the labelled columns that are learnt from or validated on, in their order: names, labels, lengths, headers and first cells. */
export function fingerprintOf({ splits, tables }: Pick<Dataset, "splits" | "tables">): string {
  const hash = createHash("sha256");
  for (const split of ["train", "validation"] as const) {
    for (const { table, column, mainColumn = null, label } of splits[split]) {
      const { header, cells } = tables.get(table)!.columns[column]!;
      const said = [split, table, column, mainColumn, label, header, cells.length, cells.slice(0, CELLS)];
      hash.update(JSON.stringify(said));
    }
  }
  return hash.digest("hex");
}
