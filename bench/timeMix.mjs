// The fused elementwise pieces of RWKV-7's mixing layers against the same in ATen operators, in one process and one run, alternating: one
// thread, forward and backward, at the sizes of the training case; and what share of its training step each takes and spares.
import { seededRandom } from "./random.mjs";
import { worstError } from "./timed.mjs";
import { makeBatch, sizes, trainNative } from "./training.mjs";

const TOLERANCE = 1e-4;
const { batch, tokens, layers, dModel, headSize } = sizes;
const rows = batch * tokens;
const matrix = [rows, dModel];
const hidden = [rows, 4 * dModel];
const vector = [dModel];

/** Operands, and how often the flat model of the training case runs it in a step. */
const pieces = [
  {
    name: "token shift + six mixes",
    operator: "tokenShiftMix",
    operands: [matrix, [6, dModel]],
    calls: layers,
  },
  {
    name: "token shift + one mix",
    operator: "tokenShiftMix",
    operands: [matrix, [1, dModel]],
    calls: layers,
  },
  { name: "decay", operator: "decayFromLogits", operands: [matrix], calls: layers },
  {
    name: "value residual",
    operator: "valueResidual",
    operands: [matrix, matrix, matrix],
    calls: layers - 1,
  },
  {
    name: "kk normalise + gates",
    operator: "keyNormalise",
    operands: [matrix, matrix, vector, vector],
    calls: layers,
  },
  {
    name: "group norm + bonus + gate",
    operator: "groupNormBonusGate",
    operands: [...Array(5).fill(matrix), [dModel / headSize, headSize], vector, vector],
    calls: layers,
  },
  { name: "relu²", operator: "squaredRelu", operands: [hidden], calls: layers },
];

const seconds = ({ start, end }) => (end - start) / 1000;

/** Seconds of forward and backward of the sum of weights times outputs, the weighting left out; outputs and gradients. */
async function differentiate(addon, lane, input, weights) {
  const leaves = input.tensors.map((tensor) => tensor.clone());
  for (const leaf of leaves) leaf.requiresGrad = true;
  const { outputs, interval } = await addon.timeMix(lane, { ...input, tensors: leaves });
  const losses = [];
  for (const [i, output] of outputs.entries())
    losses.push((await addon.weightedSum(lane, output, weights[i])).loss);
  const backward = await addon.backward(
    lane,
    losses,
    losses.map(() => 1),
  );
  const results = [...outputs, ...leaves.map((leaf) => leaf.grad())];
  const values = results.map((tensor) => tensor.detach().data());
  for (const each of [...results, ...leaves, ...losses]) each.dispose();
  return { seconds: seconds(interval) + seconds(backward.interval), values };
}

/** Of what both sides share: the weighted sums' own backward pass, one product an output. */
async function weighting(addon, lane, weights) {
  const leaves = weights.map((weight) => weight.clone());
  for (const leaf of leaves) leaf.requiresGrad = true;
  const losses = [];
  for (const [i, leaf] of leaves.entries())
    losses.push((await addon.weightedSum(lane, leaf, weights[i])).loss);
  const { interval } = await addon.backward(
    lane,
    losses,
    losses.map(() => 1),
  );
  for (const each of [...leaves, ...losses]) each.dispose();
  return seconds(interval);
}

async function measure(addon, lane, { name, operator, operands }, repeats) {
  const random = seededRandom(20260601);
  const normal = (shape) =>
    addon.Tensor.fromData(
      Float32Array.from({ length: shape.reduce((a, b) => a * b) }, random.normal),
      shape,
      "f32",
    );
  const tensors = operands.map(normal);
  const bounds = Int32Array.from({ length: batch + 1 }, (_, i) => i * tokens);
  const cuSeqlens = addon.Tensor.fromData(bounds, [batch + 1], "i64");
  const input = {
    operator,
    tensors,
    ...(operator === "tokenShiftMix" ? { cuSeqlens } : {}),
    ...(operator === "keyNormalise" ? { headSize } : {}),
  };
  const { outputs } = await addon.timeMix(lane, input);
  const weights = outputs.map(({ shape }) => normal(shape));
  const best = { fused: Infinity, aten: Infinity, shared: Infinity };
  let error = 0;
  for (let i = 0; i < repeats; i++) {
    const fused = await differentiate(addon, lane, input, weights);
    const aten = await differentiate(addon, lane, { ...input, reference: true }, weights);
    best.fused = Math.min(best.fused, fused.seconds);
    best.aten = Math.min(best.aten, aten.seconds);
    best.shared = Math.min(best.shared, await weighting(addon, lane, weights));
    error = Math.max(error, worstError(fused.values, aten.values));
  }
  for (const each of [...tensors, ...outputs, ...weights, cuSeqlens]) each.dispose();
  return { name, error, fused: best.fused - best.shared, aten: best.aten - best.shared };
}

const title = `Fused pieces of the mixing layers, ${rows} tokens, d ${dModel}, float32, forward + backward, 1 thread`;

export const timeMixCases = [
  {
    name: "time-mix",
    async run({ addon, quick }) {
      console.log(`\n${title}`);
      const step = (await trainNative(addon, 1, makeBatch(), quick ? 5 : 12, null)).seconds;
      const lane = new addon.Lane({ name: "bench", threads: 1 });
      try {
        const forms = [];
        for (const piece of pieces) {
          const { name, error, fused, aten } = await measure(addon, lane, piece, quick ? 5 : 20);
          if (!(error <= TOLERANCE)) {
            console.log(`  no figures: ${name} differs from its reference by ${error}`);
            return null;
          }
          const [share, spared] = [fused, aten - fused].map((part) => (piece.calls * part) / step);
          const percent = (part) => `${(100 * part).toFixed(1).padStart(5)} %`;
          console.log(
            `  ${name.padEnd(26)} ${(1e3 * fused).toFixed(2).padStart(6)} ms  ATen ${(1e3 * aten).toFixed(2).padStart(6)} ms ` +
              `${(aten / fused).toFixed(1).padStart(5)}x   of a step ${percent(share)}, spared ${percent(spared)}`,
          );
          forms.push({ name, seconds: fused, aten, calls: piece.calls, share, spared });
        }
        console.log(`  a training step: ${(1e3 * step).toFixed(0)} ms`);
        return { case: "time-mix", title, step, forms };
      } finally {
        await lane.close();
      }
    },
  },
];
