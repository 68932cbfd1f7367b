// Streams, graphs, memory and bf16 on a GPU: what holds, not how fast (measure.mjs).
import assert from "node:assert/strict";
import { AdamW, AegirForColumnAnnotation, Lane, memory, resetPeakMemory, Tensor } from "../../dist/index.js";
import { addon, close, gpuTest, i64, lane } from "./support.mjs";

const geometry = { archLayout: ["w3"], dModel: 128, headSize: 64, numLabels: 4 };
const tokens = 96;
const inputsOf = (lengths, start = 0) => ({
  inputIds: addon.Tensor.fromData(
    Int32Array.from({ length: lengths.length * tokens }, (_, i) => ((start + i) * 7919) % 256),
    [lengths.length, tokens],
    "i64",
  ),
  lengths: i64(lengths),
});
const inputs = inputsOf([96, 3, 50, 96, 1, 70]);

gpuTest("models on eight lanes give what they give alone, round after round", async () => {
  const models = Array.from(
    { length: 8 },
    (_, seed) => new AegirForColumnAnnotation(geometry, { seed, device: "cuda" }),
  );
  const alone = [];
  for (const model of models) alone.push((await model.forward(inputs)).logits.to("cpu"));
  for (let round = 0; round < 30; round++) {
    const outputs = await Promise.all(models.map((model) => model.forward(inputs)));
    // Memory that one lane frees is at once another's: what is still read must not be written.
    const sums = outputs.map(({ logits, pooled }) => [logits.add(0), pooled.add(0)]);
    for (const output of outputs) output.dispose();
    const more = await Promise.all(models.map((model) => model.forward(inputs)));
    for (const [i, [logits]] of sums.entries()) {
      close(`round ${round}, model ${i}`, logits, alone[i], 1e-5);
      close(`round ${round}, model ${i} again`, more[i].logits, alone[i], 1e-5);
    }
    for (const one of [...more, ...sums.flat()]) one.dispose();
  }
  for (const model of models) model.dispose();
});

gpuTest("a result of one lane is read on another, and on the JS thread, without waiting", async () => {
  const other = new Lane({ name: "other" });
  for (let i = 0; i < 50; i++) {
    const x = addon.Tensor.full([512, 512], i + 1, "f32").to("cuda");
    const ones = addon.Tensor.full([512, 512], 1, "f32").to("cuda");
    const { loss } = await addon.weightedSum(lane, x.matmul(ones), ones);
    const again = await addon.weightedSum(other.native, loss.reshape([1]), addon.Tensor.full([1], 2, "f32"));
    assert.equal(again.loss.item(), 2 * (i + 1) * 512 ** 3);
    for (const one of [x, ones, loss, again.loss]) one.dispose();
  }
  await other.close();
});

gpuTest("intervals are of the device and in the order of their lane", async () => {
  const model = new AegirForColumnAnnotation(geometry, { seed: 1, device: "cuda" });
  const before = performance.now();
  const outputs = await Promise.all([model.forward(inputs), model.forward(inputs)]);
  await model.lane.drain();
  const [first, second] = outputs.map(({ interval: { start, end } }) => ({ start, end }));
  assert.ok(first.start < first.end && first.end <= second.start + 0.01 && second.start < second.end);
  assert.ok(first.start > before - 5 && second.end < performance.now() + 5);
  model.dispose();
});

gpuTest("a frozen flat model replays graphs with new inputs", async () => {
  const eager = new AegirForColumnAnnotation(geometry, { seed: 4, device: "cuda" });
  const graphed = new AegirForColumnAnnotation(geometry, { seed: 4, device: "cuda" });
  eager.freeze();
  graphed.freeze({ graphs: true });
  const kept = [];
  for (let i = 0; i < 12; i++) {
    const given = inputsOf([96, 3 + i, 50, 96, 12 - i, 70], i);
    kept.push({ given, output: await graphed.forward(given) });
  }
  for (const [i, { given, output }] of kept.entries()) {
    const expected = await eager.forward(given);
    for (const name of ["logits", "pooled", "routingHidden"]) {
      close(`forward ${i} ${name}`, output[name], expected[name], 1e-5);
    }
    const states = expected.state.tensors();
    for (const [name, tensor] of Object.entries(output.state.tensors()))
      close(name, tensor, states[name], 1e-5);
  }
  const { captures, replays, reason } = graphed.graphs;
  assert.ok(captures >= 1 && replays >= 8, `captures ${captures}, replays ${replays}: ${reason}`);
  for (const model of [eager, graphed]) model.dispose();
});

gpuTest("out of memory is an error with sizes, and work goes on", async () => {
  const model = new AegirForColumnAnnotation(geometry, { seed: 4, device: "cuda" });
  const before = await model.forward(inputs);
  const { totalBytes } = memory().devices[0];
  const half = Math.ceil(totalBytes / 4 / 2 / 65_536);
  const row = Tensor.zeros([1, 65_536]).to("cuda");
  const column = Tensor.zeros([half, 1]).to("cuda");
  const held = [];
  assert.throws(
    () => {
      for (let i = 0; i < 4; i++) held.push(column.matmul(row));
    },
    (error) => error.code === "ERR_OUT_OF_MEMORY" && /\d+(\.\d+)? (GiB|MiB)/.test(error.message),
  );
  for (const one of [...held, row, column]) one.dispose();
  close("logits", (await model.forward(inputs)).logits, before.logits, 1e-6);
  model.dispose();
});

gpuTest("memory is counted by device, with peaks", () => {
  addon.emptyCache();
  resetPeakMemory();
  const start = memory().devices[0];
  assert.equal(start.device, "cuda:0");
  const bytes = 64 * 2 ** 20;
  const tensor = Tensor.zeros([bytes / 4]).to("cuda");
  const held = memory().devices[0];
  assert.ok(held.allocatedBytes - start.allocatedBytes >= bytes);
  assert.ok(held.totalBytes > 2 ** 30 && held.reservedBytes >= held.allocatedBytes);
  tensor.dispose();
  const after = memory().devices[0];
  assert.ok(after.peakAllocatedBytes - start.allocatedBytes >= bytes);
  assert.ok(after.allocatedBytes < held.allocatedBytes);
});

gpuTest("bf16 products train as f32 ones do, with f32 gradients", async () => {
  const losses = {};
  for (const precision of ["f32", "bf16"]) {
    const model = new AegirForColumnAnnotation({ ...geometry, precision }, { seed: 3, device: "cuda" });
    const optimizer = new AdamW([{ module: model.native }]);
    const labels = i64([0, 1, 2, 3, 0, 1]);
    losses[precision] = [];
    for (let step = 0; step < 30; step++) {
      const output = await model.forward(inputs, { grad: true });
      const { loss } = await addon.crossEntropy(model.lane, { logits: output.logits, labels });
      await addon.backward(model.lane, [loss], [1]);
      if (step === 0) {
        for (const [name, gradient] of Object.entries(model.native.gradients())) {
          assert.equal(gradient.dtype, "f32", name);
        }
      }
      await optimizer.step(model.lane, { lr: 2e-3, clipNorm: 1 });
      losses[precision].push(loss.item());
      output.dispose();
    }
    optimizer.dispose();
    model.dispose();
  }
  const mean = (list) => list.reduce((sum, loss) => sum + loss, 0) / list.length;
  const difference = Math.abs(mean(losses.bf16.slice(10)) - mean(losses.f32.slice(10)));
  assert.ok(difference < 0.1, `means of the last 20 losses differ by ${difference}`);
});
