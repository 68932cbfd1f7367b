import { afterAll, beforeAll, expect, it } from "vitest";
import type { NativeLane, NativeModule, NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import {
  AlignmentProjection,
  OutputFusion,
  RWKVStateFusion,
  SpecialistRouter,
} from "../../lib/swarm/index.js";
import { testSeed } from "../rl/support.js";
import { i64, normal } from "./support.js";

const seed = testSeed("gradients");
let lane: NativeLane;
beforeAll(() => {
  lane = new (native().Lane)({ name: "test", threads: 1 });
});
afterAll(() => lane.close());

/** Sum of elementwise products with fixed normal values: a loss in which no gradient cancels. */
function probed(tensors: NativeTensor[]): NativeTensor {
  const generator = new (native().Generator)(seed + 1);
  return tensors
    .map((tensor) => tensor.mul(normal(tensor.shape, generator)).reduce("sum"))
    .reduce((sum, part) => sum.add(part));
}

/**
 * Every parameter's gradient against central differences at some of its elements. Losses are near 10 and h is 1e-5: rounding
 * is near 1e-10, truncation (third derivatives times h²/6) near 1e-9.
 */
async function checkGradients(
  module: NativeModule,
  loss: (grad: boolean) => Promise<NativeTensor>,
): Promise<void> {
  const generator = new (native().Generator)(seed);
  const values = new Map(
    module.parameters().map(({ name, shape }) => [name, normal(shape, generator).mul(0.5)] as const),
  );
  module.loadStateDict(Object.fromEntries(values));
  await native().backward(lane, [await loss(true)], [1]);
  const gradients = module.gradients();
  expect(Object.keys(gradients).sort()).toEqual([...values.keys()].sort());
  for (const [name, value] of values) {
    const data = value.data() as Float64Array;
    const gradient = gradients[name]!.data() as Float64Array;
    for (let i = 0; i < data.length; i += 1 + Math.floor(data.length / 7)) {
      const at = async (h: number) => {
        const shifted = native().Tensor.fromData(data.with(i, data[i]! + h), value.shape, "f64");
        module.loadStateDict({ ...Object.fromEntries(values), [name]: shifted });
        return (await loss(false)).item();
      };
      const difference = ((await at(1e-5)) - (await at(-1e-5))) / 2e-5;
      expect(Math.abs(gradient[i]! - difference), `${name}[${i}]`).toBeLessThan(
        1e-7 * (1 + Math.abs(difference)),
      );
    }
  }
}

it.each(["weighted_sum", "gated", "concat_project"] as const)("state fusion: %s", async (mode) => {
  const fusion = new RWKVStateFusion({
    numHeads: 2,
    headSize: 3,
    numAgents: 2,
    mode,
    layers: 2,
    dtype: "f64",
  });
  const generator = new (native().Generator)(seed + 2);
  const states = (rows: number) => [0, 1].map(() => normal([rows, 2, 3, 3], generator));
  const own = states(3);
  const agents = [
    { index: 0, rows: i64([0, 2]), states: states(2) },
    { index: 1, rows: i64([2]), states: states(1) },
  ];
  await checkGradients(fusion.native, async (grad) =>
    probed((await fusion.forward(lane, { batch: 3, layers: 2, own, agents }, { grad })).states),
  );
});

it.each(["bilinear", "dense"] as const)("alignment, through the fusion of its states: %s", async (mode) => {
  const alignment = new AlignmentProjection({
    specialist: { layers: 3, heads: 1, headSize: 4 },
    primary: { layers: 2, heads: 2, headSize: 3 },
    mode,
    dtype: "f64",
  });
  const fusion = new RWKVStateFusion({ numHeads: 2, headSize: 3, numAgents: 1, dtype: "f64" });
  const generator = new (native().Generator)(seed + 2);
  fusion.loadStateDict({ query: normal([1, 2, 3], generator), keyProj: normal([1, 3, 9], generator) });
  const states = [0, 1, 2].map(() => normal([4, 1, 4, 4], generator));
  const agent = { index: 0, alignment: alignment.native, rows: i64([0, 1]), take: i64([3, 3]), states };
  await checkGradients(alignment.native, async (grad) =>
    probed((await fusion.forward(lane, { batch: 3, layers: 2, agents: [agent] }, { grad })).states),
  );
});

it("router", async () => {
  const router = new SpecialistRouter(6, 3, { dtype: "f64" });
  const hidden = normal([4, 6], new (native().Generator)(seed + 2));
  await checkGradients(router.native, async (grad) =>
    probed([(await router.forward(lane, hidden, { grad })).logits]),
  );
});

it("output fusion", async () => {
  const specialists = [
    { dModel: 3, numLabels: 4, labels: [1, -1, 0, 2], weight: 0.7 },
    { dModel: 2, numLabels: 2 },
  ];
  const fusion = new OutputFusion({ dModel: 5, numLabels: 3, specialists, dtype: "f64" });
  const generator = new (native().Generator)(seed + 2);
  const agents = specialists.map(({ dModel, numLabels }, index) => ({
    index,
    rows: i64([index, 2]),
    pooled: normal([2, dModel], generator),
    logits: normal([2, numLabels], generator),
  }));
  await checkGradients(fusion.native, async (grad) => {
    const { embedding, logits, scale } = await fusion.forward(lane, { batch: 3, agents }, { grad });
    return probed([embedding, logits!, scale!]);
  });
});
