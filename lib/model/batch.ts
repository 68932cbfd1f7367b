import type { Batch, ColumnRef } from "../data/types.js";
import { native } from "../native/load.js";
import type { ModelInputs } from "./types.js";

/** The tensors of a batch of encoded columns; `dispose` frees them. */
export interface BatchInputs extends ModelInputs, Disposable {
  /** (B) what was encoded; models read the tokens, specialists of other kinds these. */
  columns?: readonly ColumnRef[];
  dispose(): void;
}

/** Copies a batch of the data loader into tensors: ids, roles, lengths and pool mask. */
export function batchInput(batch: Batch): BatchInputs {
  const Tensor = native().Tensor;
  const shape = [batch.size, batch.tokens];
  const inputs = {
    inputIds: Tensor.fromData(batch.ids, shape, "i64"),
    roleIds: Tensor.fromData(batch.roles, shape, "i64"),
    lengths: Tensor.fromData(batch.lengths, [batch.size], "i64"),
    poolMask: Tensor.fromData(batch.pool, shape, "bool"),
  };
  const dispose = () => {
    for (const tensor of Object.values(inputs)) tensor.dispose();
  };
  const columns = batch.sources && { columns: batch.sources };
  return { ...inputs, ...columns, dispose, [Symbol.dispose]: dispose };
}
