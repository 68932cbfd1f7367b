// npm run model:default [-- --out DIR --run DIR --steps N --tables N]
//
// Makes models/default: generates tables of everyday types, trains a column-wise model on them (about 15 CPU minutes on one thread; goes on
// where it was interrupted), and writes what `annotate` needs of it. No other data is read.

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { everydayTables, NONE } from "../dist/data/everyday.js";
import { saveAbstention } from "../dist/train/abstention.js";
import { encodeColumns } from "../dist/train/examples.js";
import { loadRun } from "../dist/train/loadRun.js";
import { allLogits, predictionsOf } from "../dist/train/predict.js";
import { trainSupervised } from "../dist/train/supervised.js";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: given } = parseArgs({
  options: {
    out: { type: "string", default: path.join(root, "models/default") },
    run: { type: "string", default: path.join(root, "build/default-model") },
    steps: { type: "string", default: "8000" },
    tables: { type: "string", default: "32000" },
  },
});

/**
 * Chosen once on the validation columns of real tables (`npm run measure:default -- --sweep`): nine of ten names right among SOTAB's columns
 * of types that it shares.
 */
const ABSTAIN_BELOW = 0.8;

const model = {
  archLayout: ["w2"],
  dModel: 96,
  headSize: 32,
  channelMixRatio: 2,
  ngrams: { buckets: 32_768, width: 40, lowercase: true, shapes: true },
  columns: {},
  pooling: ["mean", "max"],
};
const serialise = {
  form: "columns",
  headers: true,
  maxTokens: 128,
  maxContext: 0,
  targetCells: 6,
  cellBytes: 48,
};
const training = {
  steps: Number(given.steps),
  batchRows: 128,
  batchTokens: 3072,
  optimizer: "muon",
  lr: 5e-3,
  beta2: 0.98,
  warmup: 30,
  decay: "linear",
  weightDecay: 0.05,
  ema: 0.995,
  dropRate: 0.3,
  dropout: 0.15,
  labelSmoothing: 0.05,
  validateEvery: 1500,
  saveEvery: 500,
  keep: "last",
};

/**
 * The folder as the package has it: no checkpoints, no log. And no calibration: what the training chooses on generated columns divides by the
 * prior, which takes from "none of these" what it needs on real ones, and makes confidence there too sure.
 */
async function publish(run, out) {
  await rm(out, { recursive: true, force: true });
  await mkdir(path.join(out, "best"), { recursive: true });
  for (const file of ["model.safetensors", "state.json"])
    await cp(path.join(run, "best", file), path.join(out, "best", file));
  const config = JSON.parse(await readFile(path.join(run, "config.json"), "utf8"));
  await writeFile(path.join(out, "config.json"), `${JSON.stringify({ ...config, none: NONE }, null, 2)}\n`);
}

/** Logits of generated columns that were held out, and their classes. */
async function heldOut(out, dataset) {
  const annotator = await loadRun(out);
  const { labels, serialiser, logitsOf } = annotator;
  const examples = await encodeColumns(serialiser, dataset, dataset.splits.validation, labels);
  const logits = await allLogits(logitsOf, examples, labels.length);
  annotator.dispose();
  return { labels, logits, truth: examples.map(({ label }) => label) };
}

/** What the threshold leaves of generated columns that have a type. */
async function abstentionOf(out, dataset) {
  const { labels, logits, truth } = await heldOut(out, dataset);
  const none = labels.indexOf(NONE);
  const predictions = predictionsOf(logits, labels.length, none);
  const typed = predictions
    .map((each, i) => ({ ...each, truth: truth[i] }))
    .filter((each) => each.truth !== none);
  const answered = typed.filter(({ confidence }) => confidence >= ABSTAIN_BELOW);
  const right = answered.filter((each) => each.label === each.truth).length;
  const coverage = answered.length / typed.length;
  const validation = { columns: typed.length, coverage, selectiveAccuracy: right / answered.length };
  return { threshold: ABSTAIN_BELOW, target: { coverage }, validation };
}

const dataset = await everydayTables({ tables: Number(given.tables), seed: 1 });
const trained = await trainSupervised({
  dataset,
  model,
  serialise,
  ...training,
  out: given.run,
  resume: existsSync(path.join(given.run, "config.json")),
  onProgress: ({ step, total, figures, secondsLeft }) => {
    if (step % 100 === 0)
      console.log(`step ${step} of ${total}, ${JSON.stringify(figures)}, ${Math.round(secondsLeft)} s left`);
  },
});
trained.model.dispose();
await publish(given.run, given.out);
const abstention = await abstentionOf(given.out, dataset);
await saveAbstention(given.out, abstention);
const weights = await readFile(path.join(given.out, "best/model.safetensors"));
const { coverage, selectiveAccuracy } = abstention.validation;
console.log(
  `${given.out}: ${trained.labels.length - 1} types, ${(weights.length / 1e6).toFixed(2)} MB, ` +
    `sha256 ${createHash("sha256").update(weights).digest("hex")}; generated tables that were held out: ` +
    `names ${(100 * coverage).toFixed(1)} % of columns, ${(100 * selectiveAccuracy).toFixed(1)} % of them rightly`,
);
