import { setImmediate } from "node:timers/promises";
import { Random } from "../data/random.js";
import { AegirError } from "../errors.js";
import { checkNumbers } from "./checkStored.js";
import { SparseBuilder, type SparseRows, timesDense, transposedTimesDense } from "./sparse.js";

/** Multiplications by X Xᵀ: of directions whose singular values are alike, which are found matters little. */
const ITERATIONS = 6;
/** A direction that keeps less than this of its square beside those before it is one of theirs. */
const SMALLEST_PART = 1e-10;
/** Of a row's length: what of it lies in the span by rounding alone. */
const ROUNDING = 1e-6;

/**
 * Latent semantic analysis (Deerwester et al. 1990): the span of the first right singular vectors of training rows X. Features that occur together
 * are near in it, so that a row is known by n-grams that no training row of its label had.
 */
export class LatentSpace {
  private constructor(
    readonly dimensions: number,
    /** (features, dimensions) row-major, its columns orthonormal or zero. */
    readonly basis: Float32Array,
  ) {}

  /** By orthogonal iteration from random directions (Halko, Martinsson and Tropp 2011, algorithm 4.4). @throws AegirError ERR_ABORTED */
  static async fit(x: SparseRows, dimensions: number, signal?: AbortSignal): Promise<LatentSpace> {
    const random = new Random(0, "latent space");
    const turn = async (step: number) => {
      await setImmediate();
      if (signal?.aborted)
        throw new AegirError(
          "ERR_ABORTED",
          `latent space: interrupted after ${step} of ${ITERATIONS} iterations`,
        );
    };
    const again = (span: Float64Array) =>
      timesDense(x, transposedTimesDense(x, span, dimensions), dimensions, new Float64Array(span.length));
    let span: Float64Array = Float64Array.from({ length: x.rows * dimensions }, () => random.gaussian());
    for (let i = 0; i < ITERATIONS; i++) {
      await turn(i);
      const next = again(span);
      span = whitened(next, products(next, next, dimensions), dimensions);
    }
    await turn(ITERATIONS);
    // V = Xᵀ U L^(-T) has orthonormal columns where Uᵀ X Xᵀ U = L Lᵀ.
    const directions = whitened(span, products(span, again(span), dimensions), dimensions);
    await turn(ITERATIONS);
    return new LatentSpace(dimensions, Float32Array.from(transposedTimesDense(x, directions, dimensions)));
  }

  /** @throws AegirError ERR_CHECKPOINT */
  static restore(features: number, dimensions: number, basis: Float32Array): LatentSpace {
    checkNumbers(basis, features * dimensions, "latent dimensions");
    return new LatentSpace(dimensions, basis);
  }

  /** Where rows lie in the span, (rows, dimensions), each of length 1; zero where nothing is known. */
  transform(x: SparseRows): SparseRows {
    const { dimensions } = this;
    const at = timesDense(x, this.basis, dimensions, new Float64Array(x.rows * dimensions));
    const builder = new SparseBuilder(dimensions);
    for (let row = 0; row < x.rows; row++) {
      const values = at.subarray(row * dimensions, (row + 1) * dimensions);
      const length = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
      const own = x.values.subarray(x.starts[row]!, x.starts[row + 1]!);
      const whole = Math.sqrt(own.reduce((sum, value) => sum + value * value, 0));
      if (length > ROUNDING * whole)
        for (const [k, value] of values.entries()) builder.push(k, value / length);
      builder.endRow();
    }
    return builder.build();
  }
}

/** Yᵀ Z (width, width) of Y and Z (rows, width), row-major; its lower half. */
function products(y: Float64Array, z: Float64Array, width: number): Float64Array {
  const sums = new Float64Array(width * width);
  for (let start = 0; start < y.length; start += width) {
    for (let i = 0; i < width; i++) {
      const value = y[start + i]!;
      if (value === 0) continue;
      for (let j = 0; j <= i; j++) sums[i * width + j]! += value * z[start + j]!;
    }
  }
  return sums;
}

/** Y L^(-T) of Y (rows, width) and L Lᵀ, given by its lower half; columns that hang on those before them become zero. */
function whitened(y: Float64Array, gram: Float64Array, width: number): Float64Array {
  const factor = cholesky(gram, width);
  const out = new Float64Array(y.length);
  for (let start = 0; start < y.length; start += width) {
    for (let i = 0; i < width; i++) {
      const pivot = factor[i * width + i]!;
      if (pivot === 0) continue;
      let value = y[start + i]!;
      for (let j = 0; j < i; j++) value -= factor[i * width + j]! * out[start + j]!;
      out[start + i] = value / pivot;
    }
  }
  return out;
}

/** L with L Lᵀ = A (width, width), given by its lower half; rows without a part of their own are zero. */
function cholesky(a: Float64Array, width: number): Float64Array {
  const factor = new Float64Array(width * width);
  for (let i = 0; i < width; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = a[i * width + j]!;
      for (let k = 0; k < j; k++) sum -= factor[i * width + k]! * factor[j * width + k]!;
      if (i > j) factor[i * width + j] = factor[j * width + j]! > 0 ? sum / factor[j * width + j]! : 0;
      else if (sum > SMALLEST_PART * a[i * width + i]!) factor[i * width + i] = Math.sqrt(sum);
      else factor.fill(0, i * width, (i + 1) * width);
    }
  }
  return factor;
}
