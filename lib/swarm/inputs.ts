import type { ColumnRef } from "../data/types.js";
import { AegirError } from "../errors.js";
import type { ModelInputs } from "../model/index.js";
import type { NativeTensor } from "../native/contract.js";
import { checkTensor } from "../tensor/tensor.js";
import { disposeAll, indexTensor } from "./module.js";

/** What the primary and the specialists read: whole rows from their start. */
export interface RowInputs extends Pick<ModelInputs, "inputIds" | "roleIds" | "lengths" | "poolMask"> {
  /** (B) the columns that were encoded: what specialists without recurrent states read. */
  columns?: readonly ColumnRef[];
}

export interface OwnedInputs extends RowInputs {
  dispose(): void;
}

/**
 * (B) i64 valid tokens of each row of a right-padding mask (B,T), true where a token counts.
 * @throws AegirError ERR_SHAPE, ERR_DTYPE; ERR_ARGUMENT for a row that is empty or not a run of true from its start
 */
export function lengthsOfMask(mask: NativeTensor, inputIds: NativeTensor): NativeTensor {
  checkTensor(mask, "mask");
  checkTensor(inputIds, "inputIds");
  if (mask.shape.length !== 2 || mask.shape.join() !== inputIds.shape.join()) {
    throw new AegirError(
      "ERR_SHAPE",
      `mask: expected (B,T) as inputIds, (${inputIds.shape.join(",")}), got (${mask.shape.join(",")})`,
    );
  }
  if (mask.dtype !== "bool") throw new AegirError("ERR_DTYPE", `mask: expected bool, got ${mask.dtype}`);
  const [batch, tokens] = mask.shape as [number, number];
  const values = Array.from(mask.data(), Number);
  const lengths = Array.from({ length: batch }, (_, row) => {
    const valid = values.slice(row * tokens, (row + 1) * tokens);
    const length = valid.lastIndexOf(1) + 1;
    if (length === 0 || valid.slice(0, length).some((v) => v !== 1)) {
      const what = length === 0 ? "has no true token" : `is false at ${valid.indexOf(0)} and true after`;
      throw new AegirError(
        "ERR_ARGUMENT",
        `mask: row ${row} ${what}; rows must be padded on the right: true … true false … false`,
      );
    }
    return length;
  });
  return indexTensor(lengths);
}

/** The chosen rows, ascending, cut to the longest of them. */
export function selectInputRows(inputs: RowInputs, rows: readonly number[]): OwnedInputs {
  const index = indexTensor(rows);
  const made: NativeTensor[] = [index];
  const keep = (tensor: NativeTensor) => {
    made.push(tensor);
    return tensor;
  };
  const lengths = inputs.lengths && keep(inputs.lengths.indexSelect(0, index));
  const tokens = lengths
    ? Math.max(...Array.from(lengths.data(), Number))
    : (inputs.inputIds.shape[1] as number);
  const pick = (tensor: NativeTensor | undefined) => {
    if (!tensor) return undefined;
    const chosen = keep(tensor.indexSelect(0, index));
    return tokens < (tensor.shape[1] as number) ? keep(chosen.slice(1, 0, tokens)) : chosen;
  };
  return {
    inputIds: pick(inputs.inputIds) as NativeTensor,
    roleIds: pick(inputs.roleIds),
    lengths,
    poolMask: pick(inputs.poolMask),
    ...(inputs.columns && { columns: rows.map((row) => inputs.columns![row]!) }),
    dispose: () => disposeAll(made),
  };
}
