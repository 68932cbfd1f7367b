import { afterAll, describe, expect, it } from "vitest";
import { AegirForCausalLM, AegirForColumnAnnotation, type AnnotatorOptions } from "../../lib/model/index.js";
import type { NativeModule, NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { FrozenSpecialist, type SwarmOptions, SwarmOrchestrator } from "../../lib/swarm/index.js";
import type { SpecialistResult } from "../../lib/swarm/results.js";
import { randomOf, testSeed } from "../rl/support.js";
import {
  expectError,
  FLAT,
  liveTensors,
  PRIMARY,
  randomInputs,
  settledTensors,
  specialist,
} from "./support.js";

const seed = testSeed("batched");
const B = 7;
/** Another flat geometry: SwiGLU, a width that fills no vector, n-grams, two ways of pooling. */
const ODD: AnnotatorOptions = {
  archLayout: ["W1w2"],
  dModel: 30,
  headSize: 10,
  numLabels: 3,
  ngrams: { sizes: [2, 3], buckets: 64, width: 8 },
  pooling: ["mean", "max"],
};

/** ATen rounds the ends of a tensor that fill no vector otherwise: rows of 32 floats fill two of AVX-512's, which it reads at a time. */
const FULL: AnnotatorOptions = { ...FLAT, loraRanks: { decay: 32, a: 32, v: 32, gate: 32 } };

const made: { dispose(): void }[] = [];
afterAll(() => {
  for (const each of made) each.dispose();
});

/** Random weights everywhere: fresh models have zeros where a fault would not show. */
function randomised(options: AnnotatorOptions, id: string, from: number, size = 0.03): FrozenSpecialist {
  const model = new AegirForColumnAnnotation(options, { seed: from, name: id });
  addNoise(model, from, size);
  made.push(model);
  return new FrozenSpecialist(model, { id });
}

function addNoise(model: { native: NativeModule }, from: number, size: number): void {
  const generator = new (native().Generator)(from);
  const values = model.native.stateDict();
  const noisy = Object.entries(values).map(([name, tensor]) => {
    const noise = native().Tensor.randn(tensor.shape, "f64", generator);
    const small = noise.mul(size);
    const sum = tensor.to("f64").add(small);
    for (const each of [noise, small, tensor]) each.dispose();
    return [name, sum] as const;
  });
  model.native.loadStateDict(Object.fromEntries(noisy));
  for (const [, tensor] of noisy) tensor.dispose();
  generator.dispose();
}

function flatSpecialists(dtype: "f32" | "f64"): FrozenSpecialist[] {
  return [
    randomised({ ...FLAT, dtype }, "a", 2),
    randomised({ ...ODD, dtype }, "x", 3),
    randomised({ ...FLAT, numLabels: 6, pooling: ["context", "max"], dtype }, "b", 4),
    randomised({ ...FLAT, dtype }, "c", 5),
    randomised({ ...ODD, dtype }, "y", 6),
  ];
}

function swarmOf(specialists: FrozenSpecialist[], options: Partial<SwarmOptions> = {}): SwarmOrchestrator {
  const dtype = specialists[0]!.model.options.dtype;
  const primaryModel = new AegirForColumnAnnotation({ ...FLAT, dtype }, { seed: 1, name: "primary" });
  made.push(primaryModel);
  const swarm = new SwarmOrchestrator({
    primaryModel,
    specialists,
    fuse: "outputs",
    ...options,
  });
  made.push(swarm);
  return swarm;
}

/** Ragged: every specialist its own rows, the last of each geometry none or all. */
function raggedMask(random: () => number, specialists: number): boolean[][] {
  return Array.from({ length: B }, () => Array.from({ length: specialists }, () => random() < 0.4));
}

function tensorsOf({ output, states }: SpecialistResult) {
  return [...(output ? [output.logits, output.pooled] : []), ...Object.values(states).flat()];
}

async function compare(swarm: SwarmOrchestrator, inputs: ReturnType<typeof randomInputs>, mask: boolean[][]) {
  const runs: SpecialistResult[][] = [];
  for (const execution of ["serial", "batched"] as const) {
    swarm.execution = execution;
    runs.push(await swarm.runSpecialists(inputs, mask));
  }
  const [serial, batched] = runs as [SpecialistResult[], SpecialistResult[]];
  expect(batched.map(({ id }) => id)).toEqual(serial.map(({ id }) => id));
  let worst = 0;
  for (const [i, result] of serial.entries()) {
    expect(batched[i]!.positions).toEqual(result.positions);
    for (const [j, tensor] of tensorsOf(result).entries()) {
      const other = tensorsOf(batched[i]!)[j]!;
      expect(other.shape).toEqual(tensor.shape);
      worst = Math.max(worst, other.maxAbsDiff(tensor) / largest(tensor));
    }
  }
  for (const result of [...serial, ...batched]) result.dispose();
  return { worst, members: batched.map(({ members }) => members.join("+")) };
}

/** Of a tensor's values, at least 1: rounding is relative to it. */
function largest(tensor: NativeTensor): number {
  return Array.from(tensor.data(), Number).reduce((most, value) => Math.max(most, Math.abs(value)), 1);
}

describe("batched execution", () => {
  // f32 rounds by 6e-8: through three layers of up to 40 dependent steps twelve seeds differ by 1e-7 to 9e-7. f64 tells whether the sums are the same.
  it.each([
    ["f32", 4e-6],
    ["f64", 1e-13],
  ] as const)("gives serial's numbers, each specialist on its own rows: %s", async (dtype, tolerance) => {
    const random = randomOf(seed);
    const specialists = flatSpecialists(dtype);
    for (const threads of [1, 2, 8]) {
      const swarm = swarmOf(specialists, { threads });
      using inputs = randomInputs(random, B, 1 + Math.floor(random() * 40));
      const { worst } = await compare(swarm, inputs, raggedMask(random, specialists.length));
      expect(worst).toBeLessThan(tolerance);
    }
  });

  it("gives serial's bits on the kernels' sizes and with the same threads", async () => {
    const specialists = [2, 3, 4].map((from) => randomised(FULL, `s${from}`, from, 0.3));
    // ATen's products of a few rows round otherwise with other numbers of threads.
    const swarm = swarmOf(specialists, { fuse: "states", threads: 1 });
    for (const tokens of [24, 33]) {
      using inputs = randomInputs(randomOf(seed), B, tokens);
      const mask = Array.from({ length: B }, (_, row) => [true, row < 2, row !== 3]);
      expect(await compare(swarm, inputs, mask)).toEqual({ worst: 0, members: Array(3).fill("s2+s3+s4") });
    }
  });

  it("leaves out who is not activated, and says who ran as one", async () => {
    const specialists = flatSpecialists("f32");
    const swarm = swarmOf(specialists);
    using inputs = randomInputs(randomOf(seed), 3, 20);
    const everyone = await compare(swarm, inputs, Array(3).fill([true, true, true, true, true]));
    expect(everyone.members).toEqual(["a+b+c", "x+y", "a+b+c", "a+b+c", "x+y"]);
    const some = await compare(swarm, inputs, Array(3).fill([true, true, false, true, false]));
    expect(some.members).toEqual(["a+c", "x", "a+c"]);
    const nobody = await compare(swarm, inputs, Array(3).fill([false, false, false, false, false]));
    expect(nobody.members).toEqual([]);
  });

  it("serves recurrent states and causal language models", async () => {
    const { numLabels: _, ...blocks } = FULL;
    const options = { ...blocks, vocabSize: 300 };
    const models = [2, 3].map((from) => new AegirForCausalLM(options, { seed: from }));
    for (const [i, model] of models.entries()) addNoise(model, i, 0.3);
    made.push(...models);
    const language = models.map((model, i) => new FrozenSpecialist(model, { id: `lm${i}` }));
    const swarm = swarmOf([...language, randomised(FULL, "a", 4)], { fuse: "states", threads: 1 });
    using inputs = randomInputs(randomOf(seed), B, 24);
    const mask = Array.from({ length: B }, (_, row) => [row % 2 === 0, row % 3 === 0, row > 1]);
    const { worst, members } = await compare(swarm, inputs, mask);
    expect(worst).toBe(0);
    // One geometry, whatever stands on the blocks.
    expect(members).toEqual(["lm0+lm1+a", "lm0+lm1+a", "lm0+lm1+a"]);
  });

  it("runs reversed blocks as streams do, and those that are left where a model is gone", async () => {
    const reversed = { ...FULL, archLayout: ["w1<w1"] };
    const backwards = [2, 3].map((from) => randomised(reversed, `r${from}`, from));
    const swarm = swarmOf(backwards, { threads: 1 });
    using inputs = randomInputs(randomOf(seed), 3, 20);
    const everyone = Array(3).fill([true, true]);
    expect(await compare(swarm, inputs, everyone)).toEqual({ worst: 0, members: ["r2", "r3"] });
    const three = [4, 5, 6].map((from) => randomised(FULL, `s${from}`, from));
    const rest = swarmOf(three, { threads: 1 });
    three[2]!.model.dispose();
    const { members } = await compare(rest, inputs, Array(3).fill([true, true, false]));
    expect(members).toEqual(["s4+s5", "s4+s5"]);
    await expect(rest.runSpecialists(inputs, Array(3).fill([true, true, true]))).rejects.toMatchObject({
      code: "ERR_DISPOSED",
      message: expect.stringContaining("'s6'"),
    });
    rest.dispose();
    await expect(rest.runSpecialists(inputs, Array(3).fill([true, true, false]))).rejects.toMatchObject({
      code: "ERR_DISPOSED",
    });
  });

  it("runs nested layouts as streams do", async () => {
    const nested = [2, 3].map((from) => specialist(from, `n${from}`, PRIMARY));
    made.push(...nested.map(({ model }) => model));
    const primaryModel = new AegirForColumnAnnotation(PRIMARY, { seed: 1 });
    const swarm = new SwarmOrchestrator({ primaryModel, specialists: nested, threads: 1 });
    made.push(primaryModel, swarm);
    using inputs = randomInputs(randomOf(seed), 3, 20);
    const { worst, members } = await compare(swarm, inputs, Array(3).fill([true, true]));
    expect(worst).toBe(0);
    expect(members).toEqual(["n2", "n3"]);
  });

  it("keeps one copy of the weights, counted by memory(), until dispose", async () => {
    const specialists = [2, 3].map((from) => randomised(FLAT, `s${from}`, from));
    const swarm = swarmOf(specialists, { execution: "batched" });
    using inputs = randomInputs(randomOf(seed), 3, 20);
    const tensors = await settledTensors();
    const { liveBytes } = native().memory();
    const run = async () => {
      for (const each of await swarm.runSpecialists(inputs, Array(3).fill([true, true]))) each.dispose();
      return native().memory().liveBytes - liveBytes;
    };
    const bytes = await run();
    const blocks = specialists[0]!.model
      .parameters()
      .filter(({ name }) => /encoder\.\d/.test(name))
      .reduce((sum, { shape }) => sum + 4 * shape.reduce((a, b) => a * b, 1), 0);
    expect(bytes).toBeGreaterThanOrEqual(2 * blocks);
    expect(await run()).toBe(bytes);
    swarm.dispose();
    await new Promise(setImmediate);
    expect(native().memory().liveBytes).toBeLessThanOrEqual(liveBytes);
    expect(liveTensors()).toBeLessThanOrEqual(tensors);
  });

  it("has one node in the timing, which alignments and fusion depend on", async () => {
    const swarm = swarmOf(flatSpecialists("f32"), { fuse: "outputs", execution: "batched", threads: 1 });
    using inputs = randomInputs(randomOf(seed), 3, 20);
    using result = await swarm.forward({ ...inputs, routingHidden: "auto", routing: "all-on" });
    const nodes = result.timing.nodes.filter(({ role }) => role === "specialist");
    expect(nodes.map(({ id, members }) => [id, members])).toEqual([
      ["specialists:a+b+c", ["a", "b", "c"]],
      ["specialists:x+y", ["x", "y"]],
    ]);
    const fuse = result.timing.nodes.find(({ id }) => id === "outputFuse")!;
    expect(fuse.deps).toEqual(nodes.map(({ id }) => id));
    const { steps } = result.timing.criticalPath;
    swarm.execution = "serial";
    using serial = await swarm.forward({ ...inputs, routingHidden: "auto", routing: "all-on" });
    expect(serial.timing.criticalPath.steps).toBe(steps);
    expect(serial.output.logits.maxAbsDiff(result.output.logits)).toBeLessThan(1e-6);
  });

  it("names the specialists where their forward fails, and goes on", async () => {
    const swarm = swarmOf(flatSpecialists("f32"), { execution: "batched" });
    using inputs = randomInputs(randomOf(seed), 2, 8);
    const rows = Array(2).fill([true, false, true, false, false]);
    const wrong = { ...inputs, roleIds: undefined, inputIds: native().Tensor.full([2, 8], 999, "i64") };
    await expect(swarm.runSpecialists(wrong, rows)).rejects.toThrow(
      expectError("ERR_ARGUMENT", /^specialists 'a', 'b': inputIds: every id must lie in 0/),
    );
    wrong.inputIds.dispose();
    const abort = AbortSignal.abort();
    await expect(swarm.runSpecialists(inputs, rows, { signal: abort })).rejects.toThrow(
      expectError("ERR_ABORTED", /aborted/),
    );
    for (const each of await swarm.runSpecialists(inputs, rows)) each.dispose();
    (swarm.specialists[0] as FrozenSpecialist).model.dispose();
    await expect(swarm.runSpecialists(inputs, rows)).rejects.toThrow(
      expectError("ERR_DISPOSED", /^specialist 'a': .*disposed/),
    );
  });
});

describe('execution "auto"', () => {
  it("measures both forms once a shape, remembers the choice, and gives serial's numbers throughout", async () => {
    const swarm = swarmOf(flatSpecialists("f32"), { threads: 1 });
    using inputs = randomInputs(randomOf(seed), B, 20);
    const mask = Array(B).fill([true, true, true, false, true]);
    swarm.execution = "serial";
    const serial = await swarm.runSpecialists(inputs, mask);
    swarm.execution = "auto";
    expect(swarm.executionChoices()).toEqual([]);
    let ranAsOne = 0;
    for (let i = 0; i < 20; i++) {
      const results = await swarm.runSpecialists(inputs, mask);
      if (results.some(({ members }) => members.length > 1)) ranAsOne++;
      for (const [j, result] of results.entries()) {
        for (const [k, tensor] of tensorsOf(result).entries())
          expect(tensor.maxAbsDiff(tensorsOf(serial[j]!)[k]!)).toBeLessThan(1e-6);
        result.dispose();
      }
      expect(swarm.executionChoices()[0]!.chosen === null).toBe(i < 17);
    }
    const [choice, ...others] = swarm.executionChoices();
    expect(others).toEqual([]);
    expect(choice!.shape).toBe("2+2: 32 x 32");
    const { streams, batched } = choice as { streams: number; batched: number };
    expect(choice!.chosen).toBe(batched < 0.9 * streams ? "batched" : "streams");
    expect(ranAsOne).toBe(choice!.chosen === "batched" ? 11 : 9);
    for (const result of serial) result.dispose();
  });

  it("does not measure a forward that runs beside another", async () => {
    const swarm = swarmOf(flatSpecialists("f32"), { execution: "auto" });
    using inputs = randomInputs(randomOf(seed), 4, 20);
    const mask = Array(4).fill([true, true, true, true, true]);
    const both = await Promise.all([swarm.runSpecialists(inputs, mask), swarm.runSpecialists(inputs, mask)]);
    for (const each of both.flat()) each.dispose();
    expect(swarm.executionChoices()).toEqual([expect.objectContaining({ streams: null, batched: null })]);
  });
});
