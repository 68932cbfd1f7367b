// One run of an operator of the addon, timed on its lane, and how far two runs' results are apart.

export const seconds = ({ start, end }) => (end - start) / 1000;

export function release(record) {
  for (const value of Object.values(record)) value.dispose?.();
}

/** The values of a tensor that is freed, bf16 as f32. */
function take(tensor) {
  const real = tensor.dtype === "bf16" ? tensor.to("f32") : tensor;
  const values = real.data();
  for (const each of new Set([real, tensor])) each.dispose();
  return values;
}

/** The backward pass of the sum of `weights` times `outputs`: its interval. */
export async function backwardOfSum(addon, lane, outputs, weights) {
  const losses = [];
  for (const [i, output] of outputs.entries())
    losses.push((await addon.weightedSum(lane, output, weights[i])).loss);
  const ones = losses.map(() => 1);
  const { interval } = await addon.backward(lane, losses, ones);
  release(losses);
  return interval;
}

/**
 * One forward without gradients and one forward + backward of the sum of `weight` times the output.
 * @returns seconds of each, and what `read` makes of the output and of the gradients of `benchCase.inputs`
 */
async function runOnce(addon, lane, benchCase, inputs, weight, options, read) {
  const operator = (given) => addon[benchCase.operator](lane, { ...given, ...options });
  const plain = await operator(inputs);
  release(plain);
  const leaves = {};
  for (const [name, tensor] of Object.entries(inputs)) {
    leaves[name] = tensor.clone();
    if (benchCase.inputs.includes(name)) leaves[name].requiresGrad = true;
  }
  const result = await operator(leaves);
  const backward = await backwardOfSum(addon, lane, [result.output], [weight]);
  const values = [result.output.detach(), ...benchCase.inputs.map((name) => leaves[name].grad())].map(read);
  release(leaves);
  release(result);
  return {
    forward: seconds(plain.interval),
    both: seconds(result.interval) + seconds(backward),
    values,
  };
}

/** A run, and the values of its output and gradients. */
export const runNative = (addon, lane, benchCase, inputs, weight, options = {}) =>
  runOnce(addon, lane, benchCase, inputs, weight, options, take);

/**
 * The fastest of `repeats` runs. None of their values is read, as none is in PyTorch's loops: copies of them to JavaScript would
 * put the operator's own memory out of the caches.
 */
export async function timeNative(addon, lane, benchCase, inputs, weight, repeats, options = {}) {
  const best = { forward: Infinity, both: Infinity };
  for (let i = 0; i < repeats; i++) {
    const run = await runOnce(addon, lane, benchCase, inputs, weight, options, (tensor) => tensor.dispose());
    best.forward = Math.min(best.forward, run.forward);
    best.both = Math.min(best.both, run.both);
  }
  return best;
}

/** Largest |actual - expected| over the largest |expected|, of all results. */
export function worstError(actual, expected) {
  let worst = 0;
  for (const [i, values] of expected.entries()) {
    let error = 0;
    let scale = 0;
    for (let j = 0; j < values.length; j++) {
      error = Math.max(error, Math.abs(values[j] - actual[i][j]));
      scale = Math.max(scale, Math.abs(values[j]));
      if (Number.isNaN(actual[i][j])) return Number.NaN;
    }
    worst = Math.max(worst, error / scale);
  }
  return worst;
}
