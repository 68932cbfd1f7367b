import { AegirError } from "../errors.js";

/** @param what the part of a stored specialist and what it should be @throws AegirError ERR_CHECKPOINT unless it `holds` */
export function checkStored(holds: boolean, what: string): void {
  if (!holds) throw new AegirError("ERR_CHECKPOINT", `damaged: ${what}`);
}

/** @throws AegirError ERR_CHECKPOINT unless whole numbers ascend within [0, end) */
export function checkAscending(values: ArrayLike<number>, end: number, what: string): void {
  checkStored(values instanceof Int32Array, `${what} of another type than whole numbers of 32 bits`);
  let former = -1;
  for (let i = 0; i < values.length; i++) {
    checkStored(values[i]! > former && values[i]! < end, `${what}, expected ascending numbers below ${end}`);
    former = values[i]!;
  }
}

/** @throws AegirError ERR_CHECKPOINT unless there are `length` finite numbers */
export function checkNumbers(values: ArrayLike<number>, length: number, what: string): void {
  checkStored(values instanceof Float32Array, `${what} of another type than f32`);
  checkStored(values.length === length, `${what} of ${values.length} values, expected ${length}`);
  for (let i = 0; i < length; i++)
    checkStored(Number.isFinite(values[i]), `${what}, expected finite numbers`);
}
