// Measures on a GPU what docs/gpu.md lists, and prints one table and .gpu/measured.json. A figure is printed only where its
// comparison passed. Times are of the device, between events; each is the least of several runs.
import assert from "node:assert/strict";
import * as fs from "node:fs";
import { AdamW, AegirForColumnAnnotation, memory, resetPeakMemory } from "../../dist/index.js";
import { addon, close, i64, lane } from "./support.mjs";

const { cuda } = addon.info();
if (!cuda.available) {
  console.log(`not measured: ${cuda.reason}`);
  process.exit(process.env.AEGIR_REQUIRE_CUDA === "1" ? 1 : 0);
}

const figures = [];
function print(what, value, unit, compared) {
  figures.push({ what, value, unit, compared });
  console.log(`${what.padEnd(66)} ${value.toFixed(3).padStart(10)} ${unit.padEnd(9)} ${compared}`);
}
console.log(`card: ${cuda.devices[0]}, torch ${addon.info().torchBuilt}`);

/** Milliseconds of the device from the first start to the last end, the sum of the parts and the union of the busy time. */
function spanOf(intervals) {
  const sorted = intervals.map(({ start, end }) => [start, end]).sort(([a], [b]) => a - b);
  let union = 0;
  let reached = Number.NEGATIVE_INFINITY;
  for (const [start, end] of sorted) {
    union += Math.max(0, end - Math.max(start, reached));
    reached = Math.max(reached, end);
  }
  const work = sorted.reduce((sum, [start, end]) => sum + end - start, 0);
  return { wall: reached - sorted[0][0], work, union };
}

async function least(times, run) {
  let best;
  for (let i = 0; i < times; i++) {
    const found = await run();
    if (!best || found.wall < best.wall) best = found;
  }
  return best;
}

const batch = 8;
const tokens = 512;
const ids = Int32Array.from({ length: batch * tokens }, (_, i) => (i * 7919) % 256);
const inputs = { inputIds: addon.Tensor.fromData(ids, [batch, tokens], "i64") };
const geometry = { archLayout: ["w4"], dModel: 256, headSize: 64, numLabels: 8 };
const specialists = Array.from({ length: 8 }, (_, seed) => {
  const model = new AegirForColumnAnnotation(geometry, { seed, device: "cuda", name: `s${seed}` });
  model.freeze();
  return model;
});

function release(outputs) {
  for (const output of outputs) output.dispose();
}

/** k specialists on their own streams against the same one after the other. */
async function overlap(models, label, frozen = models) {
  const serialOutputs = [];
  for (const model of frozen) serialOutputs.push(await model.forward(inputs));
  let one;
  for (const k of [1, 2, 4, 8]) {
    const chosen = models.slice(0, k);
    const together = async () => {
      const outputs = await Promise.all(chosen.map((model) => model.forward(inputs)));
      await Promise.all(chosen.map((model) => model.lane.drain()));
      const span = spanOf(outputs.map(({ interval }) => interval));
      for (const [i, output] of outputs.entries())
        close("logits", output.logits, serialOutputs[i].logits, 1e-4);
      release(outputs);
      return span;
    };
    const serially = async () => {
      const intervals = [];
      for (const model of chosen) {
        const output = await model.forward(inputs);
        await model.lane.drain();
        intervals.push({ start: output.interval.start, end: output.interval.end });
        output.dispose();
      }
      return spanOf(intervals);
    };
    for (let i = 0; i < 3; i++) await together();
    const streams = await least(7, together);
    const serial = await least(5, serially);
    one ??= streams;
    print(`${label}, k = ${k}: streams, wall`, streams.wall, "ms", "logits equal serial's");
    print(
      `${label}, k = ${k}: streams, wall over one specialist's`,
      streams.wall / one.wall,
      "x",
      "wanted <= 1.25",
    );
    print(
      `${label}, k = ${k}: streams, mean concurrency`,
      streams.work / streams.union,
      "",
      "sum / union of intervals",
    );
    print(`${label}, k = ${k}: serial, wall`, serial.wall, "ms", "");
  }
  release(serialOutputs);
}

async function graphs() {
  const captured = specialists.map((_, seed) => {
    const model = new AegirForColumnAnnotation(geometry, { seed, device: "cuda", name: `g${seed}` });
    model.freeze({ graphs: true });
    return model;
  });
  await overlap(captured, "graphs", specialists);
  for (const { graphs: report } of captured)
    assert.ok(report.replays > 0, `no graph replayed: ${report.reason}`);
  for (const model of captured) model.dispose();
}

/** Forward and backward of WKV-7 at the size of the public figures: batch 8, 64 heads, T 4096, N 64. */
async function wkv7(dtype, chunked) {
  const shape = [8, 4096, 64, 64];
  const bytes = dtype === "bf16" ? 2 : 4;
  const generator = new addon.Generator(1);
  const leaf = (make) => {
    const row = make(addon.Tensor.randn([1, ...shape.slice(1)], "f32", generator).to("cuda"));
    const tensor = addon.Tensor.cat(Array(shape[0]).fill(row), 0).to(dtype).detach();
    row.dispose();
    tensor.requiresGrad = true;
    return tensor;
  };
  const unit = (x) => x.div(x.mul(x).sum(3, true).sqrt());
  const input = {
    r: leaf((x) => x),
    decay: leaf((x) => x.sigmoid().mul(-0.6065306597126334).exp()),
    k: leaf((x) => x.mul(0.1)),
    v: leaf((x) => x),
    a: leaf((x) => unit(x).neg()),
    b: leaf((x) => unit(x).mul(0.5)),
  };
  const ones = addon.Tensor.full(shape, 1, dtype).to("cuda");
  const stateOf = async (form) => {
    const { output, finalState } = await addon.wkv7(lane, { ...input, chunked: form });
    const state = finalState.detach().to("cpu");
    for (const tensor of [output, finalState]) tensor.dispose();
    return state;
  };
  if (chunked) close("state after 4096 tokens", await stateOf(true), await stateOf(false), 2e-2);
  resetPeakMemory();
  const once = async () => {
    const forward = await addon.wkv7(lane, { ...input, chunked });
    const { loss } = await addon.weightedSum(lane, forward.output, ones);
    const back = await addon.backward(lane, [loss], [1]);
    await lane.drain();
    const times = [forward, back].map(({ interval }) => interval.end - interval.start);
    for (const tensor of [forward.output, forward.finalState, loss]) tensor.dispose();
    return { wall: times[0] + times[1], forward: times[0], backward: times[1] };
  };
  await once();
  const { wall, forward, backward } = await least(5, once);
  const elements = shape.reduce((product, n) => product * n);
  const label = `wkv7 ${dtype} ${chunked ? "chunked" : "recurrent"}, B 8, T 4096, 64 heads of 64`;
  const compared = chunked ? "operators.test.mjs; state is the recurrent form's" : "operators.test.mjs";
  print(`${label}: forward`, forward, "ms", compared);
  print(`${label}: backward, with the loss's own`, backward, "ms", "");
  print(`${label}: forward and backward`, wall, "ms", dtype === "bf16" ? "public: 8" : "public: 17");
  print(
    `${label}: of the inputs and outputs, a second`,
    (elements * 14 * bytes) / wall / 1e9,
    "TB/s",
    "6 in, 1 out, 7 back",
  );
  print(`${label}: peak memory`, memory().devices[0].peakAllocatedBytes / 2 ** 30, "GiB", "");
  for (const tensor of [...Object.values(input), ones]) tensor.dispose();
  addon.emptyCache();
}

/** A training step of the same geometry, both precisions, and their losses after 30 steps. */
async function training() {
  const labels = i64(Array.from({ length: batch }, (_, row) => row % geometry.numLabels));
  const last = {};
  for (const precision of ["f32", "bf16"]) {
    const model = new AegirForColumnAnnotation({ ...geometry, precision }, { seed: 1, device: "cuda" });
    const optimizer = new AdamW([{ module: model.native }]);
    let best = Number.POSITIVE_INFINITY;
    resetPeakMemory();
    for (let step = 0; step < 30; step++) {
      const output = await model.forward(inputs, { grad: true });
      const { loss, logp } = await addon.crossEntropy(model.lane, { logits: output.logits, labels });
      await addon.backward(model.lane, [loss], [1]);
      const { interval } = await optimizer.step(model.lane, { lr: 2e-3, clipNorm: 1 });
      await model.lane.drain();
      best = Math.min(best, interval.end - output.interval.start);
      last[precision] = loss.item();
      for (const one of [output, loss, logp]) one.dispose();
    }
    print(
      `training step ${precision}, d 256, 4 layers, B 8, T 512`,
      best,
      "ms",
      `loss ${last[precision].toFixed(4)}`,
    );
    print(`training ${precision}: peak memory`, memory().devices[0].peakAllocatedBytes / 2 ** 20, "MiB", "");
    optimizer.dispose();
    model.dispose();
  }
  assert.ok(Math.abs(last.bf16 - last.f32) < 0.1, `losses after 30 steps: ${JSON.stringify(last)}`);
}

await overlap(specialists, "specialists");
await graphs();
await training();
await wkv7("f32", false);
for (const chunked of [false, true]) await wkv7("bf16", chunked);
fs.mkdirSync(".gpu", { recursive: true });
fs.writeFileSync(
  ".gpu/measured.json",
  `${JSON.stringify({ card: cuda.devices[0], torch: addon.info().torchBuilt, figures }, null, 2)}\n`,
);
for (const model of specialists) model.dispose();
await lane.close();
