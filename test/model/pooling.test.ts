import { describe, expect, it } from "vitest";
import { AegirForColumnAnnotation } from "../../lib/model/index.js";
import type { NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { dispose, expectClose, idTensor, indexTensor, values } from "./support.js";

const geometry = { archLayout: ["w2"], dModel: 32, headSize: 16, numLabels: 5, dtype: "f64" } as const;
const rows = [
  [97, 98, 99, 100],
  [49, 50, 51, 52],
  [32, 97, 97, 0],
];

async function logitsOf(model: AegirForColumnAnnotation, ids: number[][], poolMask?: NativeTensor) {
  const inputIds = idTensor(ids);
  using output = await model.forward({ inputIds, poolMask });
  inputIds.dispose();
  return values(output.logits);
}

/** The weights of a model that pools by the mean, in one that pools by mean and maximum: `share` of them on the maximum. */
function meanMaxLike(
  mean: AegirForColumnAnnotation,
  share: number,
  poolNorm = false,
): AegirForColumnAnnotation {
  const both = new AegirForColumnAnnotation({ ...geometry, pooling: ["mean", "max"], poolNorm });
  const weights = mean.stateDict();
  const own = weights["pooler.weight"]!;
  const [onMean, onMax] = [own.mul(1 - share), own.mul(share)];
  const wide = native().Tensor.cat([onMean, onMax], 1);
  both.loadStateDict({ ...weights, "pooler.weight": wide });
  dispose(onMean, onMax, wide, ...Object.values(weights));
  return both;
}

describe("pooling", () => {
  const mean = new AegirForColumnAnnotation(geometry, { seed: 5 });

  it("without weight on the maximum is pooling by the mean", async () => {
    const both = meanMaxLike(mean, 0);
    expectClose(await logitsOf(both, rows), await logitsOf(mean, rows), "logits", 1e-14);
    both.dispose();
  });

  it("takes the maximum over the pooled tokens alone: of one token it is that token", async () => {
    const both = meanMaxLike(mean, 1);
    const one = native().Tensor.fromData(
      rows.flatMap(() => [0, 0, 1, 0]),
      [3, 4],
      "bool",
    );
    expectClose(await logitsOf(both, rows, one), await logitsOf(mean, rows, one), "logits", 1e-14);
    const whole = await logitsOf(both, rows);
    expect(whole).not.toEqual(await logitsOf(both, rows, one));
    dispose(one, both);
  });

  it("reads the mean of the other tokens as context, zero where there are none", async () => {
    const all = new AegirForColumnAnnotation({ ...geometry, pooling: ["mean", "context"] });
    const weights = mean.stateDict();
    const nothing = native().Tensor.full([32, 32], 0, "f64");
    const wide = native().Tensor.cat([nothing, weights["pooler.weight"]!], 1);
    all.loadStateDict({ ...weights, "pooler.weight": wide });
    const mask = (values: number[]) =>
      native().Tensor.fromData(
        rows.flatMap(() => values),
        [3, 4],
        "bool",
      );
    const [own, others] = [mask([0, 0, 1, 1]), mask([1, 1, 0, 0])];
    expectClose(await logitsOf(all, rows, own), await logitsOf(mean, rows, others), "logits", 1e-14);
    // Without a mask every token is the column's own: the pooler sees zeros.
    const unmasked = await logitsOf(all, rows);
    expectClose(unmasked.slice(0, 5), unmasked.slice(5, 10), "logits of rows", 0);
    dispose(nothing, wide, own, others, all, ...Object.values(weights));
  });

  it("normalised sees neither length nor common part of a summary", async () => {
    const seen = new AegirForColumnAnnotation({ ...geometry, poolNorm: true }, { seed: 5 });
    expect(seen.weightsHash()).toBe(mean.weightsHash());
    const weights = mean.stateDict();
    const name = "backbone.stage0.encoder.norm";
    const [gain, bias] = [weights[`${name}.gain`]!.clone(), weights[`${name}.bias`]!.clone()];
    const [long, shifted] = [gain.mul(300), bias.add(7)];
    const before = [await logitsOf(seen, rows), await logitsOf(mean, rows)] as const;
    const changed = { ...weights, [`${name}.gain`]: long, [`${name}.bias`]: shifted };
    for (const model of [seen, mean]) model.loadStateDict(changed);
    // The epsilon of the norm tells lengths apart a little.
    expectClose(await logitsOf(seen, rows), before[0], "logits", 1e-3);
    const most = Math.max(...(await logitsOf(mean, rows)).map((z, i) => Math.abs(z - before[1][i]!)));
    expect(most).toBeGreaterThan(0.1);
    for (const model of [seen, mean])
      model.loadStateDict({ ...weights, [`${name}.gain`]: gain, [`${name}.bias`]: bias });
    // Of one token the hidden vector is the output of a norm already, but for that norm's epsilon: embeddings begin small.
    const one = native().Tensor.fromData(
      rows.flatMap(() => [0, 0, 1, 0]),
      [3, 4],
      "bool",
    );
    expectClose(await logitsOf(seen, rows, one), await logitsOf(mean, rows, one), "logits", 1e-2);
    dispose(seen, gain, bias, long, shifted, one, ...Object.values(weights));
  });

  it.each([false, true])("has the gradient of finite differences, normalised: %s", async (poolNorm) => {
    const both = meanMaxLike(mean, 0.5, poolNorm);
    const labels = indexTensor([0, 3, 1]);
    const inputIds = idTensor(rows);
    const lossOf = async (grad: boolean) => {
      using output = await both.forward({ inputIds }, { grad });
      const { loss, logp } = await native().crossEntropy(both.lane, { logits: output.logits, labels });
      if (grad) await native().backward(both.lane, [loss], [1]);
      const value = loss.item();
      dispose(loss, logp);
      return value;
    };
    await lossOf(true);
    const gradients = both.native.gradients();
    const weights = both.stateDict();
    for (const [name, at] of [
      ["backbone.byteEmbedding.weight", 97 * 32 + 3],
      ["backbone.stage0.encoder.norm.gain", 7],
      ["pooler.weight", 40],
    ] as const) {
      const [analytic, flat] = [values(gradients[name]!)[at]!, values(weights[name]!)];
      const moved = async (by: number) => {
        const copy = Float64Array.from(flat);
        copy[at]! += by;
        const tensor = native().Tensor.fromData(copy, weights[name]!.shape, "f64");
        const original = weights[name]!.clone();
        both.loadStateDict({ ...weights, [name]: tensor });
        const value = await lossOf(false);
        both.loadStateDict({ ...weights, [name]: original });
        dispose(tensor, original);
        return value;
      };
      const numeric = ((await moved(1e-5)) - (await moved(-1e-5))) / 2e-5;
      expect(Math.abs(numeric - analytic), name).toBeLessThan(1e-7 * Math.max(1, Math.abs(numeric)));
    }
    dispose(labels, inputIds, both, ...Object.values(gradients), ...Object.values(weights));
  });

  it("frees its models", () => {
    mean.dispose();
  });
});
