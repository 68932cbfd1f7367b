// Shared by the GPU suite. It runs the compiled package with Node's own test runner, so that a GPU machine needs nothing else.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { native } from "../../dist/native/load.js";

export const addon = native();
const { cuda } = addon.info();
const required = process.env.AEGIR_REQUIRE_CUDA === "1";

/** A test that needs a device: skipped with the reason where there is none, failed where AEGIR_REQUIRE_CUDA=1 asks for one. */
export function gpuTest(name, body) {
  const skip = cuda.available || required ? false : `no CUDA: ${cuda.reason}`;
  test(name, { skip }, async () => {
    assert.ok(cuda.available, `AEGIR_REQUIRE_CUDA=1, and CUDA cannot be used: ${cuda.reason}`);
    await body();
  });
}

export const lane = new addon.Lane({ name: "gpu", threads: 1 });
export const generator = new addon.Generator(20260101);
after(() => lane.close());

export const normal = (...shape) => addon.Tensor.randn(shape, "f64", generator);
export const uniform = (...shape) => addon.Tensor.rand(shape, "f64", generator);
export const i64 = (values) => addon.Tensor.fromData(Int32Array.from(values), [values.length], "i64");

export function onGpu(tensor, what) {
  assert.match(tensor.device, /^cuda:/, `${what} is on ${tensor.device}`);
}

/** |actual - expected| <= tolerance * max(1, max |expected|). */
export function close(what, actual, expected, tolerance) {
  assert.deepEqual(actual.shape, expected.shape, what);
  if (actual.numel === 0) return;
  const difference = actual.to("cpu").maxAbsDiff(expected.to("cpu"));
  const scale = Math.max(1, expected.to("cpu").to("f64").abs().max().item());
  assert.ok(difference <= tolerance * scale, `${what}: off by ${difference}, allowed ${tolerance * scale}`);
}

/** Copies that gradients can be read from: of `inputs` in `dtype` (names in `keep`: in that of the state) on `device`. */
export function leaves(inputs, dtype, device, stateNames = []) {
  const copies = {};
  for (const [name, tensor] of Object.entries(inputs)) {
    if (tensor.dtype === "i64") {
      copies[name] = tensor.to(device);
      continue;
    }
    const wanted = stateNames.includes(name) && dtype === "bf16" ? "f32" : dtype;
    copies[name] = tensor.to(wanted).to(device).clone().detach();
    copies[name].requiresGrad = true;
  }
  return copies;
}

/** Backward of sum_i <results_i, weights_i>. */
export async function backwardOf(results, weights) {
  const losses = [];
  for (const [i, result] of results.entries()) {
    const weight = weights[i].to(result.dtype).to(result.device);
    losses.push((await addon.weightedSum(lane, result, weight)).loss);
  }
  await addon.backward(
    lane,
    losses,
    losses.map(() => 1),
  );
}

/**
 * Results and gradients of an operator on the GPU against its plain reference in f64 on the CPU, from the same values, rounded to
 * `dtype` for both.
 */
export async function compareWithReference(name, inputs, { dtype, tolerance, run, stateNames = [] }) {
  const rounded = {};
  for (const [key, tensor] of Object.entries(inputs)) {
    rounded[key] =
      tensor.dtype === "i64" || (dtype === "bf16" && stateNames.includes(key)) ? tensor : tensor.to(dtype);
  }
  const expectedInputs = leaves(rounded, "f64", "cpu");
  const actualInputs = leaves(rounded, dtype, "cuda", stateNames);
  const expected = await run(expectedInputs, true);
  const actual = await run(actualInputs, false);
  const weights = expected.map((result) =>
    normal(...result.shape)
      .to(dtype)
      .to("f64"),
  );
  for (const [i, result] of actual.entries()) {
    onGpu(result, `${name} result ${i}`);
    close(`${name} result ${i}`, result, expected[i], tolerance);
  }
  await backwardOf(expected, weights);
  await backwardOf(actual, weights);
  for (const key of Object.keys(inputs)) {
    if (!actualInputs[key].requiresGrad) continue;
    onGpu(actualInputs[key].grad(), `${name} gradient of ${key}`);
    close(
      `${name} gradient of ${key}`,
      actualInputs[key].grad(),
      expectedInputs[key].grad() ?? expectedInputs[key].mul(0),
      tolerance,
    );
  }
}
