import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { NativeLane, NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { type FusionMode, OutputFusion, RWKVStateFusion, SpecialistRouter } from "../../lib/swarm/index.js";
import { Tensor } from "../../lib/tensor/index.js";
import { testSeed } from "../rl/support.js";
import { expectError, i64, normal, rowOf } from "./support.js";

const MODES: FusionMode[] = ["weighted_sum", "gated", "concat_project"];
const HEADS = 2;
const N = 3;
const seed = testSeed("fusion");
let lane: NativeLane;
beforeAll(() => {
  lane = new (native().Lane)({ name: "test", threads: 1 });
});
afterAll(() => lane.close());

function fusionOf(mode: FusionMode, numAgents = 3): RWKVStateFusion {
  return new RWKVStateFusion({ numHeads: HEADS, headSize: N, numAgents, mode, dtype: "f64", seed: 1 });
}

/** Random values in every parameter: laws must hold beyond the start. */
function randomise(fusion: RWKVStateFusion | OutputFusion): void {
  const generator = new (native().Generator)(seed);
  const values = Object.fromEntries(
    fusion.parameters().map(({ name, shape }) => [name, normal(shape, generator)]),
  );
  fusion.loadStateDict(values);
}

/** Random agents over a batch, by the rows that each of them is active in. */
function agentsOf(
  rows: number[][],
  states: number,
): { index: number; rows: NativeTensor; states: NativeTensor[] }[] {
  const generator = new (native().Generator)(states);
  return rows.flatMap((active, index) =>
    active.length > 0
      ? [{ index, rows: i64(active), states: [normal([active.length, HEADS, N, N], generator)] }]
      : [],
  );
}

describe.each(MODES)("RWKVStateFusion %s", (mode) => {
  it("keeps the own state bit for bit where no agent is active, and weighs inactive agents with exactly 0", async () => {
    const fusion = fusionOf(mode);
    randomise(fusion);
    const subsets = fc.array(fc.subarray([0, 1, 2, 3, 4]), { minLength: 3, maxLength: 3 });
    const law = fc.asyncProperty(subsets, fc.integer({ min: 0, max: 1e6 }), async (rows, states) => {
      const generator = new (native().Generator)(states + 1);
      const own = normal([5, HEADS, N, N], generator);
      const agents = agentsOf(rows, states);
      const fused = await fusion.forward(lane, { batch: 5, layers: 1, own: [own], agents });
      for (let row = 0; row < 5; row++) {
        const active = rows.map((list) => list.includes(row));
        if (!active.includes(true)) expect(rowOf(fused.states[0]!, row)).toEqual(rowOf(own, row));
        if (mode === "concat_project") continue;
        const weights = rowOf(fused.weights[0]!, row); // (1+n) x H
        for (const [n, on] of active.entries()) {
          for (let h = 0; h < HEADS; h++) {
            if (on) expect(weights[(n + 1) * HEADS + h]).toBeGreaterThan(0);
            else expect(weights[(n + 1) * HEADS + h]).toBe(0);
          }
        }
        for (let h = 0; h < HEADS; h++) {
          const sum = [0, 1, 2, 3].reduce((s, n) => s + weights[n * HEADS + h]!, 0);
          expect(sum).toBeCloseTo(1, 12);
        }
      }
    });
    await fc.assert(law, { seed, numRuns: 25 });
  });

  it("does not depend on the order in which agents are given", async () => {
    const fusion = fusionOf(mode);
    randomise(fusion);
    const agents = agentsOf([[0, 2], [1, 2, 3], [2]], seed);
    const forward = await fusion.forward(lane, { batch: 4, layers: 1, agents });
    const backward = await fusion.forward(lane, { batch: 4, layers: 1, agents: [...agents].reverse() });
    expect(forward.states[0]!.maxAbsDiff(backward.states[0]!)).toBeLessThan(1e-12);
  });

  it("starts from the mean of the active states, the own one among them", async () => {
    const fusion = fusionOf(mode, 2);
    const generator = new (native().Generator)(seed);
    const [own, a, b] = [0, 1, 2].map(() => normal([1, HEADS, N, N], generator)) as [
      NativeTensor,
      NativeTensor,
      NativeTensor,
    ];
    const agents = [a, b].map((states, index) => ({ index, rows: i64([0]), states: [states] }));
    const fused = await fusion.forward(lane, { batch: 1, layers: 1, own: [own], agents });
    const expected = mode === "concat_project" ? own.add(a.add(b).div(2)) : own.add(a).add(b).div(3);
    expect(fused.states[0]!.maxAbsDiff(expected)).toBeLessThan(1e-12);
  });

  it("has the gradient of finite differences in every input state", async () => {
    const fusion = fusionOf(mode);
    randomise(fusion);
    const generator = new (native().Generator)(seed);
    const own = normal([3, HEADS, N, N], generator);
    const states = normal([2, HEADS, N, N], generator);
    const probe = normal([3, HEADS, N, N], generator);
    const rows = i64([0, 2]);
    const run = async (o: NativeTensor, s: NativeTensor, grad: boolean) => {
      const agents = [{ index: 1, rows, states: [s] }];
      const fused = await fusion.forward(lane, { batch: 3, layers: 1, own: [o], agents }, { grad });
      return fused.states[0]!.mul(probe).reduce("sum");
    };
    own.requiresGrad = true;
    states.requiresGrad = true;
    await native().backward(lane, [await run(own, states, true)], [1]);
    for (const leaf of [own, states]) {
      const gradient = leaf.grad()!.data() as Float64Array;
      const values = leaf.detach().data() as Float64Array;
      for (let i = 0; i < values.length; i += 5) {
        const shifted = (by: number) =>
          native().Tensor.fromData(values.with(i, values[i]! + by), leaf.shape, "f64");
        const at = async (by: number) =>
          (
            await run(
              leaf === own ? shifted(by) : own.detach(),
              leaf === own ? states.detach() : shifted(by),
              false,
            )
          ).item();
        const difference = ((await at(1e-6)) - (await at(-1e-6))) / 2e-6;
        // Central differences with h = 1e-6 of values near 1: rounding 1e-10, truncation far below.
        expect(gradient[i]).toBeCloseTo(difference, 7);
      }
    }
  });
});

describe("RWKVStateFusion", () => {
  it("reads `take` rows of shared states, repeats allowed", async () => {
    const fusion = fusionOf("weighted_sum");
    const generator = new (native().Generator)(seed);
    const stored = normal([4, HEADS, N, N], generator);
    const taken = await fusion.forward(lane, {
      batch: 3,
      layers: 1,
      agents: [{ index: 0, rows: i64([0, 1, 2]), take: i64([3, 1, 3]), states: [stored] }],
    });
    const plain = await fusion.forward(lane, {
      batch: 3,
      layers: 1,
      agents: [{ index: 0, rows: i64([0, 1, 2]), states: [stored.indexSelect(0, i64([3, 1, 3]))] }],
    });
    expect(taken.states[0]!.equal(plain.states[0]!)).toBe(true);
  });

  it("has one set of parameters per layer where asked", async () => {
    const shared = fusionOf("weighted_sum");
    const perLayer = new RWKVStateFusion({
      numHeads: HEADS,
      headSize: N,
      numAgents: 3,
      layers: 2,
      dtype: "f64",
    });
    expect(perLayer.numParameters).toBe(2 * shared.numParameters);
    const agents = agentsOf([[0], [], []], 3).map((agent) => ({
      ...agent,
      states: [agent.states[0]!, agent.states[0]!],
    }));
    const same = await shared.forward(lane, { batch: 1, layers: 2, agents });
    expect(same.states[0]!.equal(same.states[1]!)).toBe(true);
  });

  it("names what is wrong with its inputs", async () => {
    const fusion = fusionOf("weighted_sum");
    const [agent] = agentsOf([[0, 1], [], []], 1) as [ReturnType<typeof agentsOf>[number]];
    const run = (batch: number, agents: ReturnType<typeof agentsOf>) =>
      fusion.forward(lane, { batch, layers: 1, agents });
    await expect(run(1, [agent])).rejects.toEqual(
      expectError("ERR_ARGUMENT", /rows of agent 0 must ascend within 0\.\.0/),
    );
    await expect(run(2, [agent, agent])).rejects.toEqual(
      expectError("ERR_ARGUMENT", /agent 0 is given twice/),
    );
    await expect(run(2, [{ ...agent, index: 3 }])).rejects.toEqual(
      expectError("ERR_ARGUMENT", /agent 3 is outside 0\.\.2/),
    );
    const wide = native().Tensor.full([2, HEADS + 1, N, N], 0, "f64");
    await expect(run(2, [{ ...agent, states: [wide] }])).rejects.toEqual(
      expectError("ERR_SHAPE", /agent 0 expected.*AlignmentProjection/),
    );
    expect(
      () => new RWKVStateFusion({ numHeads: 8, headSize: 64, numAgents: 4, mode: "concat_project" }),
    ).toThrow(expectError("ERR_OUT_OF_MEMORY", /83886080/));
    expect(() => new RWKVStateFusion({ numHeads: 8, headSize: 64, numAgent: 4 } as never)).toThrow(
      expectError("ERR_CONFIG", /numAgents/),
    );
  });
});

describe("SpecialistRouter", () => {
  it("starts every specialist at p = 0.5 and keeps logits within the soft cap", async () => {
    const router = new SpecialistRouter(8, 3);
    const generator = new (native().Generator)(seed);
    const hidden = native().Tensor.randn([6, 8], "f32", generator);
    const start = await router.forward(lane, hidden);
    expect(Array.from(start.logits.data(), Number)).toEqual(new Array(18).fill(0));
    router.loadStateDict({
      weight: native().Tensor.randn([3, 8], "f32", generator).mul(100),
      bias: native().Tensor.full([3], 0, "f32"),
    });
    const { logits } = await router.forward(lane, hidden);
    const largest = Math.max(...Array.from(logits.data() as Float32Array, Math.abs));
    expect(largest).toBeGreaterThan(5);
    expect(largest).toBeLessThanOrEqual(6);
    await expect(router.forward(lane, native().Tensor.full([2, 7], 0, "f32"))).rejects.toEqual(
      expectError("ERR_SHAPE", /routingHidden expected \(B,8\)/),
    );
  });
});

describe("OutputFusion", () => {
  it("starts at zero and later reaches only rows with an active agent", async () => {
    const fusion = new OutputFusion({ dModel: 4, specialists: [{ dModel: 3, numLabels: 2 }], dtype: "f64" });
    const generator = new (native().Generator)(seed);
    const agents = [
      { index: 0, rows: i64([1]), pooled: normal([1, 3], generator), logits: normal([1, 2], generator) },
    ];
    const start = await fusion.forward(lane, { batch: 3, agents });
    expect(Array.from(start.embedding.data(), Number)).toEqual(new Array(12).fill(0));
    expect(start.logits).toBeUndefined();
    randomise(fusion);
    const { embedding } = await fusion.forward(lane, { batch: 3, agents });
    expect(rowOf(embedding, 0)).toEqual([0, 0, 0, 0]);
    expect(rowOf(embedding, 1).some((x) => x !== 0)).toBe(true);
    expect(rowOf(embedding, 2)).toEqual([0, 0, 0, 0]);
  });

  it("starts as a logarithmic opinion pool of the labels of one name", async () => {
    const log = (...p: number[]) => Tensor.from([p.map(Math.log)], { dtype: "f64" });
    const specialists = [
      { dModel: 1, numLabels: 2, labels: [0, 1], weight: 0.5 },
      { dModel: 1, numLabels: 3, labels: [1, -1, 0], weight: 0.5 },
    ];
    const fusion = new OutputFusion({ dModel: 4, numLabels: 2, ownWeight: 0.3, specialists, dtype: "f64" });
    const pooled = native().Tensor.full([1, 1], 0, "f64");
    const agents = [
      { index: 0, rows: i64([1]), pooled, logits: log(0.8, 0.2) },
      { index: 1, rows: i64([1]), pooled, logits: log(0.1, 0.6, 0.3) },
    ];
    const { logits, scale } = await fusion.forward(lane, { batch: 2, agents });
    expect(rowOf(logits!, 0)).toEqual([0, 0]);
    expect([...rowOf(scale!, 0), ...rowOf(scale!, 1)]).toEqual([1, expect.closeTo(0.3, 12)]);
    // One of another vocabulary, which has no share, leaves the primary its own.
    const strangers = specialists.map((one, i) => ({ ...one, weight: i === 0 ? 0 : 0.5 }));
    const mixed = new OutputFusion({
      dModel: 4,
      numLabels: 2,
      ownWeight: 0.3,
      specialists: strangers,
      dtype: "f64",
    });
    const alone = await mixed.forward(lane, { batch: 2, agents: agents.slice(0, 1) });
    expect([...rowOf(alone.scale!, 0), ...rowOf(alone.scale!, 1)]).toEqual([1, 1]);
    // sqrt(.8 · .3) : sqrt(.2 · .1)
    const odds = Math.exp(rowOf(logits!, 1)[0]! - rowOf(logits!, 1)[1]!);
    expect(odds).toBeCloseTo(Math.sqrt(0.24 / 0.02), 10);
    // Less than 10⁻⁴ is as good as nothing.
    const sure = { index: 0, rows: i64([0]), pooled, logits: Tensor.from([[0, -50]], { dtype: "f64" }) };
    const [a, b] = rowOf((await fusion.forward(lane, { batch: 1, agents: [sure] })).logits!, 0);
    expect(a! - b!).toBeCloseTo(0.5 * Math.log(1e4), 10);
  });

  it("refuses labels that the primary has not, by name", () => {
    const of = (labels: number[]) => () =>
      new OutputFusion({ dModel: 4, numLabels: 2, specialists: [{ dModel: 1, numLabels: 2, labels }] });
    expect(of([0, 2])).toThrow(expectError("ERR_ARGUMENT", /labels/));
    expect(of([0])).toThrow(
      expectError("ERR_CONFIG", /specialists\[0\]\.labels: expected one for each of 2/),
    );
  });
});
