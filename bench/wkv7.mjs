// WKV-7 against itself: two threads, other head sizes, bf16 inputs, ragged batches. Every form and its gradients
// are compared with the plain reference first.
import { cases } from "./cases.mjs";
import { seededRandom } from "./random.mjs";
import { release, runNative, timeNative, worstError } from "./timed.mjs";

const [wkv7] = cases;
const { makeInputs, shape: BASE, flops } = wkv7;
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
  const made = Object.entries(forms).map(([name, form]) => {
    const inputs = inputsOf(addon, form);
    const weight = addon.Tensor.full(inputs.r.shape, 1, inputs.r.dtype);
    const lane = lanes[form.threads ?? 1];
    const once = (options) => runNative(addon, lane, wkv7, inputs, weight, options);
    const time = () => timeNative(addon, lane, wkv7, inputs, weight, 1);
    return { name, form, inputs, weight, once, time, forward: Infinity, both: Infinity };
  });
  try {
    console.log(`\nWKV-7, B=${BATCH} T=${TOKENS} width ${HEADS * HEAD_SIZE}: forms of our own`);
    for (const each of made) {
      const [ours, reference] = [await each.once(), await each.once({ reference: true })];
      const error = worstError(ours.values, reference.values);
      if (!(error <= TOLERANCE[each.form.dtype ?? "f32"])) {
        console.log(`  no figures: ${each.name} differs from the reference by ${error} of the largest`);
        return null;
      }
    }
    for (let round = 0; round < (quick ? 5 : 20); round++) {
      for (const each of made) {
        const { forward, both } = await each.time();
        each.forward = Math.min(each.forward, forward);
        each.both = Math.min(each.both, both);
      }
    }
    return print(made, sgemm);
  } finally {
    for (const { inputs, weight } of made) release({ ...inputs, weight });
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
