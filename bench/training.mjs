// A whole training step, forward, loss, backward, clipping and AdamW, against the same model in PyTorch from the same weights on the
// same batch. Figures are printed where losses and gradient norms of every step agree.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { seededRandom } from "./random.mjs";
import { exportWeights } from "./weights.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
/** Relative, of a loss or a gradient norm: float32 through five layers and a few updates. */
const TOLERANCE = 1e-3;
export const sizes = { batch: 32, tokens: 128, layers: 5, dModel: 128, headSize: 32, classes: 16 };
const optimiser = { lr: 1e-3, weightDecay: 0.01 };

export function makeBatch() {
  const random = seededRandom(7);
  const whole = (count, limit) =>
    Int32Array.from({ length: count }, () => Math.floor(random.uniform() * limit));
  return { ids: whole(sizes.batch * sizes.tokens, 256), labels: whole(sizes.batch, sizes.classes) };
}

export async function trainNative(addon, threads, batch, steps, folder) {
  const { AegirForColumnAnnotation } = await import("../dist/model/index.js");
  const { AdamW } = await import("../dist/train/optimizer.js");
  const model = new AegirForColumnAnnotation(
    {
      archLayout: [`w${sizes.layers}`],
      dModel: sizes.dModel,
      headSize: sizes.headSize,
      numLabels: sizes.classes,
    },
    { seed: 3, threads, name: "bench" },
  );
  const weights = folder ? exportWeights(model, folder) : null;
  const optimizer = new AdamW([{ module: model.native }], { weightDecay: optimiser.weightDecay });
  const inputIds = addon.Tensor.fromData(batch.ids, [sizes.batch, sizes.tokens], "i64");
  const labels = addon.Tensor.fromData(batch.labels, [sizes.batch], "i64");
  const losses = [];
  let seconds = Infinity;
  for (let step = 0; step < steps; step++) {
    const start = performance.now();
    const output = await model.forward({ inputIds }, { grad: true });
    const { loss, logp } = await addon.crossEntropy(model.lane, { logits: output.logits, labels });
    await addon.backward(model.lane, [loss], [1]);
    const { gradNorm } = await optimizer.step(model.lane, { lr: optimiser.lr, clipNorm: 1 });
    seconds = Math.min(seconds, (performance.now() - start) / 1000);
    losses.push([loss.item(), gradNorm]);
    for (const each of [output, loss, logp]) each.dispose();
  }
  for (const each of [inputIds, labels, optimizer, model]) each.dispose();
  return { losses, seconds, weights };
}

function trainPython(python, folder, task, batch) {
  fs.writeFileSync(path.join(folder, "ids.i32"), batch.ids);
  fs.writeFileSync(path.join(folder, "labels.i32"), batch.labels);
  fs.writeFileSync(path.join(folder, "task.json"), JSON.stringify(task));
  const script = path.join(here, "reference", "model.py");
  const env = { ...python.env, OMP_NUM_THREADS: String(task.threads) };
  const run = spawnSync(python.command, [script, folder], { encoding: "utf8", env });
  if (run.status !== 0) throw new Error(`${script} failed:\n${run.stderr}`);
  return JSON.parse(fs.readFileSync(path.join(folder, "results.json"), "utf8"));
}

function worstDifference(native, other) {
  let worst = 0;
  for (const [step, values] of other.losses.entries()) {
    for (const [i, value] of values.entries())
      worst = Math.max(worst, Math.abs(value - native.losses[step][i]) / Math.abs(value));
  }
  return worst;
}

function trainingCase(threads) {
  const name = threads === 1 ? "training" : `training-${threads}-threads`;
  const { batch: rows, tokens, layers, dModel } = sizes;
  const title = `Training step, flat, ${layers} layers, d ${dModel}, B=${rows} T=${tokens}, ${threads} thread${threads > 1 ? "s" : ""}`;
  return {
    name,
    async run({ addon, python, quick }) {
      console.log(`\n${title}`);
      if (!python) {
        console.log("  no figures: nothing to compare with");
        return { case: name, title, forms: [] };
      }
      const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aegir-bench-"));
      try {
        const batch = makeBatch();
        const before = await trainNative(addon, threads, batch, quick ? 5 : 12, folder);
        const forms = ["chunk16", "chunk32", "step", "stepIndexed"];
        const task = {
          ...sizes,
          ...optimiser,
          threads,
          weights: before.weights,
          forms,
          steps: quick ? 2 : 3,
        };
        const others = trainPython(python, folder, task, batch);
        const after = await trainNative(addon, threads, batch, quick ? 5 : 12, null);
        const seconds = Math.min(before.seconds, after.seconds);
        const errors = others.map((other) => worstDifference(before, other));
        const wrong = errors.findIndex((error) => !(error <= TOLERANCE));
        if (wrong >= 0) {
          console.log(`  no figures: differs from ${others[wrong].name} by ${errors[wrong]}`);
          return null;
        }
        console.log(`  ${"aegir-swarm".padEnd(24)} ${(seconds * 1000).toFixed(0).padStart(7)} ms`);
        for (const other of others) {
          const ratio = (other.seconds / seconds).toFixed(1);
          console.log(
            `  ${other.name.padEnd(24)} ${(other.seconds * 1000).toFixed(0).padStart(7)} ms ${ratio.padStart(6)}x`,
          );
        }
        console.log("  wanted: 3x chunked, 10x step by step");
        const timed = others.map((other) => ({ name: other.name, seconds: other.seconds }));
        return {
          case: name,
          title,
          largestError: Math.max(...errors),
          forms: [{ name: "aegir-swarm", seconds }, ...timed],
        };
      } finally {
        fs.rmSync(folder, { recursive: true });
      }
    },
  };
}

export const trainingCases = [trainingCase(1), trainingCase(2)];
