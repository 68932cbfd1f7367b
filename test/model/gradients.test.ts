import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AegirForCausalLM } from "../../lib/model/index.js";
import type { NativeGenerator, NativeState, NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { causalLM, dispose, type Geometry, geometries, idTensor, indexTensor, values } from "./support.js";

/** Central differences in f64: the truncation error is of order h^2, the rounding error of order 1e-16 / h. */
const STEP = 1e-5;
const RELATIVE = 1e-6;
const rows = [[104, 101, 108, 108, 111, 32, 257], [49, 57, 57, 57], [200]];

const tensors: { dispose(): void }[] = [];
let generator: NativeGenerator;
beforeAll(() => {
  generator = new (native().Generator)(11);
});
afterAll(() => dispose(generator, ...tensors));

function keep<T extends { dispose(): void }>(tensor: T): T {
  tensors.push(tensor);
  return tensor;
}

/** A scalar of the model's outputs and final state that weighs every one of their values. */
async function objective(
  model: AegirForCausalLM,
  weights: Map<string, NativeTensor>,
  grad: boolean,
  state?: NativeState,
): Promise<NativeTensor> {
  const inputIds = idTensor(rows);
  const lengths = indexTensor(rows.map((row) => row.length));
  const output = await model.forward({ inputIds, lengths, state }, { grad });
  const parts: Record<string, NativeTensor> = { logits: output.logits, ...output.state.tensors() };
  let total = output.ratioLoss.clone();
  for (const [name, part] of Object.entries(parts)) {
    if (!weights.has(name)) weights.set(name, keep(native().Tensor.randn(part.shape, "f64", generator)));
    const product = part.mul(weights.get(name)!);
    const sum = product.reduce("sum");
    const next = total.add(sum);
    dispose(product, sum, total, part);
    total = next;
  }
  dispose(inputIds, lengths, output.state, output.routingHidden, output.ratioLoss);
  return total;
}

/** Compares d objective / d tensor with central differences at some entries of the tensor, which `write` puts in place. */
async function compare(
  name: string,
  tensor: NativeTensor,
  gradient: NativeTensor | undefined,
  evaluate: (changed: NativeTensor) => Promise<number>,
): Promise<void> {
  const analytic = gradient ? values(gradient) : new Array<number>(tensor.numel).fill(0);
  const base = tensor.data() as Float64Array;
  const entries = new Set([
    0,
    Math.floor(tensor.numel / 3),
    Math.floor(tensor.numel * 0.7),
    tensor.numel - 1,
  ]);
  for (const i of entries) {
    const at = async (offset: number) => {
      const moved = base.slice();
      moved[i]! += offset;
      const changed = native().Tensor.fromData(moved, tensor.shape, "f64");
      const value = await evaluate(changed);
      changed.dispose();
      return value;
    };
    const numeric = ((await at(STEP)) - (await at(-STEP))) / (2 * STEP);
    const difference = Math.abs(numeric - analytic[i]!);
    expect(difference, `${name}[${i}]: numeric ${numeric}, analytic ${analytic[i]}`).toBeLessThan(
      RELATIVE * Math.max(10, Math.abs(numeric)),
    );
  }
}

async function scalar(tensor: Promise<NativeTensor>): Promise<number> {
  const value = await tensor;
  const number = value.item();
  value.dispose();
  return number;
}

// equations.test.ts differentiates every parameter on one sequence; here a padded batch does, with its final state.
describe.each(["flat", "chunked"] as Geometry[])("gradients in f64 of a batch, %s", (geometry) => {
  const model = causalLM(geometry, { dtype: "f64" });
  const weights = new Map<string, NativeTensor>();
  afterAll(() => model.dispose());

  it("of every parameter match central differences", async () => {
    const loss = await objective(model, weights, true);
    await native().backward(model.lane, [loss], [1]);
    loss.dispose();
    const gradients = model.native.gradients();
    const parameters = model.stateDict();
    const compared = Object.keys(parameters).filter((name) => !straightThroughUpstream(name, geometry));
    expect(compared.length).toBeGreaterThan(30);
    for (const name of compared) {
      const original = parameters[name]!.clone();
      await compare(name, original, gradients[name], (changed) => {
        model.loadStateDict({ ...parameters, [name]: changed });
        return scalar(objective(model, weights, false));
      });
      model.loadStateDict({ ...parameters, [name]: original });
      original.dispose();
    }
    dispose(...Object.values(gradients), ...Object.values(parameters));
  });
});

describe.each(Object.keys(geometries) as Geometry[])("gradients into the initial state, %s", (geometry) => {
  const model = causalLM(geometry, { dtype: "f64" });
  const weights = new Map<string, NativeTensor>();
  afterAll(() => model.dispose());

  it("match central differences", async () => {
    const first = idTensor([
      [97, 98, 99],
      [49, 49, 50],
      [32, 97, 97],
    ]);
    const output = await model.forward({ inputIds: first });
    const start = output.state.tensors();
    const leaves: Record<string, NativeTensor> = {};
    for (const [name, tensor] of Object.entries(start)) {
      leaves[name] = tensor.clone();
      if (tensor.dtype === "f64") leaves[name].requiresGrad = true;
    }
    const state = model.createState(leaves);
    const loss = await objective(model, weights, true, state);
    await native().backward(model.lane, [loss], [1]);
    for (const [name, leaf] of Object.entries(leaves)) {
      if (!leaf.requiresGrad || straightThroughUpstream(`backbone.${name}`, geometry)) continue;
      const gradient = leaf.grad();
      expect(gradient, `${name} has a gradient`).not.toBeNull();
      await compare(name, start[name]!, gradient!, async (changed) => {
        const other = model.createState({ ...start, [name]: changed });
        const value = await scalar(objective(model, weights, false, other));
        other.dispose();
        return value;
      });
      gradient!.dispose();
    }
    dispose(first, output, state, loss, ...Object.values(start), ...Object.values(leaves));
  });
});

/**
 * Parameters and states from which a path leads through the straight-through estimator, whose gradient is by design not the derivative of its
 * value: everything before a routing module. equations.test.ts differentiates those.
 */
function straightThroughUpstream(name: string, geometry: Geometry): boolean {
  if (geometry === "flat" || geometry === "swiGlu") return false;
  const upstream = [
    "backbone.byteEmbedding",
    "backbone.roleEmbedding",
    "backbone.stage0.encoder",
    "backbone.stage0.routing",
  ];
  if (geometry === "nested")
    upstream.push("backbone.stage1.encoder", "backbone.stage1.routing", "backbone.stage1.padding");
  return upstream.some((prefix) => name.startsWith(prefix));
}
