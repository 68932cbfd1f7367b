import { SparseBuilder, type SparseRows } from "../../lib/specialists/sparse.js";

export function sparse(rows: readonly (readonly number[])[]): SparseRows {
  const builder = new SparseBuilder(rows[0]?.length ?? 0);
  for (const row of rows) {
    for (const [column, value] of row.entries()) if (value !== 0) builder.push(column, value);
    builder.endRow();
  }
  return builder.build();
}
