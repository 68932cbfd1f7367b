import type { SparseRowArrays } from "../native/contract.js";
import { native } from "../native/load.js";

export interface SparseRows extends SparseRowArrays {
  rows: number;
}

/** Collects rows of unknown length; its arrays double as they fill. */
export class SparseBuilder {
  private starts = [0];
  private indices = new Int32Array(1024);
  private values = new Float32Array(1024);
  private length = 0;

  constructor(private readonly columns: number) {}

  /** One value of the open row; the columns of a row come in ascending order. */
  push(column: number, value: number): void {
    if (this.length === this.indices.length) this.grow();
    this.indices[this.length] = column;
    this.values[this.length++] = value;
  }

  endRow(): void {
    this.starts.push(this.length);
  }

  build(): SparseRows {
    return {
      rows: this.starts.length - 1,
      columns: this.columns,
      starts: Int32Array.from(this.starts),
      indices: this.indices.slice(0, this.length),
      values: this.values.slice(0, this.length),
    };
  }

  private grow(): void {
    const [indices, values] = [new Int32Array(2 * this.length), new Float32Array(2 * this.length)];
    indices.set(this.indices);
    values.set(this.values);
    this.indices = indices;
    this.values = values;
  }
}

/** Blocks of features of the same rows side by side: the columns of each follow those of the one before. */
export function besides(blocks: readonly SparseRows[]): SparseRows {
  const columns = blocks.reduce((sum, block) => sum + block.columns, 0);
  const builder = new SparseBuilder(columns);
  for (let row = 0; row < blocks[0]!.rows; row++) {
    let first = 0;
    for (const { starts, indices, values, columns } of blocks) {
      for (let k = starts[row]!; k < starts[row + 1]!; k++) builder.push(first + indices[k]!, values[k]!);
      first += columns;
    }
    builder.endRow();
  }
  return builder.build();
}

/** X W: (rows, width) of W (columns, width), row-major; added to what `into` holds. */
export function timesDense(
  x: SparseRows,
  w: Float32Array | Float64Array,
  width: number,
  into: Float64Array,
): Float64Array {
  return native().sparseProduct(x, w, width, into);
}

/** Xᵀ A: (columns, width) of A (rows, width), row-major. */
export function transposedTimesDense(x: SparseRows, a: Float64Array, width: number): Float64Array {
  return native().sparseTransposedProduct(x, a, width, new Float64Array(x.columns * width));
}

/** Xᵀ. */
export function transposed({ rows, columns, starts, indices, values }: SparseRows): SparseRows {
  const ends = new Int32Array(columns + 1);
  for (const column of indices) ends[column + 1]!++;
  for (let column = 0; column < columns; column++) ends[column + 1]! += ends[column]!;
  const out: SparseRows = {
    rows: columns,
    columns: rows,
    starts: ends.slice(),
    indices: new Int32Array(indices.length),
    values: new Float32Array(values.length),
  };
  for (let row = 0; row < rows; row++) {
    for (let k = starts[row]!; k < starts[row + 1]!; k++) {
      const at = ends[indices[k]!]!++;
      out.indices[at] = row;
      out.values[at] = values[k]!;
    }
  }
  return out;
}

/** factor · X. */
export function scaled(x: SparseRows, factor: number): SparseRows {
  return { ...x, values: x.values.map((value) => factor * value) };
}
