import { expect, test } from "vitest";
import { monitorLag } from "../../lib/train/lag.js";
import { trainSupervised } from "../../lib/train/supervised.js";
import { tinyDataset } from "./support.js";

test("the event loop stays free while training runs", async () => {
  const { model, outcome } = await trainSupervised({
    dataset: await tinyDataset(),
    model: { archLayout: ["w2"], dModel: 128 },
    serialise: { maxTokens: 96 },
    steps: 2,
    batchRows: 160,
    validationColumns: 8,
  });
  model.dispose();
  // A step takes about a second: a lag of a tenth would mean that some native work runs on the JS thread.
  expect(outcome.longestStepMs).toBeGreaterThan(300);
  expect(outcome.lag.max).toBeLessThan(outcome.longestStepMs / 10);
});

test("the monitor sees a blocked event loop", async () => {
  const lag = monitorLag();
  await new Promise((resolve) => setTimeout(resolve, 50));
  const until = performance.now() + 150;
  while (performance.now() < until);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(lag.stop().max).toBeGreaterThan(100);
});
