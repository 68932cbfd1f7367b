// The token-level clipped loss, forward and backward with its statistics, against the same loss in PyTorch operations: one thread,
// same inputs, one run. Figures are printed where loss and gradient agree.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { seededRandom } from "./random.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const shape = [64, 4096];
/** Of the loss, and of the gradient relative to its largest: float32 sums of 262,144 tokens. */
const TOLERANCE = 1e-4;
const options = {
  ppo: { kind: "ppo", epsLow: 0.2, epsHigh: 0.3, dualClip: 3, aggregation: "token-mean" },
  k25: {
    kind: "k25",
    epsLow: 0,
    epsHigh: 0,
    logAlpha: -0.25,
    logBeta: 0.25,
    tau: 0.1,
    aggregation: "token-mean",
  },
};

function makeInputs() {
  const random = seededRandom(20260102);
  const count = shape[0] * shape[1];
  const of = (value) => Float32Array.from({ length: count }, value);
  const logpOld = of(() => -2 * random.uniform());
  return {
    logp: logpOld.map((x) => x + 0.3 * random.normal()),
    logpOld,
    advantages: of(random.normal),
    mask: of(() => (random.uniform() < 0.9 ? 1 : 0)),
    weights: of(() => 0.5 + random.uniform()),
  };
}

async function runNative(addon, lane, arrays, given, repeats) {
  const tensor = (values, dtype = "f32") => addon.Tensor.fromData(values, shape, dtype);
  const { logp, mask, ...others } = arrays;
  const constants = Object.fromEntries(
    Object.entries(others).map(([name, values]) => [name, tensor(values)]),
  );
  constants.mask = tensor(Uint8Array.from(mask), "bool");
  let seconds = Infinity;
  let result;
  for (let i = 0; i < repeats; i++) {
    const leaf = tensor(logp);
    leaf.requiresGrad = true;
    const start = performance.now();
    const { loss } = await addon.tokenClipLoss(lane, { logp: leaf, ...constants }, given);
    await addon.backward(lane, [loss], [1]);
    seconds = Math.min(seconds, (performance.now() - start) / 1000);
    const gradient = leaf.grad();
    result = { loss: loss.item(), gradient: gradient.data() };
    for (const each of [gradient, leaf, loss]) each.dispose();
  }
  for (const each of Object.values(constants)) each.dispose();
  return { seconds, ...result };
}

function runPython(python, folder, arrays, repeats) {
  for (const [name, values] of Object.entries(arrays))
    fs.writeFileSync(path.join(folder, `${name}.f32`), values);
  fs.writeFileSync(path.join(folder, "task.json"), JSON.stringify({ shape, repeats, ...options }));
  const script = path.join(here, "reference", "loss.py");
  const env = { ...python.env, OMP_NUM_THREADS: "1" };
  const run = spawnSync(python.command, [script, folder], { encoding: "utf8", env });
  if (run.status !== 0) throw new Error(`${script} failed:\n${run.stderr}`);
  return JSON.parse(fs.readFileSync(path.join(folder, "results.json"), "utf8")).map((form, i) => {
    const bytes = fs.readFileSync(path.join(folder, `grad${i}.f32`));
    return { ...form, gradient: new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4) };
  });
}

function difference(own, other) {
  let error = 0;
  let largest = 0;
  for (let i = 0; i < other.gradient.length; i++) {
    error = Math.max(error, Math.abs(own.gradient[i] - other.gradient[i]));
    largest = Math.max(largest, Math.abs(other.gradient[i]));
  }
  return Math.max(Math.abs(own.loss - other.loss), error / largest);
}

const title = `Clipped loss, B=${shape[0]} T=${shape[1]}, float32, forward + backward, 1 thread`;

export const lossCases = [
  {
    name: "loss",
    async run({ addon, python, quick }) {
      console.log(`\n${title}`);
      if (!python) {
        console.log("  no figures: nothing to compare with");
        return { case: "loss", title, forms: [] };
      }
      const lane = new addon.Lane({ name: "bench", threads: 1 });
      const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aegir-bench-"));
      try {
        const arrays = makeInputs();
        const repeats = quick ? 5 : 20;
        const measure = async () => ({
          ppo: await runNative(addon, lane, arrays, options.ppo, repeats),
          k25: await runNative(addon, lane, arrays, options.k25, repeats),
        });
        const before = await measure();
        const others = runPython(python, folder, arrays, repeats);
        const after = await measure();
        const forms = [];
        let worst = 0;
        for (const { gradient, ...other } of others) {
          const kind = other.name.startsWith("k25") ? "k25" : "ppo";
          const error = difference(before[kind], { gradient, ...other });
          if (!(error <= TOLERANCE)) {
            console.log(`  no figures: ${other.name} differs from PyTorch by ${error}`);
            return null;
          }
          worst = Math.max(worst, error);
          const own = Math.min(before[kind].seconds, after[kind].seconds);
          const cells = [own, other.seconds].map((s) => `${(s * 1000).toFixed(2).padStart(8)} ms`);
          console.log(
            `  ${other.name.padEnd(22)} ${cells.join("   PyTorch ")}  ${(other.seconds / own).toFixed(1).padStart(6)}x`,
          );
          forms.push({ name: other.name, seconds: own, pytorch: other.seconds });
        }
        console.log("  wanted: 5x");
        return { case: "loss", title, largestError: worst, forms };
      } finally {
        fs.rmSync(folder, { recursive: true });
        await lane.close();
      }
    },
  },
];
