import { AegirError } from "../errors.js";
import type { NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import { CappedBernoulli } from "../rl/policy.js";
import { Tensor } from "../tensor/tensor.js";

/** Which rows send themselves to which specialists: nested rows, (B·n) values row-major, or a tensor (B,n). */
export type ActivationLike =
  | Activation
  | readonly (readonly (boolean | number)[])[]
  | Uint8Array
  | NativeTensor;

function checkShape(shape: number[], batch: number, numSpecialists: number): void {
  if (shape.length === 2 && shape[0] === batch && shape[1] === numSpecialists) return;
  throw new AegirError(
    "ERR_SHAPE",
    `activation: expected (${batch},${numSpecialists}), got (${shape.join(",")})`,
  );
}

/** A routing decision: (B,n) booleans. */
export class Activation {
  /** @param mask (B·n) row-major, 1 where the row activated the specialist */
  constructor(
    readonly batch: number,
    readonly numSpecialists: number,
    readonly mask: Uint8Array,
  ) {
    if (mask.length !== batch * numSpecialists) {
      throw new AegirError(
        "ERR_SHAPE",
        `activation: expected ${batch} rows of ${numSpecialists} specialists, got ${mask.length} values`,
      );
    }
    const odd = mask.find((value) => value > 1);
    if (odd !== undefined) throw new AegirError("ERR_ARGUMENT", `activation: expected 0 or 1, got ${odd}`);
  }

  static from(value: ActivationLike, batch: number, numSpecialists: number): Activation {
    if (value instanceof Activation) {
      checkShape([value.batch, value.numSpecialists], batch, numSpecialists);
      return value;
    }
    if (value instanceof Uint8Array) return new Activation(batch, numSpecialists, value);
    if (Array.isArray(value)) return Activation.fromRows(value, batch, numSpecialists);
    if (value instanceof Tensor) return Activation.fromTensor(value as NativeTensor, batch, numSpecialists);
    throw new AegirError(
      "ERR_ARGUMENT",
      "activation: expected rows of booleans, a Uint8Array or a tensor (B,n)",
    );
  }

  static constant(value: boolean, batch: number, numSpecialists: number): Activation {
    return new Activation(batch, numSpecialists, new Uint8Array(batch * numSpecialists).fill(value ? 1 : 0));
  }

  /** The decision of evaluation: per row the up to `maxActive` largest logits with sigmoid(z) > threshold. */
  static fromLogits(logits: NativeTensor, threshold: number, maxActive: number): Activation {
    const [batch, n] = logits.shape as [number, number];
    const values = logits.data() as Float32Array | Float64Array;
    const mask = new Uint8Array(batch * n);
    for (let row = 0; row < batch; row++) {
      const policy = new CappedBernoulli(values.subarray(row * n, (row + 1) * n), maxActive);
      mask.set(policy.mode(threshold), row * n);
    }
    return new Activation(batch, n, mask);
  }

  private static fromRows(
    rows: readonly (readonly (boolean | number)[])[],
    batch: number,
    numSpecialists: number,
  ): Activation {
    const odd = rows.findIndex((row) => row?.length !== numSpecialists);
    if (rows.length !== batch || odd >= 0) {
      const got = odd >= 0 ? `row ${odd} has ${rows[odd]?.length} values` : `got ${rows.length} rows`;
      throw new AegirError(
        "ERR_SHAPE",
        `activation: expected ${batch} rows of ${numSpecialists} specialists, ${got}`,
      );
    }
    const values = rows.flat();
    const other = values.findIndex((value) => Number(value) !== 0 && Number(value) !== 1);
    if (other >= 0) {
      const where = `[${Math.floor(other / numSpecialists)}][${other % numSpecialists}]`;
      throw new AegirError("ERR_ARGUMENT", `activation${where}: expected 0 or 1, got ${values[other]}`);
    }
    return new Activation(batch, numSpecialists, Uint8Array.from(values, Number));
  }

  private static fromTensor(tensor: NativeTensor, batch: number, numSpecialists: number): Activation {
    if (tensor.dtype !== "bool" && tensor.dtype !== "u8") {
      throw new AegirError("ERR_DTYPE", `activation: expected bool or u8, got ${tensor.dtype}`);
    }
    checkShape(tensor.shape, batch, numSpecialists);
    return new Activation(batch, numSpecialists, tensor.data() as Uint8Array);
  }

  /** Rows that activated `specialist`, ascending. */
  rowsOf(specialist: number): number[] {
    const rows: number[] = [];
    for (let row = 0; row < this.batch; row++) {
      if (this.mask[row * this.numSpecialists + specialist]) rows.push(row);
    }
    return rows;
  }

  /** Whether any row activated any specialist. */
  get any(): boolean {
    return this.mask.includes(1);
  }

  /** (n) share of rows that activated each specialist. */
  rates(): number[] {
    return Array.from(
      { length: this.numSpecialists },
      (_, n) => this.rowsOf(n).length / Math.max(1, this.batch),
    );
  }

  /** (B,n) bool, a new tensor. */
  toTensor(): NativeTensor {
    return native().Tensor.fromData(this.mask, [this.batch, this.numSpecialists], "bool");
  }
}
