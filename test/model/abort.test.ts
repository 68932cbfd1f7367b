import { expect, it } from "vitest";
import { AegirForColumnAnnotation } from "../../lib/model/index.js";
import { memory, Tensor } from "../../lib/tensor/index.js";
import { expectRejection } from "../tensor/support.js";

it("aborting a running forward ends it at its next layer; the model stays usable", async () => {
  const before = memory().liveTensors;
  const model = new AegirForColumnAnnotation(
    { archLayout: ["w24"], dModel: 64, headSize: 32, numLabels: 3 },
    { seed: 1 },
  );
  const tokens = Tensor.zeros([16, 256], { dtype: "i64" });
  using whole = await model.forward({ inputIds: tokens });
  const duration = whole.interval.end - whole.interval.start;

  const controller = new AbortController();
  const started = performance.now();
  const running = model.forward({ inputIds: tokens }, { signal: controller.signal });
  setTimeout(() => controller.abort(), duration / 10);
  await expectRejection(running, "ERR_ABORTED", /aborted/);
  // One layer of 24 after a tenth of the whole, with room for a busy machine.
  expect(performance.now() - started).toBeLessThan(0.8 * duration);

  using again = await model.forward({ inputIds: tokens });
  expect(again.logits.equal(whole.logits)).toBe(true);
  again.dispose();
  whole.dispose();
  tokens.dispose();
  model.dispose();
  expect(memory().liveTensors).toBe(before);
});
