import type { Batch, ColumnRef } from "../data/types.js";
import { native } from "../native/load.js";
import type { ModelInputs } from "./types.js";

/** The tensors of a batch of encoded columns; `dispose` frees them. */
export interface BatchInputs extends ModelInputs, Disposable {
  /** (B) what was encoded; models read the tokens, specialists of other kinds these. */
  columns?: readonly ColumnRef[];
  dispose(): void;
}

/** Copies a batch of the data loader into tensors: ids, roles, pool mask, and lengths or, column-wise, where the columns stand. */
export function batchInput(batch: Batch): BatchInputs {
  const { Tensor } = native();
  const { columns, size, tokens } = batch;
  const shape = columns ? [1, tokens] : [size, tokens];
  const index = (values: Int32Array, ...sizes: number[]) => Tensor.fromData(values, sizes, "i64");
  const inputs = {
    inputIds: index(batch.ids, ...shape),
    roleIds: index(batch.roles, ...shape),
    poolMask: Tensor.fromData(batch.pool, shape, "bool"),
    ...(columns
      ? {
          cuSeqlens: index(columns.cuSeqlens, columns.cuSeqlens.length),
          targets: index(columns.targets, size),
          context: index(columns.context, size, columns.width),
          positions: index(columns.positions, columns.positions.length),
        }
      : { lengths: index(batch.lengths, size) }),
  };
  const dispose = () => {
    for (const tensor of Object.values(inputs)) tensor.dispose();
  };
  const sources = batch.sources && { columns: batch.sources };
  return { ...inputs, ...sources, dispose, [Symbol.dispose]: dispose };
}
