import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AegirForCausalLM } from "../../lib/model/index.js";
import type { NativeState } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import golden from "../golden/ratio_loss.json" with { type: "json" };
import { annotator, causalLM, dispose, idTensor, indexTensor, rowValues } from "./support.js";

const D = 32;

/**
 * A model whose encoder adds nothing, so that a token's hidden state is its normalised embedding: three bytes 120 degrees apart in a
 * plane and one opposite to the first. Equal neighbours have p = 0, neighbours 120 degrees apart p = 3/4, opposite ones p = 1.
 */
function planar(downsample: number): AegirForCausalLM {
  const model = new AegirForCausalLM({
    archLayout: ["w1", ["w1"], "w1"],
    dModel: D,
    headSize: 16,
    dtype: "f64",
    init: "rwkv",
    downsample,
  });
  const tensors = model.stateDict();
  const table = new Float64Array(264 * D);
  // Two orthogonal directions without a mean, which LayerNorm would take away.
  const angles = { 97: 0, 98: (2 * Math.PI) / 3, 99: (4 * Math.PI) / 3, 100: Math.PI };
  for (const [byte, angle] of Object.entries(angles)) {
    for (let i = 0; i < D; i += 4) {
      const at = Number(byte) * D + i;
      table.set([Math.cos(angle), -Math.cos(angle), Math.sin(angle), -Math.sin(angle)], at);
    }
  }
  const byte = native().Tensor.fromData(table, [264, D], "f64");
  const role = native().Tensor.full([8, D], 0, "f64");
  model.loadStateDict({
    ...tensors,
    "backbone.byteEmbedding.weight": byte,
    "backbone.roleEmbedding.weight": role,
  });
  dispose(byte, role, ...Object.values(tensors));
  return model;
}

async function ratio(model: AegirForCausalLM, text: string, state?: NativeState) {
  const inputIds = idTensor([[...Buffer.from(text)]]);
  const output = await model.forward({ inputIds, state });
  const result = { loss: output.ratioLoss.item(), share: output.boundaryRates[0]! };
  dispose(inputIds, output.logits, output.ratioLoss, output.routingHidden);
  return { ...result, state: output.state };
}

describe("ratio loss", () => {
  // A text for each row (F, G, N) of the golden table; the first token of a sequence has p = 1.
  const texts: Record<string, { text: string; after?: string }> = {
    "0.25,0.25,4": { text: "aaaa" },
    "1,1,4": { text: "adad" },
    "0,0,4": { text: "aaaa", after: "a" },
    "0.5,0.4,4": { text: "abcabbbbbb" },
    "0.5,0.5,2": { text: "aadd" },
  };

  it.each(golden.rows)("F = $F, G = $G, N = $N gives $loss", async ({ F, G, N, loss }) => {
    const model = planar(N);
    const { text, after } = texts[[F, G, N].join()]!;
    const before = after === undefined ? undefined : await ratio(model, after);
    const result = await ratio(model, text, before?.state);
    expect(result.share).toBe(F);
    expect(result.loss).toBeCloseTo(loss, 6);
    dispose(before?.state, result.state, model);
  });
});

describe("boundaries", () => {
  const model = causalLM("chunked");
  afterAll(() => model.dispose());

  it("the first token of a sequence is one, of a continued sequence only where its text says so", async () => {
    const planarModel = planar(4);
    const first = await ratio(planarModel, "a");
    expect(first.share).toBe(1);
    const same = await ratio(planarModel, "a", first.state);
    expect(same.share).toBe(0);
    const other = await ratio(planarModel, "d", first.state);
    expect(other.share).toBe(1);
    dispose(first.state, same.state, other.state, planarModel);
  });

  it("shares count valid tokens only", async () => {
    const ids = [[97, 98, 98, 98, 98], [97]];
    const inputIds = idTensor(ids);
    const lengths = indexTensor([5, 1]);
    const both = await model.forward({ inputIds, lengths });
    let boundaries = 0;
    for (const row of ids) {
      const one = idTensor([row]);
      const output = await model.forward({ inputIds: one });
      boundaries += output.boundaryRates[0]! * row.length;
      dispose(one, output);
    }
    expect(both.boundaryRates[0]).toBeCloseTo(boundaries / 6, 12);
    dispose(inputIds, lengths, both);
  });
});

describe.each(["flat", "chunked", "nested"] as const)("prefix and rest, %s", (geometry) => {
  const model = annotator(geometry);
  const inputs = {
    inputIds: idTensor([
      [97, 98, 99, 100, 97],
      [49, 50],
      [200, 97, 32, 32],
    ]),
    lengths: indexTensor([5, 2, 4]),
  };
  afterAll(() => dispose(model, inputs.inputIds, inputs.lengths));
  let logits: number[][];
  beforeAll(async () => {
    const output = await model.forward(inputs);
    logits = [0, 1, 2].map((row) => rowValues(output.logits, row));
    output.dispose();
  });

  it("rest(prefix(x)) is forward(x) bit for bit, as often as wanted", async () => {
    const prefix = await model.prefix(inputs);
    for (let i = 0; i < 2; i++) {
      const output = await model.rest(prefix);
      expect([0, 1, 2].map((row) => rowValues(output.logits, row))).toEqual(logits);
      output.dispose();
    }
    expect(prefix.rows).toBe(3);
    prefix.dispose();
  });

  it("chosen rows give their own results, repeats included", async () => {
    const prefix = await model.prefix(inputs);
    const rows = indexTensor([2, 0, 2, 1, 1]);
    const chosen = await model.selectRows(prefix, rows);
    expect(chosen.rows).toBe(5);
    const output = await model.rest(chosen);
    for (const [i, row] of [2, 0, 2, 1, 1].entries()) {
      const expected = logits[row]!;
      // Another batch size may take another path through the matrix products.
      for (const [j, value] of rowValues(output.logits, i).entries())
        expect(value).toBeCloseTo(expected[j]!, 5);
    }
    dispose(prefix, rows, chosen, output);
  });

  it("zero states in place of none change nothing; other states change the result", async () => {
    const { layers, heads, headSize } = model.geometry.inner;
    const prefix = await model.prefix(inputs);
    const shape = [3, heads, headSize, headSize];
    const zeros = Array.from({ length: layers }, () => native().Tensor.full(shape, 0, "f32"));
    const same = await model.rest(prefix, { innerKv: zeros });
    expect(rowValues(same.logits, 1)).toEqual(logits[1]);
    const ones = Array.from({ length: layers }, () => native().Tensor.full(shape, 0.5, "f32"));
    const other = await model.rest(prefix, { innerKv: ones });
    expect(rowValues(other.logits, 1)).not.toEqual(logits[1]);
    const final = other.state.innerKv();
    expect(final.map((kv) => kv.shape)).toEqual(zeros.map(() => shape));
    dispose(prefix, same, other, ...zeros, ...ones, ...final);
  });

  it("states by stage stand for those of the initial state, bit for bit", async () => {
    const before = await model.forward(inputs);
    const tensors = before.state.tensors();
    const innermost = model.geometry.stages - 1;
    const skipped = innermost === 0 ? 1 : 0;
    const prefix = await model.prefix({ ...inputs, state: before.state });
    const same = await model.rest(prefix);
    for (let stage = Math.min(1, innermost); stage <= innermost; stage++) {
      const kv = before.state.innerKv(stage);
      expect(kv.length).toBe(model.geometry.encoders[stage]!.layers);
      const others = kv.map((layer) => layer.mul(-3));
      const named = others.map((layer, i) => [`stage${stage}.encoder.${skipped + i}.attKv`, layer]);
      const state = model.createState({ ...tensors, ...Object.fromEntries(named) });
      const expected = await model.forward({ ...inputs, state });
      const output = await model.rest(prefix, { innerKv: { [stage]: others } });
      expect(output.logits.equal(expected.logits)).toBe(true);
      const [final, plain] = [output.state.innerKv(stage), same.state.innerKv(stage)];
      expect(final.map((layer, i) => layer.equal(plain[i]!))).toEqual(kv.map(() => false));
      dispose(...kv, ...others, ...final, ...plain, state, expected, output);
    }
    dispose(before, prefix, same, ...Object.values(tensors));
  });

  it("a head residual enters before the classifier", async () => {
    const prefix = await model.prefix(inputs);
    const residual = native().Tensor.full([3, model.geometry.dModel], 0.25, "f32");
    const output = await model.rest(prefix, { headResidual: residual });
    const parameters = model.stateDict();
    const transposed = parameters["classifier.weight"]!.transpose(0, 1);
    const added = residual.matmul(transposed);
    for (const [i, value] of rowValues(output.logits, 0).entries()) {
      expect(value).toBeCloseTo(logits[0]![i]! + rowValues(added, 0)[i]!, 5);
    }
    dispose(prefix, residual, output, transposed, added, ...Object.values(parameters));
  });
});
