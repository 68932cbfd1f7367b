import { AegirError } from "../errors.js";
import type { NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import { CappedBernoulli } from "../rl/policy.js";

/** Which rows send themselves to which specialists: nested rows, (B·n) values row-major, or a tensor (B,n). */
export type ActivationLike =
  | Activation
  | readonly (readonly (boolean | number)[])[]
  | Uint8Array
  | NativeTensor;

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
  }

  static from(value: ActivationLike, batch: number, numSpecialists: number): Activation {
    if (value instanceof Activation) return new Activation(batch, numSpecialists, value.mask);
    if (value instanceof Uint8Array) return new Activation(batch, numSpecialists, value);
    if (Array.isArray(value)) return Activation.fromRows(value, batch, numSpecialists);
    const tensor = value as NativeTensor;
    if (tensor.dtype !== "bool" && tensor.dtype !== "u8") {
      throw new AegirError("ERR_DTYPE", `activation: expected bool or u8, got ${tensor.dtype}`);
    }
    return new Activation(batch, numSpecialists, tensor.data() as Uint8Array);
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
    const odd = rows.findIndex((row) => row.length !== numSpecialists);
    if (rows.length !== batch || odd >= 0) {
      const got = odd >= 0 ? `row ${odd} has ${rows[odd]!.length} values` : `got ${rows.length} rows`;
      throw new AegirError(
        "ERR_SHAPE",
        `activation: expected ${batch} rows of ${numSpecialists} specialists, ${got}`,
      );
    }
    return new Activation(batch, numSpecialists, Uint8Array.from(rows.flat(), Number));
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
