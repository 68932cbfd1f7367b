import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AegirForColumnAnnotation } from "../../lib/model/index.js";
import type { NativeLane } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { AlignmentProjection, fitAlignment, latentRidge } from "../../lib/swarm/index.js";
import { expectClose, randomOf, testSeed } from "../rl/support.js";
import {
  expectError,
  i64,
  liveTensors,
  normal,
  PRIMARY,
  randomInputs,
  settledTensors,
  specialist,
  WIDER,
} from "./support.js";

const SOURCE = { layers: 2, heads: 2, headSize: 5 };
const TARGET = { layers: 3, heads: 4, headSize: 3 };
const seed = testSeed("alignment");
let lane: NativeLane;
beforeAll(() => {
  lane = new (native().Lane)({ name: "test", threads: 1 });
});
afterAll(() => lane.close());

function generator() {
  return new (native().Generator)(seed);
}

describe("AlignmentProjection", () => {
  it("is the identity without parameters where the geometries agree", async () => {
    const alignment = new AlignmentProjection({ specialist: TARGET, primary: TARGET, dtype: "f64" });
    expect([alignment.mode, alignment.numParameters]).toEqual(["identity", 0]);
    const states = normal([2, 4, 3, 3], generator());
    expect((await alignment.forward(lane, 1, states)).states.equal(states)).toBe(true);
  });

  it("starts by copying what fits, head by head, with the norm kept", async () => {
    const alignment = new AlignmentProjection({ specialist: SOURCE, primary: TARGET, dtype: "f64" });
    expect(alignment.mode).toBe("bilinear");
    const states = normal([1, 2, 5, 5], generator());
    const { states: aligned } = await alignment.forward(lane, 0, states);
    const from = states.data() as Float64Array;
    const to = aligned.data() as Float64Array;
    for (let h = 0; h < 4; h++)
      for (let i = 0; i < 3; i++)
        for (let j = 0; j < 3; j++) {
          const source = from[Math.floor(h / 2) * 25 + i * 5 + j]!;
          expect(to[h * 9 + i * 3 + j]).toBeCloseTo((5 / 3) * source, 12);
        }
  });

  it.each(["bilinear", "dense"] as const)("recovers a known map by ridge regression: %s", async (mode) => {
    const g = generator();
    const planted = new AlignmentProjection({ specialist: SOURCE, primary: TARGET, dtype: "f64" });
    planted.loadStateDict({ left: normal([3, 4, 3, 5], g), right: normal([3, 4, 3, 5], g) });
    const source = [normal([60, 2, 5, 5], g), normal([60, 2, 5, 5], g)];
    const target = [];
    // Layer j of 3 reads layer round(j / 2) of 2.
    for (const [layer, from] of [0, 1, 1].entries()) {
      target.push((await planted.forward(lane, layer, source[from]!)).states);
    }
    const fitted = new AlignmentProjection({ specialist: SOURCE, primary: TARGET, mode, dtype: "f64" });
    const before = (await fitted.forward(lane, 2, source[1]!)).states.maxAbsDiff(target[2]!);
    expect(before).toBeGreaterThan(0.1);
    const { residual } = await fitted.fit(lane, source, target, 1e-9);
    expect(residual).toBeLessThan(1e-5);
    const fresh = normal([7, 2, 5, 5], g);
    const expected = (await planted.forward(lane, 2, fresh)).states;
    const size = Math.sqrt(expected.mul(expected).reduce("mean").item());
    expect((await fitted.forward(lane, 2, fresh)).states.maxAbsDiff(expected) / size).toBeLessThan(1e-4);
  });

  it("recovers an affine map of shift vectors by centred ridge regression", async () => {
    const g = generator();
    const alignment = new AlignmentProjection({
      specialist: SOURCE,
      primary: TARGET,
      vectors: true,
      dtype: "f64",
    });
    const [matrix, shift] = [normal([10, 12], g), normal([12], g)];
    const source = Array.from({ length: 4 }, () => normal([50, 10], g));
    const target = [0, 1, 2, 3, 2, 3].map((from) => source[from]!.matmul(matrix).add(shift));
    expect((await alignment.fit(lane, source, target, 1e-10)).residual).toBeLessThan(1e-6);
    const fresh = normal([3, 10], g);
    const mapped = (await alignment.forward(lane, 0, fresh)).states;
    expect(mapped.maxAbsDiff(fresh.matmul(matrix).add(shift))).toBeLessThan(1e-6);
  });

  it("refuses a dense map above its limit and names the number of weights", () => {
    const specialist = { layers: 1, heads: 4, headSize: 64 };
    const primary = { layers: 1, heads: 8, headSize: 64 };
    expect(() => new AlignmentProjection({ specialist, primary, mode: "dense" })).toThrow(
      expectError("ERR_OUT_OF_MEMORY", /536870912 weights.*maxDenseWeights = 67108864/),
    );
    expect(() => new AlignmentProjection({ specialist, primary, mode: "identity" })).toThrow(
      expectError("ERR_CONFIG", /8 heads of 64.*4 heads of 64/),
    );
  });

  it("names what is wrong with its inputs", async () => {
    const alignment = new AlignmentProjection({ specialist: SOURCE, primary: TARGET, dtype: "f64" });
    const states = normal([1, 2, 5, 5], generator());
    await expect(alignment.forward(lane, 3, states)).rejects.toEqual(
      expectError("ERR_ARGUMENT", /layer 3 is outside/),
    );
    await expect(alignment.forward(lane, 0, states.to("f32"))).rejects.toEqual(
      expectError("ERR_DTYPE", /alignment/),
    );
    await expect(alignment.fit(lane, [states], [states])).rejects.toEqual(
      expectError("ERR_SHAPE", /source has 1/),
    );
    await expect(alignment.forward(lane, 0, i64([1]))).rejects.toEqual(
      expectError("ERR_SHAPE", /\(b,2,5,5\)/),
    );
  });
});

describe("fitAlignment", () => {
  it("brings a specialist's states closer to the primary's than the start does", async () => {
    const primary = new AegirForColumnAnnotation(PRIMARY, { seed: 1 });
    const model = new AegirForColumnAnnotation(WIDER, { seed: 2 });
    const alignment = AlignmentProjection.between(model, primary);
    const other = specialist(2, "other", WIDER, { alignment });
    const inputs = randomInputs(randomOf(seed), 24, 16);
    const before = await settledTensors();
    // A ridge of 1e9 Gram diagonals fits nothing: the map is zero and the residual 1.
    const { residual: nothing } = await fitAlignment(other, primary, [inputs], { ridge: 1e9 });
    expect(nothing).toBeCloseTo(1, 3);
    const fresh = AlignmentProjection.between(model, primary);
    const { residual } = await fitAlignment(specialist(2, "other", WIDER, { alignment: fresh }), primary, [
      inputs,
    ]);
    expect(residual).toBeLessThan(0.9);
    expect(liveTensors()).toBe(before);
    await expect(fitAlignment(specialist(2, "bare", WIDER), primary, [inputs])).rejects.toEqual(
      expectError("ERR_CONFIG", /'bare' has no alignment/),
    );
  });
});

describe("latentRidge", () => {
  it("equals the golden vector", async () => {
    const file = new URL("../golden/latent-ridge.json", import.meta.url);
    const { inputs, expected } = JSON.parse(readFileSync(file, "utf8"));
    const matrix = (rows: number[][]) =>
      native().Tensor.fromData(Float64Array.from(rows.flat()), [rows.length, rows[0]!.length], "f64");
    const fit = await latentRidge(lane, {
      wOut: matrix(inputs.W_out),
      wIn: matrix(inputs.W_in),
      lambda: inputs.lam,
      hidden: matrix(inputs.h),
    });
    expectClose(fit.map.data() as Float64Array, expected.W_a.flat());
    expectClose([fit.targetNorm], [expected.target_norm]);
    expectClose(fit.embedding!.data() as Float64Array, expected.e.flat());
  });
});
