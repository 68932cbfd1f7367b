import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ErrorCode } from "../../lib/errors.js";
import { AegirForColumnAnnotation, type BatchInputs } from "../../lib/model/index.js";
import { native } from "../../lib/native/load.js";
import type { ActivationLike } from "../../lib/swarm/activation.js";
import {
  AlignmentProjection,
  type FrozenSpecialist,
  RWKVStateFusion,
  type SwarmOptions,
  SwarmOrchestrator,
  type SwarmOutput,
} from "../../lib/swarm/index.js";
import { tidy } from "../../lib/tensor/index.js";
import { randomOf, testSeed } from "../rl/support.js";
import {
  expectError,
  FLAT,
  liveTensors,
  PRIMARY,
  randomInputs,
  rowOf,
  settledTensors,
  specialist,
  WIDER,
} from "./support.js";

const B = 5;
const seed = testSeed("orchestrator");
let primary: AegirForColumnAnnotation;
let specialists: FrozenSpecialist[];
let inputs: BatchInputs;
beforeAll(() => {
  primary = new AegirForColumnAnnotation(PRIMARY, { seed: 1, name: "primary" });
  specialists = [specialist(2, "names"), specialist(3, "numbers")];
});
afterAll(() => {
  primary.dispose();
  for (const { model } of specialists) model.dispose();
});
beforeEach(() => {
  inputs = randomInputs(randomOf(seed), B, 24);
});

function swarmOf(options: Partial<SwarmOptions> = {}): SwarmOrchestrator {
  return new SwarmOrchestrator({ primaryModel: primary, specialists, ...options });
}

async function logitsAlone(): Promise<number[][]> {
  using output = await primary.forward(inputs);
  return rowsOf(output.logits);
}

function rowsOf(tensor: SwarmOutput["output"]["logits"]): number[][] {
  return Array.from({ length: tensor.shape[0]! }, (_, row) => rowOf(tensor, row));
}

const MASK = [
  [1, 0],
  [0, 0],
  [1, 1],
  [0, 1],
  [0, 0],
].map((row) => row.map(Boolean));

describe("SwarmOrchestrator.forward", () => {
  it.each([undefined, null])(
    "with routingHidden %s is the primary alone, bit for bit",
    async (routingHidden) => {
      const alone = await logitsAlone();
      using result = await swarmOf().forward({ ...inputs, routingHidden });
      expect(rowsOf(result.output.logits)).toEqual(alone);
      expect(result.specialistOutputs).toEqual([]);
      expect(Array.from(result.activationMask.data(), Number)).toEqual(new Array(2 * B).fill(0));
      expect(result.scores).toBeNull();
    },
  );

  it.each(["states", "outputs", "states+outputs"] as const)(
    "leaves rows that activate nothing as the primary has them, bit for bit: %s",
    async (fuse) => {
      const alone = await logitsAlone();
      const swarm = swarmOf({ fuse });
      if (swarm.outputFusion) fillOutputFusion(swarm);
      using off = await swarm.forward({ ...inputs, routingHidden: "auto", routing: "all-off" });
      expect(rowsOf(off.output.logits)).toEqual(alone);
      using mixed = await swarm.forward({ ...inputs, routingHidden: "auto", routing: { mask: MASK } });
      const fused = rowsOf(mixed.output.logits);
      for (const [row, active] of MASK.entries()) {
        if (active.includes(true)) expect(fused[row]).not.toEqual(alone[row]);
        else expect(fused[row]).toEqual(alone[row]);
      }
    },
  );

  it("with fresh output fusion that leaves labels out starts from the primary's own answer", async () => {
    const alone = await logitsAlone();
    using result = await swarmOf({ fuse: "outputs", fuseLabels: false })
      .withRouting("all-on")
      .forward({ ...inputs, routingHidden: "auto" });
    expect(rowsOf(result.output.logits)).toEqual(alone);
  });

  it("with fresh output fusion of specialists of the same labels starts from their logarithmic pool", async () => {
    using result = await swarmOf({ fuse: "outputs" })
      .withRouting("all-on")
      .forward({ ...inputs, routingHidden: "auto" });
    const said = result.specialistOutputs.map(({ output }) => rowsOf(output!.logits.logSoftmax(1)));
    for (const [row, logits] of rowsOf(result.output.logits).entries()) {
      const expected = logits.map(
        (_, c) => said.reduce((sum, rows) => sum + rows[row]![c]!, 0) / said.length,
      );
      for (const [c, value] of logits.entries())
        expect(value - logits[0]!).toBeCloseTo(expected[c]! - expected[0]!, 4);
    }
  });

  it("sends only the rows that activated a specialist to it, with the result of sending all", async () => {
    const swarm = swarmOf();
    using prefix = await swarm.prefix(inputs);
    const subset = await swarm.runSpecialists(inputs, MASK);
    const all = await swarm.runSpecialists(
      inputs,
      MASK.map(() => [true, true]),
    );
    expect(subset.map(({ states }) => states[1]![0]!.shape[0])).toEqual([2, 2]);
    expect(all.map(({ states }) => states[1]![0]!.shape[0])).toEqual([B, B]);
    using some = await swarm.complete(prefix, MASK, subset);
    using every = await swarm.complete(prefix, MASK, all);
    // Other batch sizes make other GEMM kernels: rounding of float32.
    expect(some.logits.maxAbsDiff(every.logits)).toBeLessThan(1e-5);
  });

  it("gives the same in streams and in series, bit for bit", async () => {
    const [streams, serial] = await Promise.all(
      (["streams", "serial"] as const).map((execution) =>
        swarmOf({ execution }).forward({ ...inputs, routingHidden: "auto", routing: { mask: MASK } }),
      ),
    );
    expect(streams!.output.logits.equal(serial!.output.logits)).toBe(true);
  });

  it("follows the router: rows whose score is above the threshold, at most maxActive", async () => {
    const bias = native().Tensor.fromData(Float32Array.of(1, 2), [2], "f32");
    const scored = async (options: Partial<SwarmOptions>) => {
      const swarm = swarmOf(options);
      swarm.router.loadStateDict({ ...swarm.router.stateDict(), bias });
      using result = await swarm.forward({ ...inputs, routingHidden: "auto" });
      return { scores: rowOf(result.scores!, 0), mask: rowOf(result.activationMask, 0) };
    };
    const { scores, mask } = await scored({});
    // sigmoid(6 tanh(z / 6)) for z = 1 and 2
    expect(scores[0]).toBeCloseTo(1 / (1 + Math.exp(-6 * Math.tanh(1 / 6))), 6);
    expect(mask).toEqual([1, 1]);
    expect((await scored({ activationThreshold: 0.8 })).mask).toEqual([0, 1]);
    expect((await scored({ maxActive: 1 })).mask).toEqual([0, 1]);
    expect((await scored({ activationThreshold: 0.99 })).mask).toEqual([0, 0]);
  });

  it("takes a right-padding mask in place of lengths", async () => {
    const tokens = inputs.inputIds.shape[1]!;
    const lengths = Array.from(inputs.lengths!.data(), Number);
    const mask = native().Tensor.fromData(
      Uint8Array.from({ length: B * tokens }, (_, i) =>
        i % tokens < lengths[Math.floor(i / tokens)]! ? 1 : 0,
      ),
      [B, tokens],
      "bool",
    );
    const { inputIds, roleIds, poolMask } = inputs;
    const swarm = swarmOf();
    using given = await swarm.forward({ ...inputs, routingHidden: "auto", routing: "all-on" });
    using masked = await swarm.forward({
      inputIds,
      roleIds,
      poolMask,
      mask,
      routingHidden: "auto",
      routing: "all-on",
    });
    expect(masked.output.logits.equal(given.output.logits)).toBe(true);
    const left = native().Tensor.fromData(
      new Uint8Array(B * 24).map((_, i) => (i % 24 > 0 ? 1 : 0)),
      [B, 24],
      "bool",
    );
    await expect(swarm.forward({ inputIds, mask: left })).rejects.toEqual(
      expectError("ERR_ARGUMENT", /row 0 is false at 0 and true after.*padded on the right/),
    );
  });

  it("works without specialists", async () => {
    const alone = await logitsAlone();
    using result = await swarmOf({ specialists: [] }).forward({ ...inputs, routingHidden: "auto" });
    expect(rowsOf(result.output.logits)).toEqual(alone);
    expect(result.activationMask.shape).toEqual([B, 0]);
  });

  it("reports when each part ran and a critical path that keeps its laws", async () => {
    using result = await swarmOf({ fuse: "states+outputs" }).forward({
      ...inputs,
      routingHidden: "auto",
      routing: "all-on",
    });
    const { nodes, criticalPath } = result.timing;
    expect(nodes.map((node) => node.id)).toEqual([
      "prefix",
      "router",
      "specialist:names",
      "specialist:numbers",
      "align:names",
      "align:numbers",
      "fuse",
      "outputFuse",
      "rest",
    ]);
    const durations = nodes.map(({ start, end }) => end - start);
    expect(criticalPath.ideal).toBeGreaterThanOrEqual(Math.max(...durations));
    expect(criticalPath.work).toBeGreaterThanOrEqual(criticalPath.ideal);
    expect(criticalPath.measured).toBeLessThanOrEqual(1.02 * criticalPath.wall);
    // prefix, router, alignments, fusions and rest of the main agent, and one step of the longest specialist
    expect(criticalPath.steps).toBe(8);
  });
});

function fillOutputFusion(swarm: SwarmOrchestrator): void {
  const fusion = swarm.outputFusion!;
  const values = fusion
    .parameters()
    .map(({ name, shape }) => [name, native().Tensor.full(shape, 0.05, "f32")] as const);
  fusion.loadStateDict(Object.fromEntries(values));
}

describe("specialists of other geometry", () => {
  it.each([
    ["wider, with other heads and depth", WIDER],
    ["flat", FLAT],
  ])("work through alignment: %s", async (_, options) => {
    const model = new AegirForColumnAnnotation(options, { seed: 4 });
    const alignment = AlignmentProjection.between(model, primary);
    const other = specialist(4, "other", options, { alignment });
    const alone = await logitsAlone();
    const swarm = swarmOf({ specialists: [specialists[0]!, other], fuse: "states+outputs" });
    using result = await swarm.forward({ ...inputs, routingHidden: "auto", routing: { mask: MASK } });
    const fused = rowsOf(result.output.logits);
    expect(fused.flat().every(Number.isFinite)).toBe(true);
    expect(fused[1]).toEqual(alone[1]);
    expect(fused[3]).not.toEqual(alone[3]);
    expect(Object.keys(swarm.modules())).toContain("alignment.other");
  });

  it("are refused without alignment, both geometries named", () => {
    const other = specialist(5, "other", WIDER);
    expect(() => swarmOf({ specialists: [other] })).toThrow(
      expectError(
        "ERR_CONFIG",
        /'other' has 3 layers of 3 heads of 32 in stage 1, the primary has 2 layers of 4 heads of 16 in stage 1.*AlignmentProjection/,
      ),
    );
  });
});

describe("errors", () => {
  it("name the option", () => {
    const fusion = new RWKVStateFusion({ numHeads: 4, headSize: 16, numAgents: 3 });
    expect(() => swarmOf({ fusion })).toThrow(
      expectError("ERR_CONFIG", /numAgents 3, there are 2 specialists/),
    );
    expect(() => swarmOf({ activationTreshold: 0.5 } as Partial<SwarmOptions>)).toThrow(
      expectError("ERR_CONFIG", /activationTreshold.*did you mean 'activationThreshold'/),
    );
    expect(() => swarmOf({ specialists: [specialists[0]!, specialists[0]!] })).toThrow(
      expectError("ERR_CONFIG", /two have the id 'names'/),
    );
  });

  it("name the input", async () => {
    const swarm = swarmOf();
    const hidden = native().Tensor.full([B, 7], 0, "f32");
    await expect(swarm.forward({ ...inputs, routingHidden: hidden })).rejects.toEqual(
      expectError("ERR_SHAPE", /routingHidden: expected \(5,32\), got \(5,7\)/),
    );
    await expect(swarm.forward({ ...inputs, routing: "all-on" })).rejects.toEqual(
      expectError("ERR_ARGUMENT", /"all-on" needs routingHidden/),
    );
    await expect(
      swarm.forward({ ...inputs, routingHidden: "auto", routing: { mask: [[true, true]] } }),
    ).rejects.toEqual(expectError("ERR_SHAPE", /expected 5 rows of 2 specialists, got 1 rows/));
    const transposed = native().Tensor.full([2, B], 1, "bool");
    for (const [mask, code, message] of [
      [transposed, "ERR_SHAPE", /activation: expected \(5,2\), got \(2,5\)/],
      [new Uint8Array(2 * B).fill(2), "ERR_ARGUMENT", /activation: expected 0 or 1, got 2/],
      [MASK.map(() => [1, 0.5]), "ERR_ARGUMENT", /activation\[0\]\[1\]: expected 0 or 1, got 0.5/],
      ["all", "ERR_ARGUMENT", /activation: expected rows of booleans/],
    ] as [ActivationLike, ErrorCode, RegExp][]) {
      const refused = swarm.forward({ ...inputs, routingHidden: "auto", routing: { mask } });
      await expect(refused).rejects.toEqual(expectError(code, message));
    }
    transposed.dispose();
    for (const [wrong, message] of [
      [{ routing: "everyone" }, /routing: expected .*got "everyone"/],
      [{ routing: null }, /routing: expected .*got null/],
      [{ routingHidden: "mine" }, /routingHidden: expected a Tensor, got 'mine'/],
      [{ mask: {}, lengths: undefined }, /mask: expected a Tensor, got object/],
    ] as [object, RegExp][]) {
      const refused = swarm.forward({ ...inputs, routingHidden: "auto", ...wrong });
      await expect(refused).rejects.toEqual(expectError("ERR_ARGUMENT", message));
    }
    const state = (await swarm.primary.forward(inputs)).state;
    const narrow = native().Tensor.full([B, 2], 1, "bool");
    const soft = native().Tensor.full(inputs.inputIds.shape, 1, "f32");
    for (const [wrong, code, message] of [
      [{ state }, "ERR_ARGUMENT", /a swarm reads no 'state'; it reads inputIds/],
      [{ dropout: "junk" }, "ERR_ARGUMENT", /dropout/],
      [{ recompute: "junk" }, "ERR_ARGUMENT", /recompute/],
      [{ mask: narrow, lengths: undefined }, "ERR_SHAPE", /mask: expected \(B,T\) as inputIds/],
      [{ mask: soft, lengths: undefined }, "ERR_DTYPE", /mask: expected bool, got f32/],
    ] as [object, ErrorCode, RegExp][]) {
      const refused = swarm.forward({ ...inputs, routingHidden: "auto", ...wrong });
      await expect(refused).rejects.toEqual(expectError(code, message));
    }
    state.dispose();
    narrow.dispose();
    soft.dispose();
    expect(() => {
      swarm.execution = "together" as never;
    }).toThrow(expectError("ERR_CONFIG", /execution.*"streams"/));
    using prefix = await swarm.prefix(inputs);
    await expect(swarm.complete(prefix, MASK, [])).rejects.toEqual(
      expectError("ERR_ARGUMENT", /row 0 activated specialist 0/),
    );
  });
});

describe("a primary in f64", () => {
  it("fuses states in f64, its specialists' converted", async () => {
    const primaryModel = new AegirForColumnAnnotation({ ...PRIMARY, dtype: "f64" }, { seed: 1 });
    using swarm = new SwarmOrchestrator({ primaryModel, specialists });
    using result = await swarm.forward({ ...inputs, routingHidden: "auto", routing: "all-on" });
    expect(result.output.logits.dtype).toBe("f64");
    const fusion = new RWKVStateFusion({ ...swarm.fusion!.options, dtype: "f32" } as ConstructorParameters<
      typeof RWKVStateFusion
    >[0]);
    expect(() => new SwarmOrchestrator({ primaryModel, specialists, fusion })).toThrow(
      expectError("ERR_CONFIG", /fusion: is made in f32, the primary in f64/),
    );
    fusion.dispose();
    primaryModel.dispose();
  });
});

describe("memory and cancellation", () => {
  it("frees every tensor of a forward", async () => {
    const swarm = swarmOf({ fuse: "states+outputs" });
    const run = async () => {
      using _ = await swarm.forward({ ...inputs, routingHidden: "auto", routing: { mask: MASK } });
    };
    await run();
    const before = await settledTensors();
    for (let i = 0; i < 3; i++) await run();
    expect(liveTensors()).toBe(before);
  });

  it("leaves in a tidy what it returns and nothing else", async () => {
    const swarm = swarmOf({ fuse: "states+outputs" });
    const before = await settledTensors();
    const run = () => swarm.forward({ ...inputs, routingHidden: "auto", routing: "all-on" });
    const label = await tidy(async () => (await run()).output.logits.reduce("argmax").item());
    expect(liveTensors()).toBe(before);
    using kept = await tidy(run);
    const index = kept.output.logits.reduce("argmax");
    expect(index.item()).toBe(label);
    index.dispose();
  });

  it("stops where the signal aborts, frees what it made and goes on working", async () => {
    const swarm = swarmOf();
    const before = await settledTensors();
    const controller = new AbortController();
    const running = swarm.forward({
      ...inputs,
      routingHidden: "auto",
      routing: "all-on",
      signal: controller.signal,
    });
    controller.abort();
    await expect(running).rejects.toEqual(expectError("ERR_ABORTED", /abort/));
    expect(liveTensors()).toBe(before);
    using again = await swarm.forward({ ...inputs, routingHidden: "auto", routing: "all-on" });
    expect(again.specialistOutputs.length).toBe(2);
  });
});
