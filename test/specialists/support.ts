import type { Table } from "../../lib/data/types.js";
import { SparseBuilder, type SparseRows } from "../../lib/specialists/sparse.js";

export function sparse(rows: readonly (readonly number[])[]): SparseRows {
  const builder = new SparseBuilder(rows[0]?.length ?? 0);
  for (const row of rows) {
    for (const [column, value] of row.entries()) if (value !== 0) builder.push(column, value);
    builder.endRow();
  }
  return builder.build();
}

/** Of columns without headers. */
export function table(name: string, ...columns: string[][]): Table {
  return { name, columns: columns.map((cells) => ({ header: null, cells })) };
}
