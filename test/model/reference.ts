import type { ResolvedBackbone } from "../../lib/model/index.js";
import { type LayoutBlock, parseLayout } from "../../lib/model/layout.js";
import type { NativeTensor } from "../../lib/native/contract.js";
import { ngramBucketsOf } from "../kernels/ngramBucket.js";

/** The equations of the model in plain numbers, one sequence at a time: no batch, no state, no fusing. */

export type Rows = number[][];

interface Parameter {
  shape: number[];
  values: Float64Array;
}
export type Parameters = Map<string, Parameter>;

export function readParameters(tensors: Record<string, NativeTensor>): Parameters {
  return new Map(
    Object.entries(tensors).map(([name, tensor]) => [
      name,
      { shape: tensor.shape, values: Float64Array.from(tensor.data() as Float64Array) },
    ]),
  );
}

/**
 * What a routing module decided at the point where a gradient is taken. Held fixed, the straight-through estimator is the function
 * (1 + c - c0) y, which has value y and the gradient of c y: central differences apply to it.
 */
interface Decisions {
  boundary: boolean[];
  confidence: number[];
}

export interface PlainResult {
  logits: Rows;
  ratioLoss: number;
  decisions: Decisions[];
}

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
const dot = (a: ArrayLike<number>, b: ArrayLike<number>) => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
};

export class PlainModel {
  private readonly layout;

  constructor(
    private readonly parameters: Parameters,
    private readonly options: ResolvedBackbone,
  ) {
    this.layout = parseLayout(options.archLayout);
  }

  forward(ids: number[], held?: Decisions[]): PlainResult {
    const result: PlainResult = { logits: [], ratioLoss: 0, decisions: [] };
    result.logits = this.linear("head", this.hidden(ids, result, held));
    return result;
  }

  /** Logits of an annotation head that pools by the mean. */
  annotate(ids: number[]): number[] {
    const h = this.hidden(ids, { logits: [], ratioLoss: 0, decisions: [] });
    const mean = h[0]!.map((_, i) => h.reduce((sum, x) => sum + x[i]!, 0) / h.length);
    const pooled = this.linear("pooler", [mean])[0]!.map(Math.tanh);
    return this.linear("classifier", [pooled])[0]!;
  }

  private hidden(ids: number[], result: PlainResult, held?: Decisions[]): Rows {
    const byte = this.matrix("byteEmbedding.weight");
    const role = this.matrix("roleEmbedding.weight")[0]!;
    const h = ids.map((id, t) => {
      const ngrams = this.ngrams(ids.slice(0, t + 1));
      return Array.from(byte[id]!, (x, i) => x + role[i]! + (ngrams?.[i] ?? 0));
    });
    return this.stage(0, h, result, held);
  }

  /** A layer of the head, with its bias where it has one. */
  private linear(name: string, rows: Rows): Rows {
    const { shape, values } = this.parameter(`${name}.weight`);
    const [out, width] = shape as [number, number];
    const bias = this.parameters.get(`${name}.bias`)?.values;
    return rows.map((x) =>
      Array.from(
        { length: out },
        (_, c) => dot(values.subarray(c * width, (c + 1) * width), x) + (bias?.[c] ?? 0),
      ),
    );
  }

  /** The embedding of the n-grams at the end of what has been read. */
  private ngrams(read: number[]): number[] | null {
    if (!this.options.ngrams) return null;
    const { width } = this.options.ngrams;
    const table = this.matrix("ngramEmbedding.weight");
    const sum = new Array<number>(width).fill(0);
    for (const bucket of ngramBucketsOf(read, this.options.ngrams)) {
      const row = table[bucket];
      if (row) for (let i = 0; i < width; i++) sum[i]! += row[i]!;
    }
    return this.matrix("ngramEmbedding.projection.weight").map((row) => dot(row, sum));
  }

  private stage(i: number, outer: Rows, result: PlainResult, held?: Decisions[]): Rows {
    const { encoder, decoder } = this.layout[i]!;
    const name = `stage${i}`;
    const width = outer[0]!.length;
    const padding = this.options.dModel[i]! > width ? [...this.vector(`${name}.padding`)] : [];
    const h = this.stack(
      `${name}.encoder`,
      i,
      encoder,
      outer.map((x) => [...x, ...padding]),
    );
    if (!decoder) return h.map((x) => x.slice(0, width));

    const p = this.routing(name, h);
    const index = result.decisions.length;
    const boundary = held?.[index]?.boundary ?? p.map((x) => x >= 0.5);
    const c = p.map((x, t) => (boundary[t] ? x : 1 - x));
    const confidence = held?.[index]?.confidence ?? c;
    result.decisions.push({ boundary, confidence });
    const share = boundary.filter(Boolean).length / p.length;
    const mean = p.reduce((a, b) => a + b) / p.length;
    const m = this.options.downsample[i]!;
    result.ratioLoss += (m / (m - 1)) * ((1 - share) * (1 - mean) + (m - 1) * share * mean);

    const kept = h.flatMap((x, t) => (boundary[t] ? [{ x, p: p[t]! }] : []));
    const inner = this.stage(
      i + 1,
      kept.map(({ x }) => x),
      result,
      held,
    );
    let value = inner[0]!;
    const smoothed = inner.map((x, j) => {
      const weight = Math.min(Math.max(kept[j]!.p, 1e-4), 1 - 1e-4);
      value = x.map((y, d) => weight * y + (1 - weight) * value[d]!);
      return value;
    });
    const residual = this.matrix(`${name}.residual`);
    let chunk = -1;
    const joined = h.map((x, t) => {
      if (boundary[t]) chunk++;
      const gate = 1 + c[t]! - confidence[t]!;
      return residual.map((row, d) => gate * smoothed[chunk]![d]! + dot(row, x));
    });
    return this.stack(`${name}.decoder`, i, decoder, joined).map((x) => x.slice(0, width));
  }

  private routing(name: string, h: Rows): number[] {
    const unit = (x: number[]) => x.map((y) => y / Math.max(Math.sqrt(dot(x, x)), 1e-12));
    const query = this.apply(`${name}.routing.query`, h).map(unit);
    const key = this.apply(`${name}.routing.key`, h).map(unit);
    return h.map((_, t) => (t === 0 ? 1 : Math.min(Math.max((1 - dot(query[t - 1]!, key[t]!)) / 2, 0), 1)));
  }

  private stack(name: string, stage: number, blocks: readonly LayoutBlock[], input: Rows): Rows {
    let h = input;
    const first: { values?: Rows } = {};
    const turn = () => {
      h = h.toReversed();
      first.values = first.values?.toReversed();
    };
    for (const [layer, { code, reversed }] of blocks.entries()) {
      const block = `${name}.${layer}`;
      if (reversed) turn();
      h = add(
        h,
        this.timeMix(
          `${block}.timeMix`,
          this.norm(`${block}.norm1`, h),
          this.options.headSize[stage]!,
          first,
        ),
      );
      const x = this.norm(`${block}.norm2`, h);
      h = add(
        h,
        code === "w" ? this.channelMix(`${block}.channelMix`, x) : this.swiGlu(`${block}.swiGlu`, x),
      );
      if (reversed) turn();
    }
    return this.norm(`${name}.norm`, h);
  }

  private timeMix(name: string, x: Rows, n: number, first: { values?: Rows }): Rows {
    const mu = this.matrix(`${name}.mu`);
    const mixed = mu.map((row) => shiftMix(x, row));
    const [xR, xW, xK, xV, xA, xG] = mixed as [Rows, Rows, Rows, Rows, Rows, Rows];
    const r = this.apply(`${name}.receptance.weight`, xR);
    const k0 = this.apply(`${name}.key.weight`, xK);
    let v = this.apply(`${name}.value.weight`, xV);
    const w = this.lowRank(name, "w", xW, Math.tanh).map((z) =>
      z.map((y) => Math.exp(-Math.exp(-0.5) * sigmoid(y))),
    );
    const a = this.lowRank(name, "a", xA).map((z) => z.map(sigmoid));
    const g = this.lowRank(name, "g", xG, sigmoid);
    if (first.values) {
      const mix = this.lowRank(name, "v", xV).map((z) => z.map(sigmoid));
      v = v.map((row, t) => row.map((y, i) => y + (first.values![t]![i]! - y) * mix[t]![i]!));
    } else {
      first.values = v;
    }
    const kK = this.vector(`${name}.kK`);
    const kA = this.vector(`${name}.kA`);
    const kk = k0.map((row) =>
      perHead(
        row.map((y, i) => y * kK[i]!),
        n,
        (head) => {
          const size = Math.max(Math.sqrt(dot(head, head)), 1e-12);
          return head.map((y) => y / size);
        },
      ),
    );
    const k = k0.map((row, t) => row.map((y, i) => y * (1 + (a[t]![i]! - 1) * kA[i]!)));
    const o = recurrence({ r, w, k, v, kk, a }, n);
    const gain = this.vector(`${name}.norm.gain`);
    const bias = this.vector(`${name}.norm.bias`);
    const rK = this.parameter(`${name}.rK`).values;
    const gated = o.map((row, t) => {
      const normed = perHead(row, n, (head) => standardise(head, n * 1e-5));
      return normed.map((y, i) => {
        const start = i - (i % n);
        let bonus = 0;
        for (let j = start; j < start + n; j++) bonus += r[t]![j]! * k[t]![j]! * rK[j]!;
        return (y * gain[i]! + bias[i]! + bonus * v[t]![i]!) * g[t]![i]!;
      });
    });
    return this.apply(`${name}.output.weight`, gated);
  }

  private channelMix(name: string, x: Rows): Rows {
    const mixed = shiftMix(x, this.matrix(`${name}.mu`)[0]!);
    const hidden = this.apply(`${name}.key.weight`, mixed).map((row) => row.map((y) => Math.max(y, 0) ** 2));
    return this.apply(`${name}.value.weight`, hidden);
  }

  private swiGlu(name: string, x: Rows): Rows {
    const up = this.apply(`${name}.up.weight`, x);
    const gate = this.apply(`${name}.gate.weight`, x);
    const hidden = gate.map((row, t) => row.map((y, i) => y * sigmoid(y) * up[t]![i]!));
    return this.apply(`${name}.down.weight`, hidden);
  }

  /** base + f(x down) up; the gate has no base. */
  private lowRank(name: string, letter: string, x: Rows, f: (y: number) => number = (y) => y): Rows {
    const down = transpose(this.matrix(`${name}.${letter}1`));
    const up = transpose(this.matrix(`${name}.${letter}2`));
    const base = letter === "g" ? undefined : this.vector(`${name}.${letter}0`);
    return x.map((row) => {
      const inner = down.map((column) => f(dot(column, row)));
      return up.map((column, i) => (base?.[i] ?? 0) + dot(column, inner));
    });
  }

  private norm(name: string, x: Rows): Rows {
    const gain = this.vector(`${name}.gain`);
    const bias = this.vector(`${name}.bias`);
    return x.map((row) => standardise(row, 1e-5).map((y, i) => y * gain[i]! + bias[i]!));
  }

  private apply(name: string, x: Rows): Rows {
    const matrix = this.matrix(name);
    return x.map((row) => matrix.map((weights) => dot(weights, row)));
  }

  private parameter(name: string): Parameter {
    const found = this.parameters.get(name) ?? this.parameters.get(`backbone.${name}`);
    if (!found) throw new Error(`no parameter ${name}`);
    return found;
  }

  private vector(name: string): Float64Array {
    return this.parameter(name).values;
  }

  /** Views of the rows: values that a caller changes are seen. */
  private matrix(name: string): Float64Array[] {
    const { shape, values } = this.parameter(name);
    const [rows, columns] = shape as [number, number];
    return Array.from({ length: rows }, (_, r) => values.subarray(r * columns, (r + 1) * columns));
  }
}

function recurrence(x: Record<"r" | "w" | "k" | "v" | "kk" | "a", Rows>, n: number): Rows {
  const heads = x.r[0]!.length / n;
  const out = x.r.map((row) => row.map(() => 0));
  for (let h = 0; h < heads; h++) {
    const part = (rows: Rows, t: number) => rows[t]!.slice(h * n, (h + 1) * n);
    let state = Array.from({ length: n }, () => new Array<number>(n).fill(0)); // value rows x key columns
    for (let t = 0; t < x.r.length; t++) {
      const [r, w, k, v, kk, a] = [x.r, x.w, x.k, x.v, x.kk, x.a].map((rows) => part(rows, t)) as Rows as [
        number[],
        number[],
        number[],
        number[],
        number[],
        number[],
      ];
      state = state.map((row, i) => {
        const removed = -dot(row, kk);
        return row.map((s, j) => s * w[j]! + removed * kk[j]! * a[j]! + v[i]! * k[j]!);
      });
      for (let i = 0; i < n; i++) out[t]![h * n + i] = dot(state[i]!, r);
    }
  }
  return out;
}

function shiftMix(x: Rows, mu: ArrayLike<number>): Rows {
  return x.map((row, t) => row.map((y, i) => y + ((t === 0 ? 0 : x[t - 1]![i]!) - y) * mu[i]!));
}

function standardise(x: number[], eps: number): number[] {
  const mean = x.reduce((a, b) => a + b) / x.length;
  const variance = x.reduce((sum, y) => sum + (y - mean) ** 2, 0) / x.length;
  return x.map((y) => (y - mean) / Math.sqrt(variance + eps));
}

function perHead(x: number[], n: number, f: (head: number[]) => number[]): number[] {
  return Array.from({ length: x.length / n }, (_, h) => f(x.slice(h * n, (h + 1) * n))).flat();
}

function add(a: Rows, b: Rows): Rows {
  return a.map((row, t) => row.map((y, i) => y + b[t]![i]!));
}

function transpose(a: ArrayLike<number>[]): Rows {
  return Array.from({ length: a[0]!.length }, (_, j) => a.map((row) => row[j]!));
}
