import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { AegirForColumnAnnotation, type BatchInputs, batchInput } from "../../lib/model/index.js";
import type { NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import {
  AlignmentProjection,
  type FrozenSpecialist,
  fitAlignment,
  RWKVStateFusion,
  SpecialistCache,
  type SwarmOptions,
  SwarmOrchestrator,
  stateGeometry,
} from "../../lib/swarm/index.js";
import { restoreSwarm, storeSwarm } from "../../lib/train/swarmRun.js";
import { randomOf, testSeed } from "../rl/support.js";
import {
  expectError,
  FLAT,
  i64,
  liveTensors,
  NESTED,
  PRIMARY,
  randomBatch,
  randomInputs,
  rowOf,
  settledTensors,
  specialist,
} from "./support.js";

const B = 4;
const MASK = [
  [1, 0],
  [0, 0],
  [1, 1],
  [0, 1],
].map((row) => row.map(Boolean));
const seed = testSeed("stages");
let primary: AegirForColumnAnnotation;
let specialists: FrozenSpecialist[];
let inputs: BatchInputs;
beforeAll(() => {
  primary = new AegirForColumnAnnotation(NESTED, { seed: 1, name: "primary" });
  specialists = [specialist(2, "names", NESTED), specialist(3, "numbers", NESTED)];
});
afterAll(() => {
  for (const model of [primary, ...specialists.map((one) => one.model)]) model.dispose();
});
beforeEach(() => {
  inputs = randomInputs(randomOf(seed), B, 24);
});

function fusionOf(stage: number, numAgents = 2, model = primary, dtype: "f32" | "f64" = "f32") {
  const { heads, headSize } = stateGeometry(model, stage);
  return new RWKVStateFusion({ numHeads: heads, headSize, numAgents, dtype });
}

function swarmOf(options: Partial<SwarmOptions> = {}): SwarmOrchestrator {
  const fusion = { "1": fusionOf(1), "2": fusionOf(2) };
  return new SwarmOrchestrator({ primaryModel: primary, specialists, fusion, ...options });
}

async function logitsOf(swarm: SwarmOrchestrator, routing: "all-off" | { mask: boolean[][] }) {
  const result = await swarm.forward({ ...inputs, routingHidden: "auto", routing });
  return result.output.logits;
}

/** The mean of the own state (zero) and those of the active specialists: what untrained fusion says. */
async function meanStates(agents: readonly FrozenSpecialist[], stage: number): Promise<NativeTensor[]> {
  const said = await Promise.all(agents.map((one) => one.forward(inputs, { stages: [stage] })));
  const weights = agents.map((_, n) => {
    const values = MASK.map((row) => (row[n] ? 1 / (1 + row.filter(Boolean).length) : 0));
    return native().Tensor.fromData(Float64Array.from(values), [B, 1, 1, 1], "f64");
  });
  return said[0]!.states[stage]!.map((_, layer) =>
    said.map(({ states }, n) => states[stage]![layer]!.mul(weights[n]!)).reduce((sum, part) => sum.add(part)),
  );
}

describe("fusion of several stages", () => {
  it("starts every stage of the record from its own fused states, as by hand", async () => {
    const exact = { ...NESTED, dtype: "f64" } as const;
    const model = new AegirForColumnAnnotation(exact, { seed: 11 });
    const agents = [specialist(12, "one", exact), specialist(13, "two", exact)];
    using prefix = await model.prefix(inputs);
    const byStage = { 1: await meanStates(agents, 1), 2: await meanStates(agents, 2) };
    const outputs: NativeTensor[] = [];
    for (const stages of [[1], [2], [1, 2]] as (1 | 2)[][]) {
      const pick = <T>(of: (stage: 1 | 2) => T) => Object.fromEntries(stages.map((s) => [s, of(s)]));
      const fusion = pick((stage) => fusionOf(stage, 2, model, "f64"));
      const swarm = swarmOf({ primaryModel: model, specialists: agents, fusion });
      const results = await swarm.runSpecialists(inputs, MASK);
      const actual = await swarm.complete(prefix, MASK, results);
      using expected = await model.rest(prefix, { innerKv: pick((stage) => byStage[stage]) });
      // The specialists run on fewer rows in the swarm: rounding of float64.
      expect(actual.logits.maxAbsDiff(expected.logits)).toBeLessThan(1e-13);
      outputs.push(actual.logits);
    }
    for (const one of outputs.slice(0, 2)) expect(outputs[2]!.maxAbsDiff(one)).toBeGreaterThan(1e-6);
  });

  it("of the innermost stage alone says what the single fusion says, bit for bit", async () => {
    const single = await logitsOf(swarmOf({ fusion: fusionOf(2) }), { mask: MASK });
    const record = await logitsOf(swarmOf({ fusion: { "2": fusionOf(2) } }), { mask: MASK });
    expect(record.equal(single)).toBe(true);
    const flat = new AegirForColumnAnnotation(FLAT, { seed: 4 });
    const options = { primaryModel: flat, specialists: [specialist(5, "flat", FLAT)] };
    const mask = MASK.map(([first]) => [first!]);
    const plain = await logitsOf(new SwarmOrchestrator(options), { mask });
    const keyed = new SwarmOrchestrator({ ...options, fusion: { "0": fusionOf(0, 1, flat) } });
    expect((await logitsOf(keyed, { mask })).equal(plain)).toBe(true);
  });

  it("leaves rows that activate nothing as the primary has them, bit for bit", async () => {
    using alone = await primary.forward(inputs);
    const swarm = swarmOf();
    expect((await logitsOf(swarm, "all-off")).equal(alone.logits)).toBe(true);
    const mixed = await logitsOf(swarm, { mask: MASK });
    for (const [row, active] of MASK.entries()) {
      const same = rowOf(mixed, row).join() === rowOf(alone.logits, row).join();
      expect(same, `row ${row}`).toBe(!active.includes(true));
    }
  });

  it("asks specialists for the stages at the same depth, and for no other", async () => {
    const model = new AegirForColumnAnnotation(PRIMARY, { seed: 6 });
    const alignment = { "1": AlignmentProjection.between(model, primary, { stage: 1 }) };
    const shallow = specialist(6, "shallow", PRIMARY, { alignment });
    const swarm = swarmOf({ specialists: [specialists[0]!, shallow], fusion: { "1": fusionOf(1) } });
    expect(swarm.specialistStages).toEqual([[1], [0]]);
    expect(alignment["1"].options.specialist).toEqual({ layers: 1, heads: 2, headSize: 16 });
    using result = await swarm.forward({ ...inputs, routingHidden: "auto", routing: "all-on" });
    const shapes = result.specialistOutputs.map(({ states }) =>
      Object.entries(states).map(([stage, layers]) => [stage, layers.map((layer) => layer.shape)]),
    );
    expect(shapes).toEqual([[["1", [[B, 3, 16, 16]]]], [["0", [[B, 2, 16, 16]]]]]);
  });

  it("names every stage's parts in the timing and frees what it made", async () => {
    const swarm = swarmOf();
    const run = async () => {
      using result = await swarm.forward({ ...inputs, routingHidden: "auto", routing: "all-on" });
      return result.timing.nodes;
    };
    const nodes = await run();
    const fused = nodes.filter(({ role }) => role === "alignment" || role === "fusion").map(({ id }) => id);
    expect(fused).toEqual(
      ["1", "2"].flatMap((stage) => [`align:names.${stage}`, `align:numbers.${stage}`, `fuse.${stage}`]),
    );
    expect(nodes.at(-1)!.deps).toEqual(["prefix", "router", "fuse.1", "fuse.2"]);
    const before = await settledTensors();
    await run();
    expect(liveTensors()).toBe(before);
  });
});

describe("alignment of several stages", () => {
  /** Two stages: the innermost has the primary's geometry, the one outside it another. */
  function shallowSwarm() {
    const model = new AegirForColumnAnnotation({ ...PRIMARY, dModel: [16, 32] }, { seed: 7 });
    const alignment = {
      "1": AlignmentProjection.between(model, primary, { stage: 1 }),
      "2": AlignmentProjection.between(model, primary),
    };
    const shallow = specialist(7, "shallow", { ...PRIMARY, dModel: [16, 32] }, { alignment });
    return { shallow, alignment, swarm: swarmOf({ specialists: [specialists[0]!, shallow] }) };
  }

  it("learns beside every stage's fusion: gradients reach all of them", async () => {
    const { swarm } = shallowSwarm();
    const modules = swarm.modules();
    expect(Object.keys(modules)).toEqual([
      "primary",
      "router",
      "fusion.1",
      "fusion.2",
      "alignment.shallow.1",
      "alignment.shallow.2",
    ]);
    const generator = new (native().Generator)(seed);
    for (const stage of ["1", "2"]) {
      const fusion = modules[`fusion.${stage}`]!;
      const { query, ...others } = fusion.stateDict();
      fusion.loadStateDict({ ...others, query: native().Tensor.randn(query!.shape, "f32", generator) });
    }
    using prefix = await swarm.prefix(inputs, { grad: true });
    const results = await swarm.runSpecialists(inputs, MASK);
    using output = await swarm.complete(prefix, MASK, results, { grad: true });
    const { loss } = await native().crossEntropy(primary.lane, {
      logits: output.logits,
      labels: i64([0, 1, 2, 3]),
    });
    await native().backward(primary.lane, [loss], [1]);
    for (const [name, module] of Object.entries(modules).slice(2)) {
      const gradients = module.gradients();
      expect(Object.keys(gradients).sort()).toEqual(
        module
          .parameters()
          .map((parameter) => parameter.name)
          .sort(),
      );
      for (const [key, gradient] of Object.entries(gradients)) {
        expect(gradient.abs().max().item(), `${name}.${key}`).toBeGreaterThan(0);
      }
    }
  });

  it("is stored and restored by name", async () => {
    const { swarm } = shallowSwarm();
    for (const [name, module] of Object.entries(swarm.modules())) {
      if (name === "primary") continue;
      const values = module.parameters().map(({ name: key, shape }) => {
        return [key, native().Tensor.full(shape, 0.1, "f32")] as const;
      });
      module.loadStateDict(Object.fromEntries(values));
    }
    const other = shallowSwarm().swarm;
    const expected = await logitsOf(swarm, { mask: MASK });
    expect((await logitsOf(other, { mask: MASK })).equal(expected)).toBe(false);
    restoreSwarm(other, storeSwarm(swarm));
    expect((await logitsOf(other, { mask: MASK })).equal(expected)).toBe(true);
  });

  it("is fitted for the stage that is named", async () => {
    const { shallow, alignment } = shallowSwarm();
    const before = alignment["2"].stateDict().left!.clone();
    const fitted = await fitAlignment(shallow, primary, [inputs], { stage: 1 });
    expect(fitted.residual).toBeLessThan(1);
    expect(alignment["2"].stateDict().left!.equal(before)).toBe(true);
    await fitAlignment(shallow, primary, [inputs]);
    expect(alignment["2"].stateDict().left!.equal(before)).toBe(false);
    await expect(fitAlignment(specialists[0]!, primary, [inputs], { stage: 1 })).rejects.toEqual(
      expectError("ERR_CONFIG", /'names' has no alignment for stage 1/),
    );
  });
});

describe("SpecialistCache of several stages", () => {
  it("answers as the specialists do, and tells which states it lacks", async () => {
    const swarm = swarmOf();
    const batch = randomBatch(randomOf(seed), B, 24);
    using read = batchInput(batch);
    using prefix = await swarm.prefix(read);
    using cache = await SpecialistCache.build(specialists, [batch], { stages: swarm.specialistStages });
    // Of two specialists per example: one layer of 3 heads of 16 x 16 and two of 4, 5 logits, 32 pooled values.
    expect(cache.bytes).toBe(2 * B * 4 * ((3 + 2 * 4) * 16 * 16 + 5 + 32));
    const live = await swarm.runSpecialists(read, MASK);
    using expected = await swarm.complete(prefix, MASK, live);
    using actual = await swarm.complete(prefix, MASK, cache.select(batch.rows)!);
    expect(actual.logits.maxAbsDiff(expected.logits)).toBeLessThan(1e-5);
    using innermost = await SpecialistCache.build(specialists, [batch]);
    await expect(swarm.complete(prefix, MASK, innermost.select(batch.rows)!)).rejects.toEqual(
      expectError(
        "ERR_ARGUMENT",
        /'names' has states of stages \[2\], expected stage 1 too.*specialistStages/,
      ),
    );
    await expect(SpecialistCache.build(specialists, [batch], { stages: [[1]] })).rejects.toEqual(
      expectError("ERR_CONFIG", /stages: expected one list per specialist, 2, got 1/),
    );
  });
});

describe("errors", () => {
  it("name a stage that cannot be fused and those that can", () => {
    const keyed = (stage: string) => () => swarmOf({ fusion: { [stage]: fusionOf(2) } });
    expect(keyed("0")).toThrow(
      expectError("ERR_CONFIG", /fusion: stage "0" .*prefix.*; expected one of "1", "2"$/),
    );
    expect(keyed("3")).toThrow(expectError("ERR_CONFIG", /fusion: stage "3" .*; expected one of "1", "2"$/));
    const shared = fusionOf(2);
    for (const wrong of [{}, { "1": shared, "2": shared }]) {
      expect(() => swarmOf({ fusion: wrong as unknown as RWKVStateFusion })).toThrow(
        expectError(
          "ERR_CONFIG",
          /fusion: expected (at least one stage|a RWKVStateFusion of its own for each stage)/,
        ),
      );
    }
    for (const wrong of [{ inner: fusionOf(2) }, { "1": primary }, [fusionOf(2)]]) {
      expect(() => swarmOf({ fusion: wrong as unknown as RWKVStateFusion })).toThrow(
        expectError("ERR_CONFIG", /fusion: expected one RWKVStateFusion, or a record/),
      );
    }
    expect(() => swarmOf({ fusion: { "1": fusionOf(2) } })).toThrow(
      expectError(
        "ERR_CONFIG",
        /fusion\.1: .*4 heads of 16.*the primary has 1 layers of 3 heads of 16 in stage 1/,
      ),
    );
  });

  it("name both geometries where a specialist lacks the stage or an alignment", async () => {
    const flat = specialist(8, "flat", FLAT);
    const fusion = { "1": fusionOf(1, 1) };
    expect(() => swarmOf({ specialists: [flat], fusion })).toThrow(
      expectError(
        "ERR_CONFIG",
        /'flat': .*\[0: 2 layers of 2 heads of 16\].*stage 1 of the primary's \[0: 1 layers of 2 .*, 2: 2 layers of 4/,
      ),
    );
    const shallow = specialist(9, "shallow", PRIMARY);
    expect(() => swarmOf({ specialists: [shallow], fusion })).toThrow(
      expectError(
        "ERR_CONFIG",
        /'shallow' has 1 layers of 2 heads of 16 in stage 0, the primary has 1 layers of 3 .* in stage 1; .*\{ stage: 1 \}/,
      ),
    );
    const alignment = AlignmentProjection.between(shallow.model, primary);
    const aligned = specialist(9, "aligned", PRIMARY, { alignment: { "2": alignment } });
    expect(() => swarmOf({ specialists: [aligned], fusion })).toThrow(
      expectError("ERR_CONFIG", /'aligned' has an alignment for stage 2 of the primary, fusion serves 1/),
    );
    const swapped = specialist(9, "swapped", PRIMARY, { alignment: { "1": alignment } });
    expect(() => swarmOf({ specialists: [swapped], fusion })).toThrow(
      expectError(
        "ERR_CONFIG",
        /'swapped' has 1 layers .* in stage 0, its alignment for stage 1 .* 2 layers of 4/,
      ),
    );
    await expect(shallow.forward(inputs, { stages: [2] })).rejects.toEqual(
      expectError("ERR_ARGUMENT", /'shallow': stage: expected 0 to 1, got 2/),
    );
  });

  it("do not ask for alignment where outputs alone are fused", async () => {
    const swarm = swarmOf({
      specialists: [specialist(10, "flat", FLAT)],
      fuse: "outputs",
      fusion: undefined,
    });
    const result = await logitsOf(swarm, { mask: MASK.map(([first]) => [first!]) });
    using alone = await primary.forward(inputs);
    expect(result.equal(alone.logits)).toBe(true);
  });
});
