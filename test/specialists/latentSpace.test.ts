import { describe, expect, it } from "vitest";
import { Random } from "../../lib/data/random.js";
import { LatentSpace } from "../../lib/specialists/latentSpace.js";
import type { SparseRows } from "../../lib/specialists/sparse.js";
import { testSeed } from "../rl/support.js";
import { expectError } from "../swarm/support.js";
import { sparse } from "./support.js";

const seed = testSeed("latent space");
const random = new Random(seed, "rows");
const gaussians = (n: number) => Array.from({ length: n }, () => random.gaussian());

function dense(x: SparseRows): number[][] {
  return Array.from({ length: x.rows }, (_, row) => {
    const values = new Array<number>(x.columns).fill(0);
    for (let k = x.starts[row]!; k < x.starts[row + 1]!; k++) values[x.indices[k]!] = x.values[k]!;
    return values;
  });
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, i) => sum + value * b[i]!, 0);
}

/** Orthonormal vectors, each a random one less its part in those before. */
function orthonormal(count: number, width: number): number[][] {
  const vectors: number[][] = [];
  while (vectors.length < count) {
    let vector = gaussians(width);
    for (const other of vectors) {
      const part = dot(vector, other);
      vector = vector.map((value, i) => value - part * other[i]!);
    }
    const length = Math.hypot(...vector);
    vectors.push(vector.map((value) => value / length));
  }
  return vectors;
}

/** Rows of given singular values and their right singular vectors. */
function rowsOf(singular: readonly number[], rows: number, features: number) {
  const [left, right] = [orthonormal(singular.length, rows), orthonormal(singular.length, features)];
  const values = Array.from({ length: rows }, (_, r) =>
    Array.from({ length: features }, (__, f) =>
      singular.reduce((sum, value, i) => sum + value * left[i]![r]! * right[i]![f]!, 0),
    ),
  );
  return { values, right };
}

describe(`latent space, seed ${seed}`, () => {
  it("is the span of the first right singular vectors", async () => {
    const { values, right } = rowsOf([9, 7, 5, 0.5, 0.4, 0.2], 30, 12);
    const { basis, dimensions } = await LatentSpace.fit(sparse(values), 3);
    const columns = [0, 1, 2].map((k) => Array.from({ length: 12 }, (_, f) => basis[f * dimensions + k]!));
    for (const [i, a] of columns.entries())
      for (const [j, b] of columns.entries()) expect(dot(a, b)).toBeCloseTo(i === j ? 1 : 0, 5);
    // All of a vector of the span, and nothing of the next.
    for (const [i, vector] of right.entries())
      expect(Math.hypot(...columns.map((column) => dot(column, vector)))).toBeCloseTo(i < 3 ? 1 : 0, 5);
  });

  it("keeps all angles where it has as many dimensions as the rows, and more", async () => {
    const { values } = rowsOf([3, 2, 1], 10, 8);
    const x = sparse(values);
    for (const dimensions of [3, 5, 20]) {
      const placed = dense((await LatentSpace.fit(x, dimensions)).transform(x));
      for (const [i, a] of values.entries()) {
        for (const [j, b] of values.entries()) {
          const cosine = dot(a, b) / Math.hypot(...a) / Math.hypot(...b);
          expect(dot(placed[i]!, placed[j]!)).toBeCloseTo(cosine, 4);
        }
      }
    }
  });

  it("places rows that were not there by what they share with those, and rows of nothing at zero", async () => {
    // Features 0 and 1 occur together, and so do 2 and 3.
    const x = sparse([
      [1, 1, 0, 0, 0],
      [1, 1, 0, 0, 0],
      [0, 0, 1, 1, 0],
    ]);
    const space = await LatentSpace.fit(x, 2);
    const [first, second, third, unknown] = dense(
      space.transform(
        sparse([
          [1, 0, 0, 0, 0],
          [0, 1, 0, 0, 0],
          [0, 0, 1, 0, 0],
          [0, 0, 0, 0, 0],
        ]),
      ),
    );
    expect(dot(first!, second!)).toBeCloseTo(1, 5);
    expect(dot(first!, third!)).toBeCloseTo(0, 5);
    expect(unknown).toEqual([0, 0]);
  });

  it("leaves rows at zero that share nothing with its directions but rounding", async () => {
    const { values } = rowsOf([5, 4, 3], 40, 20);
    // Three weak rows of other features, which three dimensions have no room for.
    const weak = gaussians(3).map((_, i) => Array.from({ length: 24 }, (__, f) => (f === 20 + i ? 0.01 : 0)));
    const x = sparse([...values.map((row) => [...row, 0, 0, 0, 0]), ...weak]);
    const placed = dense((await LatentSpace.fit(x, 3)).transform(x));
    for (const row of placed.slice(40)) expect(row).toEqual([0, 0, 0]);
    for (const row of placed.slice(0, 40)) expect(Math.hypot(...row)).toBeCloseTo(1, 5);
  });

  it("stops where it is told to", async () => {
    const stopped = LatentSpace.fit(sparse([[1, 2]]), 1, AbortSignal.abort());
    await expect(stopped).rejects.toThrow(expectError("ERR_ABORTED", /^latent space: interrupted/));
  });
});
