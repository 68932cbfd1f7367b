// A decoding step of a causal language model against the same step in eager PyTorch, from the same weights on the same tokens. Figures
// are printed where the logits of every token agree.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { seededRandom } from "./random.mjs";
import { exportWeights } from "./weights.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
/** Of a logit, relative to the largest: float32 through four layers and a few hundred steps of a state. */
const TOLERANCE = 1e-4;
const sizes = { layers: 4, dModel: 256, headSize: 64, tokens: 256 };

/** Of many tokens the fastest: what else runs on the machine takes the cache that the weights lie in. */
const fastest = (times) => Math.min(...times);

/** Logits of every token, and milliseconds a token: a call of `step` for each. */
async function stepByStep(addon, model, ids, rows) {
  const logits = [];
  const times = [];
  let state;
  for (let t = 0; t < sizes.tokens; t++) {
    const inputIds = addon.Tensor.fromData(ids.subarray(t * rows, (t + 1) * rows), [rows], "i64");
    const start = performance.now();
    const output = await model.step({ inputIds, state });
    times.push(performance.now() - start);
    logits.push(output.logits.data());
    for (const each of [inputIds, output.logits]) each.dispose();
    state?.dispose();
    state = output.state;
  }
  state.dispose();
  return { logits, milliseconds: fastest(times) };
}

/** Milliseconds a token where the loop is native too: bursts of `generate`. */
async function generated(model) {
  const times = [];
  let at = performance.now();
  let count = 0;
  for await (const _ of model.generate("a", { maxNewTokens: sizes.tokens, seed: 1 })) {
    if (++count % 16 !== 1) continue;
    times.push((performance.now() - at) / 16);
    at = performance.now();
  }
  return fastest(times.slice(1));
}

/** Milliseconds a token of the whole model's forward: of one token, and of many at once. */
async function forwards(addon, model, ids, tokens, repeats) {
  const inputIds = addon.Tensor.fromData(ids.subarray(0, tokens), [1, tokens], "i64");
  const first = await model.forward({ inputIds });
  const times = [];
  for (let i = 0; i < repeats; i++) {
    const start = performance.now();
    const output = await model.forward({ inputIds, state: first.state });
    times.push((performance.now() - start) / tokens);
    output.dispose();
  }
  for (const each of [inputIds, first]) each.dispose();
  return fastest(times);
}

function pytorch(python, folder, task, ids) {
  fs.writeFileSync(path.join(folder, "ids.i32"), ids);
  fs.writeFileSync(path.join(folder, "task.json"), JSON.stringify(task));
  const script = path.join(here, "reference", "decode.py");
  const env = { ...python.env, OMP_NUM_THREADS: String(task.threads) };
  const run = spawnSync(python.command, [script, folder], { encoding: "utf8", env });
  if (run.status !== 0) throw new Error(`${script} failed:\n${run.stderr}`);
  const { seconds } = JSON.parse(fs.readFileSync(path.join(folder, "results.json"), "utf8"));
  const bytes = fs.readFileSync(path.join(folder, "logits.f32"));
  return {
    milliseconds: seconds * 1000,
    logits: new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4),
  };
}

function worstDifference(steps, expected) {
  const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  let worst = 0;
  let at = 0;
  for (const step of steps) {
    for (const value of step) worst = Math.max(worst, Math.abs(value - expected[at++]) / largest);
  }
  return at === expected.length ? worst : Number.NaN;
}

function decodeCase(rows) {
  const name = rows === 1 ? "decode" : `decode-${rows}-rows`;
  const title = `Decoding, flat, ${sizes.layers} layers, d ${sizes.dModel}, B=${rows}, 1 thread`;
  return {
    name,
    async run({ addon, python }) {
      console.log(`\n${title}`);
      if (!python) {
        console.log("  no figures: nothing to compare with");
        return { case: name, title, forms: [] };
      }
      const { AegirForCausalLM } = await import("../dist/model/index.js");
      const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aegir-bench-"));
      const options = { archLayout: [`w${sizes.layers}`], dModel: sizes.dModel, init: "annotation" };
      const model = new AegirForCausalLM(options, { seed: 3 });
      try {
        const random = seededRandom(7);
        const ids = Int32Array.from({ length: sizes.tokens * rows }, () =>
          Math.floor(random.uniform() * 256),
        );
        const task = { ...sizes, rows, threads: 1, weights: exportWeights(model, folder) };
        const before = await stepByStep(addon, model, ids, rows);
        const other = pytorch(python, folder, task, ids);
        const after = await stepByStep(addon, model, ids, rows);
        const error = worstDifference(before.logits, other.logits);
        if (!(error <= TOLERANCE)) {
          console.log(`  no figures: logits differ from PyTorch's by ${error} of the largest`);
          return null;
        }
        const forms = [
          // The loop over tokens native too, then with a call from JavaScript for each.
          ...(rows === 1 ? [{ name: "generate", milliseconds: await generated(model) }] : []),
          { name: "step", milliseconds: Math.min(before.milliseconds, after.milliseconds) },
          ...(rows === 1
            ? [
                { name: "forward of 1 token", milliseconds: await forwards(addon, model, ids, 1, 60) },
                { name: "forward of 8 tokens", milliseconds: await forwards(addon, model, ids, 8, 30) },
                { name: "forward of 128 tokens", milliseconds: await forwards(addon, model, ids, 128, 8) },
              ]
            : []),
          { name: "PyTorch, eager", milliseconds: other.milliseconds },
        ];
        for (const form of forms) {
          const ratio = (form.milliseconds / forms[0].milliseconds).toFixed(2);
          console.log(
            `  ${form.name.padEnd(24)} ${form.milliseconds.toFixed(3).padStart(8)} ms a token ${ratio.padStart(7)}x`,
          );
        }
        const megabytes = (model.numParameters * 4) / 1e6;
        console.log(
          `  ${megabytes.toFixed(1)} MB of parameters: ${(megabytes / forms[0].milliseconds).toFixed(1)} GB/s in ${forms[0].name}`,
        );
        if (rows === 1) console.log("  wanted: PyTorch at 5x");
        return { case: name, title, largestError: error, forms };
      } finally {
        model.dispose();
        fs.rmSync(folder, { recursive: true });
      }
    },
  };
}

export const decodeCases = [decodeCase(1), decodeCase(4)];
