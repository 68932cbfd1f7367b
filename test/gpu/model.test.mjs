// Whole models on the GPU against the same models on the CPU: one seed makes both.
import assert from "node:assert/strict";
import { AdamW, AegirForColumnAnnotation } from "../../dist/index.js";
import { addon, close, gpuTest, i64, onGpu } from "./support.mjs";

const geometries = {
  flat: { archLayout: ["w2"], dModel: 64, headSize: 32 },
  chunked: { archLayout: ["w1", ["w1W1"], "w1"], dModel: [64, 128], headSize: 64, downsample: 2 },
  ngrams: {
    archLayout: ["w1", ["w1"], "w1"],
    dModel: 64,
    headSize: 32,
    downsample: 2,
    ngrams: { sizes: [1, 3, 4], buckets: 61, width: 8 },
  },
};
const rows = ["Berlin", "Paris", "12.50", "99.95", "2024-01-02", "1999-12-31", "+49 30 1234", "+33 1 999"];
const labels = i64([0, 0, 1, 1, 2, 2, 3, 3]);
const bytes = rows.map((text) => [...Buffer.from(text)]);
const longest = Math.max(...bytes.map((row) => row.length));
const padded = bytes.flatMap((row) => [...row, ...Array(longest - row.length).fill(0)]);
const inputs = {
  inputIds: addon.Tensor.fromData(Int32Array.from(padded), [rows.length, longest], "i64"),
  lengths: i64(bytes.map((row) => row.length)),
};

function makeModels(geometry) {
  const make = (device) =>
    new AegirForColumnAnnotation({ ...geometries[geometry], numLabels: 4 }, { seed: 3, device });
  return { cpu: make("cpu"), gpu: make("cuda") };
}

async function lossOf(model) {
  const output = await model.forward(inputs, { grad: true });
  const { loss } = await addon.crossEntropy(model.lane, { logits: output.logits, labels });
  await addon.backward(model.lane, [loss, output.ratioLoss], [1, 0.03]);
  return { loss: loss.item(), output };
}

for (const geometry of Object.keys(geometries)) {
  gpuTest(`outputs, state and gradients of a model, ${geometry}`, async () => {
    const { cpu, gpu } = makeModels(geometry);
    assert.match(gpu.device, /^cuda:/);
    const expected = await lossOf(cpu);
    const actual = await lossOf(gpu);
    onGpu(actual.output.logits, "logits");
    for (const name of ["logits", "pooled", "routingHidden"]) {
      close(name, actual.output[name], expected.output[name], 1e-4);
    }
    const states = expected.output.state.tensors();
    for (const [name, tensor] of Object.entries(actual.output.state.tensors())) {
      close(name, tensor, states[name], 1e-4);
    }
    const gradients = cpu.native.gradients();
    for (const [name, gradient] of Object.entries(gpu.native.gradients())) {
      close(`gradient of ${name}`, gradient, gradients[name], 1e-3);
    }
    for (const model of [cpu, gpu]) model.dispose();
  });

  gpuTest(`a state continues a sequence, ${geometry}`, async () => {
    const { cpu, gpu } = makeModels(geometry);
    const first = await gpu.forward(inputs);
    const expected = await cpu.forward({ ...inputs, state: (await cpu.forward(inputs)).state });
    close("logits", (await gpu.forward({ ...inputs, state: first.state })).logits, expected.logits, 1e-3);
    const copied = {};
    for (const [name, tensor] of Object.entries(first.state.tensors())) copied[name] = tensor.to("cpu");
    const fromCpu = await gpu.forward({ ...inputs, state: gpu.createState(copied) });
    close("logits from a state of the CPU", fromCpu.logits, expected.logits, 1e-3);
    for (const model of [cpu, gpu]) model.dispose();
  });

  gpuTest(`30 steps of training bring the loss near zero, ${geometry}`, async () => {
    const { cpu, gpu } = makeModels(geometry);
    const losses = [];
    const optimizer = new AdamW([{ module: gpu.native }]);
    for (let step = 0; step < 30; step++) {
      losses.push((await lossOf(gpu)).loss);
      const { skipped } = await optimizer.step(gpu.lane, { lr: 5e-3, clipNorm: 1 });
      assert.equal(skipped, false);
    }
    assert.ok(losses[0] > 1 && losses.at(-1) < 0.2, `losses ${losses.map((loss) => loss.toFixed(3))}`);
    assert.equal(gpu.weightsHash() === cpu.weightsHash(), false);
    for (const model of [cpu, gpu]) model.dispose();
  });
}

gpuTest("tensors move there and back", async () => {
  const tensor = addon.Tensor.fromData(Float32Array.from([1, 2, 3]), [3], "f32");
  const there = tensor.to("cuda");
  onGpu(there, "the copy");
  assert.deepEqual(there.add(there).toArray(), [2, 4, 6]);
  assert.equal(there.to("cpu").equal(tensor), true);
  assert.throws(() => tensor.to("cuda:99"), { code: "ERR_DEVICE" });
});
