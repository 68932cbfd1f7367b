// WKV-7 against itself: two threads, other head sizes, bf16 inputs, ragged batches. Every form is compared with the plain reference first.
import { cases } from "./cases.mjs";
import { seededRandom } from "./random.mjs";

const [{ makeInputs, inputs: differentiable, shape: BASE, flops }] = cases;
const [BATCH, TOKENS, HEADS, HEAD_SIZE] = BASE;
/** Relative to the largest value; bf16 outputs have 8 bits. */
const TOLERANCE = { f32: 1e-3, bf16: 2e-2 };

const total = (values) => values.reduce((sum, value) => sum + value, 0);

/** The inputs of the bench's first case, for other head sizes of the same width and for fewer tokens. */
function inputsOf(addon, { headSize = HEAD_SIZE, tokens = TOKENS, dtype = "f32", lengths, packed }) {
  const count = packed ? total(lengths) : BATCH * tokens;
  const heads = (HEADS * HEAD_SIZE) / headSize;
  const shape = packed ? [1, count, heads, headSize] : [BATCH, tokens, heads, headSize];
  const arrays = makeInputs(seededRandom(7), [count, heads, headSize]);
  const inputs = {};
  for (const [name, values] of Object.entries(arrays)) {
    const tensor = addon.Tensor.fromData(values, shape, "f32");
    inputs[name] = dtype === "f32" ? tensor : tensor.to(dtype);
    if (dtype !== "f32") tensor.dispose();
  }
  const i64 = (values) => addon.Tensor.fromData(Int32Array.from(values), [values.length], "i64");
  if (packed) inputs.cuSeqlens = i64([0, ...lengths.map((_, i) => total(lengths.slice(0, i + 1)))]);
  else if (lengths) inputs.lengths = i64(lengths);
  return inputs;
}

const release = (record) => {
  for (const value of Object.values(record)) value.dispose?.();
};

async function worstError(addon, lane, inputs) {
  const [ours, expected] = [
    await addon.wkv7(lane, inputs),
    await addon.wkv7(lane, { ...inputs, reference: true }),
  ];
  const outputs = [ours, expected].map(({ output }) => output.to("f32"));
  const scale = outputs[1].data().reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const error = outputs[0].maxAbsDiff(outputs[1]) / scale;
  for (const each of [...outputs]) each.dispose();
  release(ours);
  release(expected);
  return error;
}

/** Seconds of a forward without gradients and of a forward and its backward pass. */
async function once(addon, lane, inputs) {
  const seconds = ({ start, end }) => (end - start) / 1000;
  const plain = await addon.wkv7(lane, inputs);
  release(plain);
  const leaves = Object.fromEntries(
    Object.entries(inputs).map(([name, tensor]) => {
      const leaf = tensor.clone();
      if (differentiable.includes(name)) leaf.requiresGrad = true;
      return [name, leaf];
    }),
  );
  const result = await addon.wkv7(lane, leaves);
  const weight = addon.Tensor.full(result.output.shape, 1, result.output.dtype);
  const { loss } = await addon.weightedSum(lane, result.output, weight);
  const backward = await addon.backward(lane, [loss], [1]);
  for (const each of [loss, weight]) each.dispose();
  release(result);
  release(leaves);
  return { forward: seconds(plain.interval), both: seconds(result.interval) + seconds(backward.interval) };
}

/** Half of B x T. */
const lengths = Array.from({ length: BATCH }, (_, i) => ((2 * i + 1) * TOKENS) / (2 * BATCH));
const forms = {
  "fp32, N=64, one thread": {},
  "two threads": { threads: 2 },
  "N=32": { headSize: 32 },
  "N=128": { headSize: 128 },
  "bf16 inputs, fp32 state": { dtype: "bf16" },
  "ragged, half of it padding": { lengths },
  "the same tokens, packed": { lengths, packed: true },
};

async function run({ addon, quick, sgemm }) {
  const lanes = {
    1: new addon.Lane({ name: "one", threads: 1 }),
    2: new addon.Lane({ name: "two", threads: 2 }),
  };
  const made = Object.entries(forms).map(([name, form]) => ({
    name,
    form,
    lane: lanes[form.threads ?? 1],
    inputs: inputsOf(addon, form),
    forward: Infinity,
    both: Infinity,
  }));
  try {
    console.log(`\nWKV-7, B=${BATCH} T=${TOKENS} width ${HEADS * HEAD_SIZE}: forms of our own`);
    for (const each of made) {
      const error = await worstError(addon, each.lane, each.inputs);
      if (!(error <= TOLERANCE[each.form.dtype ?? "f32"])) {
        console.log(`  no figures: ${each.name} differs from the reference by ${error} of the largest`);
        return null;
      }
    }
    for (let round = 0; round < (quick ? 5 : 20); round++) {
      for (const each of made) {
        const { forward, both } = await once(addon, each.lane, each.inputs);
        each.forward = Math.min(each.forward, forward);
        each.both = Math.min(each.both, both);
      }
    }
    return print(made, sgemm);
  } finally {
    for (const { inputs } of made) release(inputs);
    for (const lane of Object.values(lanes)) await lane.close();
  }
}

function print(made, sgemm) {
  console.log(`  ${"".padEnd(28)}${"forward".padStart(10)}${"".padStart(8)}${"fwd + bwd".padStart(10)}`);
  const [base] = made;
  for (const { name, form, forward, both } of made) {
    // Operations go with the size of the state: width x head size a token.
    const share = (form.headSize ?? HEAD_SIZE) / HEAD_SIZE / (form.lengths ? 2 : 1);
    const rate = (of, time) => `${((100 * share * flops[of]) / time / 1e9 / sgemm).toFixed(0)} % of sgemm`;
    const ratio = (of, time) => `${(base[of] / time).toFixed(2)}x`;
    const ms = (time) => `${(1000 * time).toFixed(2)} ms`.padStart(10);
    const note =
      form.threads === 2 ? "   wanted: 1.8x" : `   ${rate("forward", forward)}, ${rate("both", both)}`;
    console.log(
      `  ${name.padEnd(28)}${ms(forward)}${ratio("forward", forward).padStart(8)}${ms(both)}${ratio("both", both).padStart(8)}${note}`,
    );
  }
  return {
    case: "wkv7-forms",
    sgemm,
    forms: made.map(({ name, forward, both }) => ({ name, forward, both })),
  };
}

export const wkv7FormCases = [{ name: "wkv7-forms", run }];
