import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { native } from "../../lib/native/load.js";
import {
  SparseBuilder,
  type SparseRows,
  timesDense,
  transposedTimesDense,
} from "../../lib/specialists/sparse.js";
import { testSeed } from "../rl/support.js";

const real = fc.double({ min: -2, max: 2, noNaN: true }).map(Math.fround);

/** Rows of a matrix that is mostly zero, with that matrix. */
const matrices = fc
  .tuple(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 0, max: 6 }))
  .chain(([columns, rows]) => {
    const value = fc.oneof(fc.constant(0), real);
    return fc.array(fc.array(value, { minLength: columns, maxLength: columns }), {
      minLength: rows,
      maxLength: rows,
    });
  });

function sparse(matrix: number[][], columns: number): SparseRows {
  const builder = new SparseBuilder(columns);
  for (const row of matrix) {
    for (const [column, value] of row.entries()) if (value !== 0) builder.push(column, value);
    builder.endRow();
  }
  return builder.build();
}

describe("sparse products", () => {
  const seed = testSeed("sparse products");

  it("are the sums that plain loops make, to the last bit", () => {
    const law = fc.property(
      matrices,
      fc.integer({ min: 1, max: 5 }),
      fc.infiniteStream(real),
      (matrix, width, values) => {
        const columns = matrix[0]?.length ?? 3;
        const x = sparse(matrix, columns);
        const draw = (length: number) => Float64Array.from({ length }, () => values.next().value!);
        const [weight, rows, start] = [
          draw(columns * width),
          draw(matrix.length * width),
          draw(matrix.length * width),
        ];
        const product = start.slice();
        const transposed = new Float64Array(columns * width);
        for (const [i, row] of matrix.entries()) {
          for (const [j, value] of row.entries()) {
            if (value === 0) continue;
            for (let c = 0; c < width; c++) {
              product[i * width + c]! += value * weight[j * width + c]!;
              transposed[j * width + c]! += value * rows[i * width + c]!;
            }
          }
        }
        expect(timesDense(x, weight, width, start.slice())).toEqual(product);
        expect(timesDense(x, Float32Array.from(weight), width, start.slice())).toEqual(product);
        expect(transposedTimesDense(x, rows, width)).toEqual(transposed);
      },
    );
    fc.assert(law, { seed, numRuns: 200 });
  });

  it.each([
    ["x.indices", { indices: Int32Array.of(0, 3) }],
    ["x.indices", { indices: Int32Array.of(-1, 2) }],
    ["x.starts", { starts: Int32Array.of(0, 3, 2) }],
    ["x.starts", { starts: Int32Array.of(0, 1, 1) }],
    ["x.starts", { starts: new Int32Array(0) }],
    ["x.values", { values: Float64Array.of(1, 2) as unknown as Float32Array }],
    ["into", {}, new Float64Array(5)],
    ["into", {}, new Float32Array(4) as unknown as Float64Array],
    ["dense", {}, new Float64Array(4), new Float64Array(7)],
    ["dense", {}, new Float64Array(4), [1] as unknown as Float64Array],
  ])(
    "refuse arrays that do not fit, naming %s",
    (name, part, into = new Float64Array(4), dense = new Float64Array(6)) => {
      const x = {
        columns: 3,
        starts: Int32Array.of(0, 1, 2),
        indices: Int32Array.of(0, 2),
        values: Float32Array.of(1, 2),
      };
      expect(() => native().sparseProduct({ ...x, ...part }, dense, 2, into)).toThrow(`${name}: expected`);
    },
  );
});
