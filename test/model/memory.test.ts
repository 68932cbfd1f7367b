import { describe, expect, it } from "vitest";
import { runChild } from "../tensor/children.js";

/** Resident megabytes after 100 and after 20,000 forwards, live tensors before the first and after the last. */
async function growth(
  forward: string,
): Promise<{ early: number; late: number; before: number; after: number }> {
  const { stdout, stderr, code } = await runChild(`
    const { AegirForColumnAnnotation, Tensor, tidy, memory } = aegir;
    const model = new AegirForColumnAnnotation(
      { archLayout: ["w1", ["w1"], "w1"], dModel: [16, 16], headSize: 16, numLabels: 4 },
      { seed: 1 },
    );
    const resident = () => process.memoryUsage().rss / 2 ** 20;
    const inputIds = Tensor.from(Int32Array.from({ length: 24 }, (_, i) => i * 7), { shape: [2, 12] });
    const before = memory().liveTensors;
    const forward = ${forward};
    let early = 0;
    for (let i = 0; i < 20_000; i++) {
      await forward();
      if (i === 99) early = resident();
    }
    console.log(JSON.stringify({ early, late: resident(), before, after: memory().liveTensors }));
  `);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout);
}

describe("20,000 forwards keep resident memory within 50 MB of the first hundred", () => {
  it.each([
    ["with dispose", "async () => { (await model.forward({ inputIds })).dispose(); }"],
    ["with tidy", "() => tidy(async () => { await model.forward({ inputIds }); })"],
  ])("%s", { timeout: 300_000 }, async (_name, forward) => {
    const { early, late, before, after } = await growth(forward);
    expect(after).toBe(before);
    expect(late - early).toBeLessThan(50);
  });
});
