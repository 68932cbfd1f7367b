import { afterAll, describe, expect, it } from "vitest";
import { AegirForColumnAnnotation } from "../../lib/model/index.js";
import { dispose, idTensor, values } from "./support.js";

describe("dropout", () => {
  const model = new AegirForColumnAnnotation({ archLayout: ["w2"], dModel: 32, headSize: 16, numLabels: 7 });
  const inputIds = idTensor(Array.from({ length: 6 }, (_, row) => [104, 97, 108, 108, 111, row]));
  afterAll(() => dispose(model, inputIds));

  async function logits(rate?: number, seed = 0): Promise<number[]> {
    using output = await model.forward({ inputIds }, rate === undefined ? {} : { dropout: { rate, seed } });
    return values(output.logits);
  }

  it("follows from its seed alone, and does nothing at rate 0", async () => {
    expect(await logits(0)).toEqual(await logits());
    expect(await logits(0.4, 3)).toEqual(await logits(0.4, 3));
    expect(await logits(0.4, 3)).not.toEqual(await logits(0.4, 4));
    expect(await logits(0.4, 3)).not.toEqual(await logits());
  });

  it("keeps the mean of the pooled embedding that the classifier reads", async () => {
    // The classifier is linear in what dropout leaves, and a rate this small hardly moves what is below it.
    const plain = await logits();
    const draws = 400;
    const mean = plain.map(() => 0);
    for (let seed = 0; seed < draws; seed++) {
      for (const [i, x] of (await logits(0.02, seed)).entries()) mean[i]! += x / draws;
    }
    const spread = Math.max(...plain) - Math.min(...plain);
    const worst = Math.max(...mean.map((x, i) => Math.abs(x - plain[i]!)));
    expect(worst).toBeLessThan(0.05 * spread);
  });

  it.each([-0.1, 1, Number.NaN])("refuses rate %s", async (rate) => {
    await expect(logits(rate)).rejects.toThrow(/^dropout\.rate: /);
  });
});
