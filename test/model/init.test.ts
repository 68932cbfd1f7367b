import { afterAll, describe, expect, it } from "vitest";
import { AegirForCausalLM, AegirForColumnAnnotation, defaultRanks } from "../../lib/model/index.js";
import { dispose, expectClose, idTensor, rowValues, values } from "./support.js";

const D = 64;
const N = 16;
const L = 3;
const layout = { archLayout: ["w3"], dModel: D, headSize: N, dtype: "f64" } as const;
const rwkv = new AegirForCausalLM({ ...layout, init: "rwkv" }, { seed: 5 });
const annotation = new AegirForColumnAnnotation({ ...layout, numLabels: 3 }, { seed: 5 });
afterAll(() => dispose(rwkv, annotation));

function weights(model: AegirForCausalLM | AegirForColumnAnnotation): (name: string) => number[] {
  const tensors = model.stateDict();
  const all = new Map(Object.entries(tensors).map(([name, tensor]) => [name, values(tensor)]));
  dispose(...Object.values(tensors));
  return (name) => {
    const found = all.get(name);
    if (!found) throw new Error(`no parameter ${name}; there are ${[...all.keys()].join(", ")}`);
    return found;
  };
}

const channels = Array.from({ length: D }, (_, i) => i);
const EXACT = 1e-12;

describe("initial values of time mixing", () => {
  const of = weights(rwkv);

  it.each([0, 1, 2])("layer %i holds the vectors of the table", (l) => {
    const at = (name: string) => of(`backbone.stage0.encoder.${l}.timeMix.${name}`);
    const p = l / (L - 1);
    const q = 1 - l / L;
    const c = (i: number) => i / D;
    const lin = (i: number) => i / (D - 1) - 0.5;
    const zig = (i: number) => {
      const z = ((i % N) - (N - 1) / 2) / ((N - 1) / 2);
      return z * Math.abs(z);
    };
    const mix = (exponent: number) => channels.map((i) => 1 - c(i) ** (exponent * q));
    // Rows r, w, k, v, a, g.
    expectClose(at("mu"), [mix(0.2), mix(0.9), mix(0.7), mix(0.7), mix(0.9), mix(0.2)].flat(), "mu", EXACT);
    const w0 = channels.map((i) => -6 + 6 * (i / (D - 1)) ** (1 + p ** 0.3) + 0.5 + 2.5 * zig(i));
    expectClose(at("w0"), w0, "w0", EXACT);
    expectClose(
      at("a0"),
      channels.map((i) => -0.19 + 0.3 * zig(i) + 0.4 * lin(i)),
      "a0",
      EXACT,
    );
    if (l > 0)
      expectClose(
        at("v0"),
        channels.map((i) => 0.73 - 0.4 * lin(i)),
        "v0",
        EXACT,
      );
    expectClose(
      at("kK"),
      channels.map((i) => 0.71 - 0.1 * lin(i)),
      "kK",
      EXACT,
    );
    expectClose(
      at("kA"),
      channels.map(() => 1.02),
      "kA",
      EXACT,
    );
    expectClose(
      at("rK"),
      channels.map(() => -0.04),
      "rK",
      EXACT,
    );
    for (const down of ["w1", "a1", "g1", ...(l > 0 ? ["v1"] : [])]) {
      expect(
        at(down).every((value) => value === 0),
        down,
      ).toBe(true);
    }
    expect(at("norm.gain").every((value) => value === 1)).toBe(true);
    expect(at("norm.bias").every((value) => value === 0)).toBe(true);
    const channelMu = channels.map((i) => 1 - c(i) ** (q ** 4));
    expectClose(of(`backbone.stage0.encoder.${l}.channelMix.mu`), channelMu, "channel mix mu", EXACT);
  });

  it("layer 0 has no value residual: it makes the first values", () => {
    const names = rwkv.parameters().map(({ name }) => name);
    expect(names.some((name) => name.endsWith("0.timeMix.v0"))).toBe(false);
    expect(names.some((name) => name.endsWith("1.timeMix.v0"))).toBe(true);
  });

  it.each(["w2", "a2", "v2", "g2"])("%s has orthogonal rows of norm 0.1", (name) => {
    const up = of(`backbone.stage0.encoder.1.timeMix.${name}`);
    const rank = up.length / D;
    for (let a = 0; a < rank; a++) {
      for (let b = 0; b <= a; b++) {
        const dot = channels.reduce((sum, i) => sum + up[a * D + i]! * up[b * D + i]!, 0);
        expect(Math.abs(dot - (a === b ? 0.01 : 0)), `${a},${b}`).toBeLessThan(EXACT);
      }
    }
  });

  it("more rows than columns scale by sqrt(rows/columns)", () => {
    const wide = { decay: 64, a: 8, v: 8, gate: 8 };
    const narrow = new AegirForCausalLM({
      archLayout: ["w1"],
      dModel: 16,
      headSize: 16,
      dtype: "f64",
      loraRanks: wide,
    });
    const up = weights(narrow)("backbone.stage0.encoder.0.timeMix.w2");
    // Columns orthonormal times 0.1 sqrt(64/16).
    const norm = Array.from({ length: 64 }, (_, r) => up[r * 16]! ** 2).reduce((a, b) => a + b);
    expect(norm).toBeCloseTo(0.04, 12);
    narrow.dispose();
  });

  it.each([
    ["receptance", 0.5],
    ["value", 0.5],
    ["key", 0.05],
  ])("%s is uniform within %f/sqrt(D)", (name, scale) => {
    const bound = scale / Math.sqrt(D);
    const matrix = of(`backbone.stage0.encoder.1.timeMix.${name}.weight`);
    expect(Math.max(...matrix.map(Math.abs))).toBeLessThanOrEqual(bound);
    const variance = matrix.reduce((sum, x) => sum + x * x, 0) / matrix.length;
    // 4096 draws: the variance of a uniform, bound^2 / 3, to 5 standard errors of it.
    expect(Math.abs(variance / (bound ** 2 / 3) - 1)).toBeLessThan(
      (5 * Math.sqrt(0.8)) / Math.sqrt(matrix.length),
    );
  });
});

describe("the two schemes", () => {
  it("rwkv: outputs start at zero", () => {
    const of = weights(rwkv);
    expect(of("backbone.stage0.encoder.2.timeMix.output.weight").every((x) => x === 0)).toBe(true);
    expect(of("backbone.stage0.encoder.2.channelMix.value.weight").every((x) => x === 0)).toBe(true);
  });

  it("annotation: outputs are normal with std 0.02 / sqrt(2L), the byte embedding with 0.02", () => {
    const of = weights(annotation);
    const std = (name: string) => Math.sqrt(of(name).reduce((sum, x) => sum + x * x, 0) / of(name).length);
    const expected = 0.02 / Math.sqrt(2 * L);
    // At least 4096 draws: 1 / sqrt(2n) relative standard error of a std, five times.
    expect(Math.abs(std("backbone.stage0.encoder.0.timeMix.output.weight") / expected - 1)).toBeLessThan(
      0.06,
    );
    expect(Math.abs(std("backbone.stage0.encoder.2.channelMix.value.weight") / expected - 1)).toBeLessThan(
      0.03,
    );
    expect(Math.abs(std("backbone.byteEmbedding.weight") / 0.02 - 1)).toBeLessThan(0.03);
  });

  it("a seed decides every value, whatever the dtype", () => {
    const options = { preset: "tiny", numLabels: 4 } as const;
    const [a, b, c] = [1, 1, 2].map((seed) => new AegirForColumnAnnotation(options, { seed }));
    const wide = new AegirForColumnAnnotation({ ...options, dtype: "f64" }, { seed: 1 });
    expect(a!.weightsHash()).toBe(b!.weightsHash());
    expect(a!.weightsHash()).not.toBe(c!.weightsHash());
    const name = "backbone.stage1.encoder.1.timeMix.v2";
    expectClose(weights(a!)(name), weights(wide)(name).map(Math.fround), name, 0);
    dispose(a, b, c, wide);
  });
});

describe("routing and stages", () => {
  const model = new AegirForCausalLM({ archLayout: ["w1", ["w1"], "w1"], dModel: [32, 48], headSize: 16 });
  const of = weights(model);
  afterAll(() => model.dispose());

  it("Q and K start as the identity, the residual map and the padding at zero", () => {
    for (const name of ["query", "key"]) {
      const map = of(`backbone.stage0.routing.${name}`);
      expect(map.every((x, i) => x === (i % 33 === 0 ? 1 : 0))).toBe(true);
    }
    expect(of("backbone.stage0.residual").every((x) => x === 0)).toBe(true);
    expect(of("backbone.stage1.padding").length).toBe(16);
  });

  it("weight decay is for the large matrices alone, w0 learns at its own rate", () => {
    const groups = new Map(
      model.parameters().map(({ name, group }) => [name.replace("backbone.", ""), group]),
    );
    const block = "stage0.encoder.0";
    expect(groups.get("byteEmbedding.weight")).toBe("matrix");
    expect(groups.get("head.weight")).toBe("matrix");
    for (const matrix of ["receptance", "key", "value", "output"]) {
      expect(groups.get(`${block}.timeMix.${matrix}.weight`), matrix).toBe("matrix");
    }
    expect(groups.get(`${block}.channelMix.value.weight`)).toBe("matrix");
    expect(groups.get(`${block}.timeMix.w0`)).toBe("decayBase");
    for (const map of ["w1", "w2", "a1", "a2", "g1", "g2"]) {
      expect(groups.get(`${block}.timeMix.${map}`), map).toBe("lowRank");
    }
    const vectors = ["timeMix.mu", "timeMix.rK", "timeMix.norm.gain", "norm1.bias", "channelMix.mu"];
    for (const vector of vectors) expect(groups.get(`${block}.${vector}`), vector).toBe("vector");
    for (const name of ["stage0.routing.query", "stage0.residual"])
      expect(groups.get(name), name).toBe("vector");
  });
});

describe("the residual path", () => {
  it("a stack whose layers add nothing still passes its input on", async () => {
    // In the rwkv scheme every layer's output is zero: the logits depend on the token through the residual path alone.
    const inputIds = idTensor([[97, 98, 97]]);
    const output = await rwkv.forward({ inputIds });
    const logits = rowValues(output.logits, 0);
    const [first, second, third] = [0, 1, 2].map((t) => logits.slice(t * 264, (t + 1) * 264));
    expectClose(third!, first!, "the same byte gives the same logits", EXACT);
    const distance = Math.hypot(...first!.map((x, i) => x - second![i]!));
    expect(distance).toBeGreaterThan(0.1 * Math.hypot(...first!));
    dispose(inputIds, output);
  });
});

describe("default ranks", () => {
  it("follow the paper's rule from width 256 on and stay small below", () => {
    expect(defaultRanks(768)).toEqual({ decay: 64, a: 64, v: 32, gate: 128 });
    expect(defaultRanks(2048)).toEqual({ decay: 128, a: 128, v: 64, gate: 224 });
    expect(defaultRanks(1024)).toEqual({ decay: 64, a: 64, v: 64, gate: 160 });
    expect(defaultRanks(256)).toEqual({ decay: 32, a: 32, v: 32, gate: 64 });
    expect(defaultRanks(128)).toEqual({ decay: 16, a: 16, v: 16, gate: 32 });
    expect(defaultRanks(32)).toEqual({ decay: 8, a: 8, v: 8, gate: 16 });
  });
});
