import { AegirError } from "../errors.js";
import { type Gram, gramOf } from "./gram.js";
import { type SparseRows, transposedTimesDense } from "./sparse.js";

export interface RegressionOptions {
  /** Inverse of the L2 penalty, scikit-learn's C: the objective is Σ_i −log p(y_i | x_i) + ‖W‖² / (2 c); the bias is not penalised. */
  c: number;
  /** Relative to the gradient's norm at zero. */
  tolerance?: number;
  maxIterations?: number;
  /** (n) of the rows' losses; one of weight 0 takes no part, and gets logits all the same. Absent: 1 each. */
  weights?: ArrayLike<number>;
  signal?: AbortSignal;
}

/** p(y | x) = softmax(x W + b). */
export interface Regression {
  /** (features, classes) row-major */
  weight: Float64Array;
  /** (classes) */
  bias: Float64Array;
  iterations: number;
  /** Of the objective at the end. */
  objective: number;
}

/** Former steps that approximate the curvature. */
const MEMORY = 8;
const ARMIJO = 1e-4;
const CURVATURE = 0.9;
const LINE_STEPS = 20;

/**
 * A point of weights W = Xᵀ A with its bias: `rows` (n,C) is A, `logits` (n,C) is X W + 1 bᵀ. By the representer theorem no optimum lies
 * outside, so the search needs vectors of n·C numbers instead of features·C, and one product with X Xᵀ for each of its steps.
 */
interface Point {
  rows: Float64Array;
  logits: Float64Array;
  bias: Float64Array;
}

/**
 * Multinomial logistic regression by L-BFGS (Nocedal and Wright, algorithm 7.4) on the rows' coefficients, with the scalar product of
 * the weights that they stand for, ⟨A, B⟩ = tr(Aᵀ X Xᵀ B): its steps are those of L-BFGS on the weights themselves. Deterministic.
 * @param labels class ids, one a row
 * @throws AegirError ERR_ARGUMENT naming what does not fit; ERR_ABORTED
 */
export async function fitSoftmax(
  x: SparseRows,
  labels: ArrayLike<number>,
  classes: number,
  options: RegressionOptions,
): Promise<Regression> {
  using gram = gramOf(x);
  const { rows, bias, iterations, objective } = await fitRows(gram, labels, classes, options);
  return { weight: transposedTimesDense(x, rows, classes), bias, iterations, objective };
}

/** A fit by its rows: weights are Xᵀ `rows`. */
export interface RowsFit {
  /** (n,C) */
  rows: Float64Array;
  /** (n,C) */
  logits: Float64Array;
  /** (C) */
  bias: Float64Array;
  iterations: number;
  objective: number;
}

/** The fit by its rows' coefficients, of rows that are known by their scalar products alone. */
export async function fitRows(
  gram: Gram,
  labels: ArrayLike<number>,
  classes: number,
  { c, tolerance = 1e-2, maxIterations = 200, weights, signal }: RegressionOptions,
): Promise<RowsFit> {
  checkProblem(gram.rows, labels, classes, c);
  const problem = new Problem(
    gram,
    Int32Array.from(labels),
    classes,
    1 / c,
    Float64Array.from(weights ?? new Float64Array(labels.length).fill(1)),
  );
  const at = problem.zero();
  let value = problem.value(at.logits, 0);
  let gradient = await problem.gradient(at);
  const small = tolerance * Math.sqrt(problem.dot(gradient, gradient));
  const history: { step: Point; change: Point; scale: number }[] = [];
  let iterations = 0;
  for (; iterations < maxIterations; iterations++) {
    if (signal?.aborted)
      throw new AegirError("ERR_ABORTED", `softmax regression: interrupted after ${iterations} steps`);
    if (Math.sqrt(problem.dot(gradient, gradient)) <= small) break;
    const direction = problem.clone(gradient);
    const shares: number[] = [];
    for (const { step, change, scale } of history.toReversed()) {
      const share = scale * problem.dot(step, direction);
      problem.add(direction, change, -share);
      shares.unshift(share);
    }
    const last = history.at(-1);
    if (last) problem.scale(direction, 1 / (last.scale * problem.dot(last.change, last.change)));
    else problem.scale(direction, 1 / Math.sqrt(problem.dot(gradient, gradient)));
    for (const [i, { step, change, scale }] of history.entries())
      problem.add(direction, step, shares[i]! - scale * problem.dot(change, direction));
    problem.scale(direction, -1);
    const found = problem.search(at, value, direction);
    if (!found) break;
    problem.scale(direction, found.length);
    problem.add(at, direction, 1);
    value = found.value;
    const next = await problem.gradient(at);
    const change = problem.clone(next);
    problem.add(change, gradient, -1);
    const curvature = problem.dot(direction, change);
    if (curvature > 0) history.push({ step: direction, change, scale: 1 / curvature });
    if (history.length > MEMORY) history.shift();
    gradient = next;
  }
  return { ...at, iterations, objective: value };
}

/** The objective over points, and the algebra on them. */
class Problem {
  private readonly probabilities: Float64Array;

  constructor(
    private readonly gram: Gram,
    private readonly labels: Int32Array,
    private readonly classes: number,
    private readonly penalty: number,
    private readonly weights: Float64Array,
  ) {
    this.probabilities = new Float64Array(gram.rows * classes);
  }

  zero(): Point {
    const size = this.gram.rows * this.classes;
    return {
      rows: new Float64Array(size),
      logits: new Float64Array(size),
      bias: new Float64Array(this.classes),
    };
  }

  clone({ rows, logits, bias }: Point): Point {
    return { rows: rows.slice(), logits: logits.slice(), bias: bias.slice() };
  }

  /** The point p becomes p + factor q. */
  add(p: Point, q: Point, factor: number): void {
    addTo(p.rows, q.rows, factor);
    addTo(p.logits, q.logits, factor);
    addTo(p.bias, q.bias, factor);
  }

  scale(p: Point, factor: number): void {
    for (const part of [p.rows, p.logits, p.bias]) for (let i = 0; i < part.length; i++) part[i]! *= factor;
  }

  /** Scalar product of the weights and biases that two points stand for. */
  dot(p: Point, q: Point): number {
    const { classes } = this;
    let sum = 0;
    for (let i = 0; i < p.rows.length; i += classes) {
      for (let k = 0; k < classes; k++) sum += p.rows[i + k]! * (q.logits[i + k]! - q.bias[k]!);
    }
    for (let k = 0; k < classes; k++) sum += p.bias[k]! * q.bias[k]!;
    return sum;
  }

  /** ‖W‖² of a point. */
  private squaredWeights(p: Point): number {
    return this.dot(p, p) - p.bias.reduce((sum, b) => sum + b * b, 0);
  }

  /** Loss at logits, with the penalty of `squared` = ‖W‖²; leaves the probabilities, times the rows' weights. */
  value(logits: Float64Array, squared: number): number {
    return crossEntropy(logits, this.labels, this.weights, this.probabilities) + (this.penalty / 2) * squared;
  }

  /** At the probabilities that the last `value` left, which must be those of `at`. */
  async gradient(at: Point): Promise<Point> {
    const { classes, labels, penalty } = this;
    const bias = new Float64Array(classes);
    const rows = this.probabilities.slice();
    for (let i = 0; i < labels.length; i++) {
      rows[i * classes + labels[i]!]! -= this.weights[i]!;
      for (let k = 0; k < classes; k++) bias[k]! += rows[i * classes + k]!;
    }
    addTo(rows, at.rows, penalty);
    const logits = await this.gram.multiply(rows, classes);
    for (let i = 0; i < logits.length; i += classes)
      for (let k = 0; k < classes; k++) logits[i + k]! += bias[k]!;
    return { rows, logits, bias };
  }

  /**
   * A step along `direction` under the strong Wolfe conditions: the objective is convex, so a bracket of its slope's sign suffices. Null
   * where rounding leaves nothing to gain. Leaves the probabilities of the point that it found.
   */
  search(at: Point, start: number, direction: Point): { length: number; value: number } | null {
    const slopes = this.slopes(at, direction);
    const initial = slopes.first;
    if (!(initial < 0)) return null;
    const logits = new Float64Array(at.logits.length);
    let [low, high] = [0, Number.POSITIVE_INFINITY];
    let length = 1;
    for (let k = 0; k < LINE_STEPS; k++) {
      for (let i = 0; i < logits.length; i++) logits[i] = at.logits[i]! + length * direction.logits[i]!;
      const value = this.value(logits, slopes.squared(length));
      const slope = slopes.at(length);
      if (value > start + ARMIJO * length * initial) high = length;
      else if (slope < CURVATURE * initial) low = length;
      else if (slope > -CURVATURE * initial) high = length;
      else return { length, value };
      length = high === Number.POSITIVE_INFINITY ? 2 * length : (low + high) / 2;
    }
    return null;
  }

  /** The objective's slope along a line, after `value` at its point. */
  private slopes(at: Point, direction: Point) {
    const { classes, labels, penalty, probabilities } = this;
    const biases = at.bias.reduce((sum, b, k) => sum + b * direction.bias[k]!, 0);
    const mixed = this.dot(at, direction) - biases;
    const [own, other] = [this.squaredWeights(at), this.squaredWeights(direction)];
    const slope = (length: number): number => {
      let sum = penalty * (mixed + length * other);
      for (let i = 0; i < probabilities.length; i++) sum += probabilities[i]! * direction.logits[i]!;
      for (let i = 0; i < labels.length; i++) {
        sum -= this.weights[i]! * direction.logits[i * classes + labels[i]!]!;
      }
      return sum;
    };
    return {
      first: slope(0),
      at: slope,
      squared: (length: number) => own + 2 * length * mixed + length * length * other,
    };
  }
}

/**
 * Σ_i −weight_i log softmax(logits_i)[label_i].
 * @param probabilities (n,C) gets the softmax of each row times its weight
 */
export function crossEntropy(
  logits: ArrayLike<number>,
  labels: ArrayLike<number>,
  weights: ArrayLike<number>,
  probabilities: Float64Array,
): number {
  const classes = probabilities.length / labels.length;
  let loss = 0;
  for (let i = 0; i < labels.length; i++) {
    const from = i * classes;
    let top = Number.NEGATIVE_INFINITY;
    for (let k = 0; k < classes; k++) if (logits[from + k]! > top) top = logits[from + k]!;
    let sum = 0;
    for (let k = 0; k < classes; k++) {
      const weight = Math.exp(logits[from + k]! - top);
      probabilities[from + k] = weight;
      sum += weight;
    }
    for (let k = 0; k < classes; k++) probabilities[from + k]! *= weights[i]! / sum;
    loss += weights[i]! * (Math.log(sum) + top - logits[from + labels[i]!]!);
  }
  return loss;
}

function addTo(into: Float64Array, from: Float64Array, factor: number): void {
  for (let i = 0; i < into.length; i++) into[i]! += factor * from[i]!;
}

function checkProblem(rows: number, labels: ArrayLike<number>, classes: number, c: number): void {
  if (rows === 0) throw argument("expected at least one row, got none");
  if (labels.length !== rows)
    throw argument(`labels: expected one for each of ${rows} rows, got ${labels.length}`);
  const odd = Array.from(labels).find((y) => !(Number.isInteger(y) && y >= 0 && y < classes));
  if (odd !== undefined) throw argument(`labels: expected class ids from 0 to ${classes - 1}, got ${odd}`);
  if (!(c > 0 && Number.isFinite(c))) throw argument(`c: expected a number above 0, got ${c}`);
}

function argument(message: string): AegirError {
  return new AegirError("ERR_ARGUMENT", `softmax regression: ${message}`);
}
