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
 * @returns seconds of each, and the values of the output and of the gradients of `benchCase.inputs`
 */
export async function runNative(addon, lane, benchCase, inputs, weight, options = {}) {
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
  const values = [result.output.detach(), ...benchCase.inputs.map((name) => leaves[name].grad())].map(take);
  release(leaves);
  release(result);
  return {
    forward: seconds(plain.interval),
    both: seconds(result.interval) + seconds(backward),
    values,
  };
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
