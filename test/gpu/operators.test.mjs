// Every operator on the GPU, values and gradients, against its plain reference in f64 on the CPU.
import assert from "node:assert/strict";
import { addon, compareWithReference, gpuTest, i64, lane, leaves, normal, uniform } from "./support.mjs";

const tolerances = { f32: 2e-5, bf16: 2e-2, f64: 1e-10 }; // bf16 rounds results to 8 bits
const layouts = [
  ["full rows", { batch: 3, tokens: 37 }],
  ["one token", { batch: 2, tokens: 1 }],
  ["no token", { batch: 2, tokens: 0 }],
  ["ragged", { batch: 5, tokens: 40, lengths: [40, 0, 1, 16, 33] }],
  ["packed", { batch: 1, tokens: 60, cuSeqlens: [0, 17, 17, 18, 60] }],
];

function sequencesOf({ batch, lengths, cuSeqlens }) {
  const tensors = {};
  if (lengths) tensors.lengths = i64(lengths);
  if (cuSeqlens) tensors.cuSeqlens = i64(cuSeqlens);
  return { tensors, count: cuSeqlens ? cuSeqlens.length - 1 : batch };
}

/** kk of unit length and decay in (0.54, 1), as the model makes them. */
function wkv7Inputs(layout, heads, headSize, withState) {
  const { tensors, count } = sequencesOf(layout);
  const random = () => normal(layout.batch, layout.tokens, heads, headSize);
  const kk = random();
  const unit = kk.div(kk.mul(kk).sum(3, true).sqrt());
  const inputs = {
    r: random(),
    decay: random().sigmoid().mul(-0.6065306597126334).exp(),
    k: random(),
    v: random(),
    a: unit.neg(),
    b: unit.mul(random().sigmoid()),
    ...tensors,
  };
  if (withState) inputs.initialState = normal(count, heads, headSize, headSize);
  return inputs;
}

const wkv7Form = (chunked) => async (inputs, reference) => {
  const { output, finalState } = await addon.wkv7(lane, { ...inputs, chunked, reference });
  return [output, finalState];
};
const wkv7 = wkv7Form(false);

for (const [form, dtype, headSizes] of [
  ["recurrent", "f32", [32, 64, 128]],
  ["recurrent", "bf16", [32, 64, 128]],
  ["chunked", "bf16", [32, 64]],
]) {
  for (const [name, layout] of layouts) {
    for (const headSize of headSizes) {
      gpuTest(`wkv7 ${dtype}, ${form}, head size ${headSize}, ${name}`, async () => {
        for (const withState of [true, false]) {
          const inputs = wkv7Inputs(layout, 2, headSize, withState);
          await compareWithReference("wkv7", inputs, {
            dtype,
            tolerance: tolerances[dtype],
            run: wkv7Form(form === "chunked"),
            stateNames: ["initialState"],
          });
        }
      });
    }
  }
}

gpuTest("wkv7 bf16: the forms differ, each gives the same twice", async () => {
  const inputs = leaves(wkv7Inputs(layouts[0][1], 2, 64, true), "bf16", "cuda", ["initialState"]);
  const results = [];
  for (const chunked of [true, true, false, false]) {
    const found = await wkv7Form(chunked)(inputs, false);
    results.push(found.map((result) => result.detach().to("cpu")));
  }
  const difference = (i, j) => Math.max(...[0, 1].map((k) => results[i][k].maxAbsDiff(results[j][k])));
  assert.equal(difference(0, 1), 0);
  assert.equal(difference(2, 3), 0);
  assert.ok(difference(0, 2) > 0);
});

for (const [dtype, headSize] of [
  ["f64", 32],
  ["f32", 20],
]) {
  gpuTest(`wkv7 ${dtype}, head size ${headSize}: the reference stands in`, async () => {
    const inputs = wkv7Inputs(layouts[4][1], 2, headSize, true);
    await compareWithReference("wkv7", inputs, { dtype, tolerance: tolerances[dtype], run: wkv7 });
  });
}

async function emaScan(inputs, reference) {
  const { output, finalValue } = await addon.emaScan(lane, { ...inputs, reference });
  return [output, finalValue];
}

for (const dtype of ["f32", "bf16", "f64"]) {
  for (const [name, layout] of layouts) {
    gpuTest(`emaScan ${dtype}, ${name}`, async () => {
      for (const width of [7, 160]) {
        for (const withInitial of [true, false]) {
          const { tensors, count } = sequencesOf(layout);
          const inputs = {
            x: normal(layout.batch, layout.tokens, width),
            p: uniform(layout.batch, layout.tokens),
            ...tensors,
          };
          if (withInitial) inputs.initial = normal(count, width);
          await compareWithReference("emaScan", inputs, {
            dtype,
            tolerance: tolerances[dtype],
            run: emaScan,
          });
        }
      }
    });
  }
}

const tokens = 50;
const width = 64;
const row = () => normal(tokens, width);
const timeMixCases = {
  tokenShiftMix: () => ({
    x: row(),
    mu: uniform(6, width),
    carried: normal(3, width),
    cuSeqlens: i64([0, 20, 21, tokens]),
  }),
  decayFromLogits: () => ({ z: row() }),
  valueResidual: () => ({ value: row(), first: row(), z: row() }),
  squaredRelu: () => ({ x: row() }),
  keyNormalise: () => ({ k: row(), aLogits: row(), kK: normal(width), kA: normal(width) }),
  groupNormBonusGate: () => ({
    o: row(),
    r: row(),
    k: row(),
    v: row(),
    gate: row(),
    rK: normal(2, 32),
    gain: normal(width),
    bias: normal(width),
  }),
};

for (const [operator, makeInputs] of Object.entries(timeMixCases)) {
  gpuTest(`${operator} f32`, async () => {
    const run = async ({ carried, cuSeqlens, ...tensors }, reference) => {
      const list = Object.values(tensors);
      const input = { operator, tensors: list, carried, cuSeqlens, headSize: 32, reference };
      return (await addon.timeMix(lane, input)).outputs;
    };
    await compareWithReference(operator, makeInputs(), { dtype: "f32", tolerance: 5e-5, run });
  });
}

gpuTest("ngramEmbedding f32", async () => {
  const ids = Array.from({ length: 40 }, (_, i) => (i * i) % 7);
  const inputs = {
    table: normal(61, 16),
    ids: i64(ids),
    cuSeqlens: i64([0, 15, 16, 40]),
  };
  const run = async (given, reference) => [
    (
      await addon.ngramEmbedding(lane, {
        ...given,
        sizes: [1, 2, 4],
        lowercase: true,
        shapes: true,
        reference,
      })
    ).output,
  ];
  await compareWithReference("ngramEmbedding", inputs, { dtype: "f32", tolerance: 1e-5, run });
});
