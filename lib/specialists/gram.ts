import { type SparseRows, timesDense, transposedTimesDense } from "./sparse.js";

/** Products with X Xᵀ, all that a fit needs to know of its rows. */
export interface Gram {
  rows: number;
  /** X Xᵀ A of A (rows, width), row-major; a new array. */
  multiply(a: Float64Array, width: number): Promise<Float64Array>;
}

/** Multiplies by Xᵀ, then by X. */
export function sparseGram(x: SparseRows): Gram {
  return {
    rows: x.rows,
    multiply: async (a, width) =>
      timesDense(x, transposedTimesDense(x, a, width), width, new Float64Array(x.rows * width)),
  };
}
