import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { AegirForCausalLM } from "../../lib/model/index.js";
import type { NativeState, NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { AdamW } from "../../lib/train/optimizer.js";
import {
  causalLM,
  dispose,
  expectClose,
  expectSameState,
  geometryKinds,
  idTensor,
  indexTensor,
  LAW_TOLERANCE,
  rowValues,
  values,
} from "./support.js";

const token = fc.constantFrom(32, 48, 97, 98, 200, 257);
/** Rows of one length: a prefix, and tokens that follow it one by one. */
const text = fc
  .tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 2, max: 9 }))
  .chain(([rows, length]) =>
    fc.array(fc.array(token, { minLength: length, maxLength: length }), { minLength: rows, maxLength: rows }),
  );

function stateOf(state: NativeState): Record<string, number[]> {
  const tensors = state.tensors();
  const result = Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, values(tensor)]));
  dispose(...Object.values(tensors));
  return result;
}

/** Logits of every step and the final state, by `step` from the state after the first token and by one `forward` of all tokens. */
async function bothWays(model: AegirForCausalLM, rows: number[][], roles?: number[][]) {
  const steps: number[][] = [];
  const head = idTensor(rows.map((row) => row.slice(0, 1)));
  const headRoles = roles && idTensor(roles.map((row) => row.slice(0, 1)));
  const prefix = await model.forward({ inputIds: head, roleIds: headRoles });
  let state = prefix.state;
  for (let t = 1; t < rows[0]!.length; t++) {
    const inputIds = indexTensor(rows.map((row) => row[t]!));
    const roleIds = roles && indexTensor(roles.map((row) => row[t]!));
    const before = stateOf(state);
    const output = await model.step({ inputIds, roleIds, state });
    expect(output.decoded, "by the decoding kernels").toBe(true);
    expect(stateOf(state), "the given state").toEqual(before);
    steps.push(values(output.logits));
    dispose(inputIds, roleIds, output.logits, state);
    state = output.state;
  }
  const inputIds = idTensor(rows);
  const roleIds = roles && idTensor(roles);
  const whole = await model.forward({ inputIds, roleIds });
  const expected = steps.map((_, i) => {
    const at = whole.logits.slice(1, i + 1, i + 2);
    const result = values(at);
    at.dispose();
    return result;
  });
  const result = { steps, expected, state: stateOf(state), expectedState: stateOf(whole.state) };
  dispose(head, headRoles, prefix, inputIds, roleIds, whole, state);
  return result;
}

describe.each(geometryKinds)("steps, $geometry in $dtype", ({ geometry, dtype, noise }) => {
  const model = causalLM(geometry, { dtype, noise });
  const tolerance = LAW_TOLERANCE[dtype];
  afterAll(() => model.dispose());

  it("give the logits and the state of forward, for several rows and over chunk boundaries", async () => {
    await fc.assert(
      fc.asyncProperty(text, async (rows) => {
        const { steps, expected, state, expectedState } = await bothWays(model, rows);
        for (const [i, logits] of steps.entries())
          expectClose(logits, expected[i]!, `token ${i + 1}`, tolerance);
        expectSameState(state, expectedState, "after the last token", tolerance);
      }),
      { numRuns: 8 },
    );
  });

  it("take roles", async () => {
    const { steps, expected } = await bothWays(model, [[97, 98, 32]], [[0, 3, 4]]);
    for (const [i, logits] of steps.entries()) expectClose(logits, expected[i]!, `token ${i + 1}`, tolerance);
  });
});

describe("steps of other shapes", () => {
  it.each([
    ["odd ranks and hidden width", { loraRanks: { decay: 5, a: 3, v: 7, gate: 9 }, dIntermediate: 37 }],
    ["wide rows", { dModel: 96, headSize: 32, vocabSize: 301 }],
  ])("%s", async (_, options) => {
    using model = new AegirForCausalLM(
      { archLayout: ["w1W1"], dModel: 32, headSize: 16, init: "annotation", ...options },
      { seed: 3 },
    );
    for (const rows of [1, 2, 3, 4, 7]) {
      const texts = Array.from({ length: rows }, (_, i) => [97 + i, 98, 99 - i]);
      const { steps, expected, state, expectedState } = await bothWays(model, texts);
      for (const [i, logits] of steps.entries()) expectClose(logits, expected[i]!, `${rows} rows`);
      expectSameState(state, expectedState, `${rows} rows`, LAW_TOLERANCE.f32);
    }
  });

  it("heads that are no multiple of the vector width go through forward", async () => {
    using model = new AegirForCausalLM({ archLayout: ["w1"], dModel: 12, headSize: 6 });
    using inputIds = indexTensor([97]);
    using first = await model.step({ inputIds });
    using second = await model.step({ inputIds, state: first.state });
    expect([first.decoded, second.decoded]).toEqual([false, false]);
    using ids = idTensor([[97, 97]]);
    using whole = await model.forward({ inputIds: ids });
    expectClose(values(second.logits), rowValues(whole.logits, 0).slice(264), "second token");
  });

  it("products in bf16 go through forward", async () => {
    using model = new AegirForCausalLM({
      archLayout: ["w1"],
      dModel: 32,
      headSize: 16,
      init: "annotation",
      precision: "bf16",
    });
    using inputIds = indexTensor([97]);
    using first = await model.step({ inputIds });
    using second = await model.step({ inputIds, state: first.state });
    using ids = idTensor([[97]]);
    using whole = await model.forward({ inputIds: ids, state: first.state });
    expect(second.decoded).toBe(false);
    expect(values(second.logits)).toEqual(values(whole.logits));
  });

  it.each([
    { rows: 1, dModel: 256, headSize: 64, vocabSize: 264 },
    // Cuts between threads, and the end, where no strip of outputs ends.
    { rows: 1, dModel: 528, headSize: 16, vocabSize: 259 },
    { rows: 2, dModel: 528, headSize: 16, vocabSize: 259 },
    { rows: 7, dModel: 320, headSize: 16, vocabSize: 301 },
  ])("two threads give what one gives: %o", async ({ rows, ...sizes }) => {
    const options = { archLayout: ["w1"], init: "annotation" as const, ...sizes };
    using one = new AegirForCausalLM(options, { seed: 1, threads: 1 });
    using two = new AegirForCausalLM(options, { seed: 1, threads: 2 });
    using ids = idTensor(Array.from({ length: rows }, (_, i) => [1 + i]));
    // From one state: products of a few rows in forward are libtorch's, whose sums depend on the threads.
    const whole = await one.forward({ inputIds: ids });
    using inputIds = indexTensor(Array.from({ length: rows }, (_, i) => 7 * i));
    using a = await one.step({ inputIds, state: whole.state });
    using b = await two.step({ inputIds, state: whole.state });
    expect([a.decoded, b.decoded]).toEqual([true, true]);
    expect(values(b.logits)).toEqual(values(a.logits));
    expectSameState(stateOf(b.state), stateOf(a.state), `${rows} rows`, 0);
    dispose(whole);
  });
});

describe("parameters that change", () => {
  const rows = [[97, 98, 32, 97]];
  const check = async (model: AegirForCausalLM) => {
    const { steps, expected } = await bothWays(model, rows);
    for (const [i, logits] of steps.entries()) expectClose(logits, expected[i]!, `token ${i + 1}`);
    return steps;
  };

  it("loadStateDict and a step of the optimiser show in the next step", async () => {
    using model = causalLM("ngrams", { noise: 0.02 });
    using other = causalLM("ngrams", { noise: 0.02, seed: 2 });
    const before = await check(model);
    const tensors = other.stateDict();
    model.loadStateDict(tensors);
    dispose(...Object.values(tensors));
    const loaded = await check(model);
    expect(loaded).not.toEqual(before);

    using optimizer = new AdamW([{ module: model.native }]);
    using inputIds = idTensor(rows);
    using labels = native().Tensor.fromData(Int32Array.from(rows.flat()), [1, 4], "i64");
    using output = await model.forward({ inputIds }, { grad: true });
    const { loss, logp } = await native().crossEntropy(model.lane, { logits: output.logits, labels });
    await native().backward(model.lane, [loss], [1]);
    await optimizer.step(model.lane, { lr: 1e-2, clipNorm: 1 });
    dispose(loss, logp);
    expect(await check(model)).not.toEqual(loaded);
  });
});

describe("bad input to step", () => {
  const model = causalLM("flat");
  afterAll(() => model.dispose());

  const start = async () => {
    using inputIds = indexTensor([97, 98]);
    const output = await model.step({ inputIds });
    output.logits.dispose();
    return output.state;
  };

  it.each<[string, () => NativeTensor, string, string]>([
    ["of two dimensions", () => idTensor([[97, 98]]), "ERR_SHAPE", "inputIds"],
    [
      "out of range",
      () => indexTensor([97, 264]),
      "ERR_ARGUMENT",
      "inputIds: every id must lie in 0..263; got 264",
    ],
    ["negative", () => indexTensor([97, -1]), "ERR_ARGUMENT", "inputIds"],
    ["floats", () => native().Tensor.full([2], 1, "f32"), "ERR_DTYPE", "inputIds: expected i64"],
    ["of another number of rows", () => indexTensor([97]), "ERR_SHAPE", "state: is of 2 sequences"],
    ["none", () => native().Tensor.fromData(new Int32Array(0), [0], "i64"), "ERR_SHAPE", "inputIds"],
  ])("ids %s", async (_, make, code, message) => {
    const state = await start();
    using inputIds = make();
    await expect(model.step({ inputIds, state })).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
    state.dispose();
  });

  it("a state of another model, and one that holds NaN", async () => {
    using other = causalLM("swiGlu");
    const state = await start();
    using inputIds = indexTensor([97, 98]);
    await expect(other.step({ inputIds, state })).rejects.toMatchObject({ code: "ERR_SHAPE" });
    const tensors = state.tensors();
    const name = Object.keys(tensors).find((each) => each.endsWith("1.attKv"))!;
    using poisoned = tensors[name]!.mul(Number.NaN);
    const bad = model.createState({ ...tensors, [name]: poisoned });
    await expect(model.step({ inputIds, state: bad })).rejects.toMatchObject({ code: "ERR_NON_FINITE" });
    dispose(state, bad, ...Object.values(tensors));
  });
});
