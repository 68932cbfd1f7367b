// npm run model:default [-- --out DIR] [-- --steps N]
//
// Makes models/default: generates tables of everyday types, trains a column-wise model on them (about 12 CPU minutes on one thread; goes on
// where it was interrupted), and writes what `annotate` needs of it. No other data is read.
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { createHash } from "node:crypto";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { everydayTables, NONE } from "../dist/data/everyday.js";
import { saveAbstention } from "../dist/train/abstention.js";
import { trainSupervised } from "../dist/train/supervised.js";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: given } = parseArgs({
  options: {
    out: { type: "string", default: path.join(root, "models/default") },
    run: { type: "string", default: path.join(root, "build/default-model") },
    steps: { type: "string", default: "1800" },
    tables: { type: "string", default: "8000" },
  },
});

/** Chosen once on the validation columns of real tables (`npm run measure:default`), where it left a fair share of wrong names out. */
const ABSTAIN_BELOW = 0.6;

const model = {
  archLayout: ["w2"],
  dModel: 96,
  headSize: 32,
  channelMixRatio: 2,
  ngrams: { buckets: 32_768, width: 40 },
  columns: {},
  pooling: ["mean", "max"],
};
const serialise = {
  form: "columns",
  headers: true,
  maxTokens: 192,
  maxContext: 4,
  choose: "sampled",
  targetCells: 8,
  cellBytes: 40,
  contextCells: 2,
  contextCellBytes: 24,
};
const training = {
  steps: Number(given.steps),
  batchTokens: 6144,
  lr: 3e-3,
  beta2: 0.98,
  warmup: 30,
  decay: "linear",
  weightDecay: 0.05,
  ema: 0.995,
  dropRate: 0.3,
  dropout: 0.1,
  labelSmoothing: 0.05,
  validateEvery: 300,
  saveEvery: 300,
  keep: "last",
};

const dataset = await everydayTables({ tables: Number(given.tables), seed: 1 });
const resume = existsSync(path.join(given.run, "config.json"));
const start = process.cpuUsage();
const trained = await trainSupervised({
  dataset,
  model,
  serialise,
  ...training,
  out: given.run,
  resume,
  onProgress: ({ step, total, figures }) => {
    if (step % 100 === 0) console.log(`${step}/${total}`, JSON.stringify(figures ?? {}));
  },
});
trained.model.dispose();
