import { native } from "../native/load.js";
import { Lane } from "../tensor/lane.js";
import { type SparseRows, timesDense, transposed, transposedTimesDense } from "./sparse.js";

/** Products with X Xᵀ, all that a fit needs to know of its rows. */
export interface Gram extends Disposable {
  rows: number;
  /** X Xᵀ A of A (rows, width), row-major; a new array. */
  multiply(a: Float64Array, width: number): Promise<Float64Array>;
}

/** Rows up to which X Xᵀ is held whole: 256 MB, and a product costs less than two with the features. */
const DENSE_ROWS = 8192;

/** X Xᵀ, whole where the rows are few, else by products with Xᵀ and X. */
export function gramOf(x: SparseRows): Gram {
  return x.rows <= DENSE_ROWS ? denseGram(ownProducts(x), x.rows) : sparseGram(x);
}

/** Multiplies by Xᵀ, then by X. */
export function sparseGram(x: SparseRows): Gram {
  return {
    rows: x.rows,
    multiply: async (a, width) =>
      timesDense(x, transposedTimesDense(x, a, width), width, new Float64Array(x.rows * width)),
    [Symbol.dispose]: () => {},
  };
}

/** X Xᵀ (rows, rows) as one f32 tensor, multiplied on a lane of one thread. */
export function denseGram(products: Float32Array, rows: number): Gram {
  const { Tensor } = native();
  const lane = new Lane({ name: "gram", threads: 1 });
  const kernel = Tensor.fromData(products, [rows, rows], "f32");
  return {
    rows,
    multiply: async (a, width) => {
      using weight = Tensor.fromData(new Float32Array(a), [rows, width], "f32");
      using product = await native().matmul(lane.native, { x: kernel, weight });
      return new Float64Array(product.data() as Float32Array);
    },
    [Symbol.dispose]: () => {
      kernel.dispose();
      void lane.close();
    },
  };
}

/** X Xᵀ (rows, rows), row-major, by the rows that share each feature. */
export function ownProducts(x: SparseRows): Float32Array {
  const { rows, columns, starts, indices, values } = x;
  const out = new Float32Array(rows * rows);
  const holders = transposed(x);
  // The rows of a feature ascend: those before `first` are the rows done, whose products with this one are known.
  const first = holders.starts.slice(0, columns);
  for (let row = 0; row < rows; row++) {
    const to = row * rows;
    for (let k = starts[row]!; k < starts[row + 1]!; k++) {
      const feature = indices[k]!;
      const value = values[k]!;
      const end = holders.starts[feature + 1]!;
      for (let h = first[feature]!; h < end; h++)
        out[to + holders.indices[h]!]! += value * holders.values[h]!;
      first[feature]!++;
    }
    for (let other = row + 1; other < rows; other++) out[other * rows + row] = out[to + other]!;
  }
  return out;
}
