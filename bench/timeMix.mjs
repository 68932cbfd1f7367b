// The fused elementwise pieces of RWKV-7's mixing layers against the same in ATen operators, in one process and one run, alternating: one
// thread, forward and backward, at the sizes of the training case; and what share of its training step each takes and spares.
import { seededRandom } from "./random.mjs";
import { backwardOfSum, release, seconds, worstError } from "./timed.mjs";
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

const leavesOf = (tensors) => tensors.map((tensor) => Object.assign(tensor.clone(), { requiresGrad: true }));

/** Seconds of forward and of the backward pass of the sum of weights times outputs; outputs and gradients. */
async function differentiate(addon, lane, input, weights) {
  const leaves = leavesOf(input.tensors);
  const { outputs, interval } = await addon.timeMix(lane, { ...input, tensors: leaves });
  const backward = await backwardOfSum(addon, lane, outputs, weights);
  const results = [...outputs, ...leaves.map((leaf) => leaf.grad())];
  const values = results.map((tensor) => tensor.detach().data());
  release([...results, ...leaves]);
  return { seconds: seconds(interval) + seconds(backward), values };
}

/** Of what both sides share: the weighted sums' own backward pass, one product an output. */
async function weighting(addon, lane, weights) {
  const leaves = leavesOf(weights);
  const interval = await backwardOfSum(addon, lane, leaves, weights);
  release(leaves);
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
  release([...tensors, ...outputs, ...weights, cuSeqlens]);
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
