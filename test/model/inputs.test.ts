import { afterAll, describe, expect, it } from "vitest";
import { AegirForColumnAnnotation, batchInput, type ModelInputs } from "../../lib/model/index.js";
import { native } from "../../lib/native/load.js";
import { annotator, causalLM, dispose, idTensor, indexTensor, rowValues, values } from "./support.js";

const model = annotator("chunked");
afterAll(() => model.dispose());
const tensor = (...args: Parameters<ReturnType<typeof native>["Tensor"]["fromData"]>) =>
  native().Tensor.fromData(...args);
const ids = () =>
  idTensor([
    [97, 98, 99],
    [49, 50, 51],
  ]);

describe("wrong input", () => {
  const cases: [string, () => ModelInputs, string, RegExp][] = [
    [
      "ids above the vocabulary",
      () => ({ inputIds: idTensor([[97, 264]]) }),
      "ERR_ARGUMENT",
      /inputIds.*0\.\.263.*264/,
    ],
    ["negative ids", () => ({ inputIds: idTensor([[-1]]) }), "ERR_ARGUMENT", /inputIds.*-1/],
    [
      "ids of f32",
      () => ({ inputIds: tensor([1, 2], [1, 2], "f32") }),
      "ERR_DTYPE",
      /inputIds: expected i64/,
    ],
    [
      "ids of one dimension",
      () => ({ inputIds: indexTensor([1, 2]) }),
      "ERR_SHAPE",
      /inputIds: expected \(B,T\)/,
    ],
    ["no tokens", () => ({ inputIds: tensor([], [2, 0], "i64") }), "ERR_SHAPE", /at least one token/],
    [
      "roles of another shape",
      () => ({ inputIds: ids(), roleIds: idTensor([[1, 2]]) }),
      "ERR_SHAPE",
      /roleIds/,
    ],
    [
      "unknown roles",
      () => ({ inputIds: idTensor([[1]]), roleIds: idTensor([[8]]) }),
      "ERR_ARGUMENT",
      /roleIds.*0\.\.7/,
    ],
    [
      "length 0",
      () => ({ inputIds: ids(), lengths: indexTensor([0, 3]) }),
      "ERR_ARGUMENT",
      /lengths.*1\.\.3/,
    ],
    [
      "length above T",
      () => ({ inputIds: ids(), lengths: indexTensor([3, 4]) }),
      "ERR_ARGUMENT",
      /lengths.*3 to 4/,
    ],
    [
      "too few lengths",
      () => ({ inputIds: ids(), lengths: indexTensor([3]) }),
      "ERR_SHAPE",
      /lengths: has 1/,
    ],
    [
      "lengths and cuSeqlens",
      () => ({ inputIds: ids(), lengths: indexTensor([3, 3]), cuSeqlens: indexTensor([0, 3]) }),
      "ERR_ARGUMENT",
      /not both/,
    ],
    [
      "cuSeqlens of a batch",
      () => ({ inputIds: ids(), cuSeqlens: indexTensor([0, 3]) }),
      "ERR_SHAPE",
      /\(1,T\)/,
    ],
    [
      "cuSeqlens that end early",
      () => ({ inputIds: idTensor([[1, 2, 3]]), cuSeqlens: indexTensor([0, 2]) }),
      "ERR_ARGUMENT",
      /rise from 0 to 3/,
    ],
    [
      "an empty packed sequence",
      () => ({ inputIds: idTensor([[1, 2, 3]]), cuSeqlens: indexTensor([0, 2, 2, 3]) }),
      "ERR_ARGUMENT",
      /at least one token/,
    ],
    ["a mask of i64", () => ({ inputIds: ids(), poolMask: ids() }), "ERR_DTYPE", /poolMask: expected bool/],
  ];

  it.each(cases)("%s", async (_, make, code, message) => {
    const inputs = make();
    const error = await model.forward(inputs).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code });
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message.split("\n")).toHaveLength(1);
    dispose(...(Object.values(inputs) as { dispose(): void }[]));
  });

  it("a state of another batch, of another model, or with NaN", async () => {
    const inputIds = ids();
    const output = await model.forward({ inputIds });
    const one = idTensor([[97]]);
    await expect(model.forward({ inputIds: one, state: output.state })).rejects.toMatchObject({
      code: "ERR_SHAPE",
    });
    const other = causalLM("flat");
    await expect(other.forward({ inputIds, state: output.state })).rejects.toThrow(/another geometry/);
    const tensors = output.state.tensors();
    const name = "stage1.encoder.1.attKv";
    const nan = native().Tensor.full(tensors[name]!.shape, Number.NaN, "f32");
    const poisoned = model.createState({ ...tensors, [name]: nan });
    const error = await model.forward({ inputIds, state: poisoned }).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: "ERR_NON_FINITE" });
    expect((error as Error).message).toContain(name);
    expect(() => model.createState({ [name]: nan })).toThrow(/'stage0.encoder.0.attXPrev' is missing/);
    expect(() => model.createState({ ...tensors, more: nan })).toThrow(
      /'more' is not a tensor of this model's state/,
    );
    dispose(inputIds, output, one, other, nan, poisoned, ...Object.values(tensors));
  });

  it("states and residuals of the wrong shape for the rest", async () => {
    const inputIds = ids();
    const prefix = await model.prefix({ inputIds });
    const wrong = native().Tensor.full([2, 3, 16, 8], 0, "f32");
    await expect(model.rest(prefix, { innerKv: [wrong] })).rejects.toThrow(
      /innerKv: stage 1 expected 2 tensors/,
    );
    await expect(model.rest(prefix, { innerKv: [wrong, wrong] })).rejects.toThrow(
      /innerKv: layer 0 of stage 1 expected \[2, 3, 16, 16\]/,
    );
    await expect(model.rest(prefix, { innerKv: { 0: [wrong] } })).rejects.toThrow(
      /innerKv: stage 0 has no layers between prefix and routing, expected 1 to 1/,
    );
    await expect(model.rest(prefix, { headResidual: wrong })).rejects.toThrow(/headResidual: expected/);
    dispose(inputIds, prefix, wrong);
  });

  it("a prefix of another geometry, and rows that are not there", async () => {
    const inputIds = ids();
    const other = annotator("flat");
    const theirs = await other.prefix({ inputIds });
    await expect(model.rest(theirs)).rejects.toMatchObject({
      code: "ERR_SHAPE",
      message: "prefix: belongs to a model of another geometry",
    });
    const output = await model.forward({ inputIds });
    const far = indexTensor([0, 2]);
    expect(() => output.state.selectRows(far)).toThrow(/rows: every entry must lie in 0..1; got 0 to 2/);
    expect(() => output.state.selectRows(output.logits)).toThrow(/rows: expected one dimension/);
    dispose(inputIds, other, theirs, output, far);
  });

  it("signals and lanes that are none", async () => {
    const inputIds = ids();
    const signal = {} as AbortSignal;
    await expect(model.forward({ inputIds }, { signal })).rejects.toMatchObject({ code: "ERR_ARGUMENT" });
    const make = (runtime: object) => () =>
      new AegirForColumnAnnotation({ preset: "tiny", numLabels: 2 }, runtime);
    expect(make({ lane: {} })).toThrow(/model runtime.lane: expected a Lane/);
    expect(make({ thread: 2 })).toThrow(/unknown option 'thread'; did you mean 'threads'/);
    dispose(inputIds);
  });

  it("disposed models and aborted calls", async () => {
    const inputIds = ids();
    const gone = annotator("flat");
    gone.dispose();
    expect(gone.disposed).toBe(true);
    await expect(gone.forward({ inputIds })).rejects.toMatchObject({ code: "ERR_DISPOSED" });
    const aborted = model.forward({ inputIds }, { signal: AbortSignal.abort() });
    await expect(aborted).rejects.toMatchObject({ code: "ERR_ABORTED" });
    const controller = new AbortController();
    const queued = Array.from({ length: 8 }, () =>
      model.forward({ inputIds }, { signal: controller.signal }),
    );
    controller.abort();
    const results = await Promise.allSettled(queued);
    expect(results.at(-1)).toMatchObject({ status: "rejected", reason: { code: "ERR_ABORTED" } });
    for (const result of results) if (result.status === "fulfilled") result.value.dispose();
    dispose(inputIds);
  });

  it("weights of another geometry are refused and change nothing", () => {
    const hash = model.weightsHash();
    const tensors = model.stateDict();
    const { "pooler.bias": bias, ...missing } = tensors;
    expect(() => model.loadStateDict(missing)).toThrow(/'pooler.bias' is missing/);
    const wrong = native().Tensor.full([7], 0, "f32");
    const error = (() => {
      try {
        model.loadStateDict({ ...tensors, "pooler.bias": wrong });
        return null;
      } catch (caught) {
        return caught;
      }
    })();
    expect(error).toMatchObject({ code: "ERR_CHECKPOINT" });
    expect(model.weightsHash()).toBe(hash);
    dispose(bias, wrong, ...Object.values(missing));
  });
});

describe("inputs of the data loader", () => {
  it("a batch is ids, roles, lengths and pool mask", async () => {
    const inputs = batchInput({
      size: 2,
      tokens: 3,
      ids: Int32Array.of(97, 98, 257, 49, 257, 256),
      roles: Int32Array.of(3, 3, 0, 3, 0, 0),
      pool: Uint8Array.of(1, 1, 0, 1, 0, 0),
      lengths: Int32Array.of(3, 2),
      labels: Int32Array.of(0, 1),
      rows: Int32Array.of(0, 1),
    });
    const output = await model.forward(inputs);
    expect(output.logits.shape).toEqual([2, 5]);
    expect(output.pooled.shape).toEqual([2, 32]);
    dispose(inputs, output);
  });

  it("routingHidden is the mean over the pool mask of what the encoder gives", async () => {
    const flat = new AegirForColumnAnnotation({ archLayout: ["w1"], dModel: 32, headSize: 16, numLabels: 2 });
    const inputIds = idTensor([[97, 98, 99, 97]]);
    const poolMask = tensor(Uint8Array.of(1, 0, 1, 0), [1, 4], "bool");
    const prefix = await flat.prefix({ inputIds, poolMask });
    // A flat model of one block has its embedding for a prefix.
    const weights = flat.stateDict();
    const byte = (id: number) => rowValues(weights["backbone.byteEmbedding.weight"]!, id);
    const role = rowValues(weights["backbone.roleEmbedding.weight"]!, 0);
    const expected = role.map((r, i) => r + (byte(97)[i]! + byte(99)[i]!) / 2);
    for (const [i, value] of values(prefix.routingHidden).entries())
      expect(value).toBeCloseTo(expected[i]!, 6);
    dispose(inputIds, poolMask, prefix, flat, ...Object.values(weights));
  });
});
