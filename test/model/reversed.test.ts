import { describe, expect, it } from "vitest";
import { AegirForCausalLM, AegirForColumnAnnotation } from "../../lib/model/index.js";
import { PlainModel, readParameters } from "./reference.js";
import { dispose, expectClose, idTensor, shake, startTensor, values } from "./support.js";

const shape = { dModel: 32, headSize: 16, numLabels: 5, dtype: "f64", channelMixRatio: 2 } as const;

function annotatorOf(archLayout: string[] | [string, [string], string], seed = 4): AegirForColumnAnnotation {
  const model = new AegirForColumnAnnotation({ ...shape, archLayout, downsample: 2 }, { seed });
  shake(model.native, seed, "f64", 0.15);
  return model;
}

async function logitsOf(model: AegirForColumnAnnotation, rows: number[][]): Promise<number[]> {
  const inputIds = idTensor([rows.flat()]);
  const cuSeqlens = startTensor(rows);
  using output = await model.forward({ inputIds, cuSeqlens });
  dispose(inputIds, cuSeqlens);
  return values(output.logits);
}

const rows = [[97, 98, 99, 100, 257], [49], [32, 97, 257]];

describe("reversed blocks", () => {
  it("read each packed sequence as forward blocks read it backwards", async () => {
    const [forward, reversed] = [annotatorOf(["w2"]), annotatorOf(["<w2"])];
    const weights = forward.stateDict();
    reversed.loadStateDict(weights);
    const backwards = rows.map((row) => row.toReversed());
    expectClose(await logitsOf(reversed, rows), await logitsOf(forward, backwards), "logits", 1e-12);
    expect(await logitsOf(reversed, rows)).not.toEqual(await logitsOf(forward, rows));
    dispose(forward, reversed, ...Object.values(weights));
  });

  it.each([[["w1<w1W1"]], [["<w1w1"]], [["w1<w1", ["<w1w1"], "<w1"] as [string, [string], string]]])(
    "%j is its equations in plain numbers",
    async (layout) => {
      const model = annotatorOf(layout);
      const tensors = model.stateDict();
      const plain = new PlainModel(readParameters(tensors), model.options);
      const ids = [104, 108, 108, 108, 111, 257, 49, 49];
      expectClose(await logitsOf(model, [ids]), plain.annotate(ids), "logits", 1e-11);
      dispose(model, ...Object.values(tensors));
    },
  );

  it("take an initial state, but continue no sequence", async () => {
    const model = annotatorOf(["w1<w1"]);
    const inputIds = idTensor([[97, 98, 99]]);
    using output = await model.forward({ inputIds });
    await expect(model.forward({ inputIds, state: output.state })).rejects.toThrow(
      /state: a model with reversed blocks reads each sequence whole and can continue none/,
    );
    // The state of a reversed block has read the whole column, as a forward block's has: swarms fuse either.
    const prefix = await model.prefix({ inputIds });
    const innerKv = output.state.innerKv();
    using fused = await model.rest(prefix, { innerKv });
    expect(values(fused.logits)).not.toEqual(values(output.logits));
    dispose(inputIds, prefix, model, ...innerKv);
  });

  it("are refused where tokens are predicted one after another", () => {
    expect(() => new AegirForCausalLM({ archLayout: ["w1<w1"], dModel: 32 })).toThrow(
      /has reversed blocks \("<"\), which read what a causal language model predicts/,
    );
  });
});
