// How time and memory grow: a training step with the tokens of a sequence, a swarm's forward with its specialists, annotating with
// the columns of a table. Each line's ratio is to growth in proportion at the rate of the cheapest line.
import fs from "node:fs";
import os from "node:os";
import { seededRandom } from "./random.mjs";

const threads = os.availableParallelism();
const step = { layers: 5, dModel: 128, headSize: 32, classes: 16 };
const FIXED_TOKENS = 8192;
const lengths = [64, 256, 1024, 4096, 16384, 65536];
const WANTED_BYTES = 6e9;

const megabytes = (bytes) => `${(bytes / 1e6).toFixed(0)} MB`;

function statusBytes(field) {
  const line = fs.readFileSync("/proc/self/status", "utf8").match(new RegExp(`^${field}:\\s+(\\d+) kB`, "m"));
  return Number(line[1]) * 1024;
}

/** Seconds of `work`, and by how many bytes the process grew above where it began, at its largest. */
async function measured(addon, work) {
  addon.emptyCache();
  const peaks = peakStartsAgain();
  const before = statusBytes("VmRSS");
  const start = performance.now();
  await work();
  const seconds = (performance.now() - start) / 1000;
  return { seconds, bytes: peaks ? Math.max(0, statusBytes("VmHWM") - before) : Number.NaN };
}

/** Whether the system lets the process forget its peak so far. */
function peakStartsAgain() {
  try {
    fs.writeFileSync("/proc/self/clear_refs", "5");
    return true;
  } catch {
    return false;
  }
}

function makeTraining(addon, index) {
  const model = new index.AegirForColumnAnnotation(
    {
      archLayout: [`w${step.layers}`],
      dModel: step.dModel,
      headSize: step.headSize,
      numLabels: step.classes,
    },
    { seed: 3, threads, name: "bench" },
  );
  const optimizer = new index.AdamW([{ module: model.native }]);
  const random = seededRandom(7);
  const whole = (count, limit) =>
    Int32Array.from({ length: count }, () => Math.floor(random.uniform() * limit));
  return {
    async step(batch, tokens) {
      const inputIds = addon.Tensor.fromData(whole(batch * tokens, 256), [batch, tokens], "i64");
      const labels = addon.Tensor.fromData(whole(batch, step.classes), [batch], "i64");
      const output = await model.forward({ inputIds }, { grad: true });
      const { loss, logp } = await addon.crossEntropy(model.lane, { logits: output.logits, labels });
      await addon.backward(model.lane, [loss], [1]);
      await optimizer.step(model.lane, { lr: 1e-4, clipNorm: 1 });
      const value = loss.item();
      for (const each of [inputIds, labels, output, loss, logp]) each.dispose();
      if (!Number.isFinite(value)) throw new Error(`the loss of ${batch} x ${tokens} tokens is ${value}`);
    },
    dispose() {
      optimizer.dispose();
      model.dispose();
    },
  };
}

/** One line a size: time, time a unit, its ratio to growth in proportion at the cheapest line's rate, peak memory. */
async function lines(addon, what, sizes, work, { repeats }) {
  const records = [];
  for (const { name, units, ...size } of sizes) {
    // Memory comes from a first run that finds none cached, time from further ones.
    const best = await measured(addon, () => work(size));
    for (let i = 0; i < repeats(units); i++) {
      const start = performance.now();
      await work(size);
      best.seconds = Math.min(best.seconds, (performance.now() - start) / 1000);
    }
    records.push({ name, units, ...best });
  }
  const least = Math.min(...records.map(({ seconds, units }) => seconds / units));
  for (const { name, units, seconds, bytes } of records) {
    const each = `${((seconds / units) * 1e6).toFixed(1)} us`;
    console.log(
      `  ${name.padEnd(22)} ${`${(seconds * 1000).toFixed(1)} ms`.padStart(12)} ${each.padStart(12)} a ${what}` +
        ` ${(seconds / units / least).toFixed(2).padStart(6)}x of linear ${megabytes(bytes).padStart(9)}`,
    );
  }
  return records;
}

async function training(addon, index) {
  const { step: work, dispose } = makeTraining(addon, index);
  for (let i = 0; i < 3; i++) await work(32, 128);
  const repeats = (units) => (units < 4096 ? 8 : 1);
  console.log(`\nTraining step, flat, ${step.layers} layers, d ${step.dModel}, ${threads} threads`);
  const fixed = lengths
    .filter((tokens) => tokens <= FIXED_TOKENS)
    .map((tokens) => ({
      name: `B=${FIXED_TOKENS / tokens} T=${tokens}`,
      units: FIXED_TOKENS,
      batch: FIXED_TOKENS / tokens,
      tokens,
    }));
  const single = lengths.map((tokens) => ({ name: `B=1 T=${tokens}`, units: tokens, batch: 1, tokens }));
  const run = ({ batch, tokens }) => work(batch, tokens);
  const records = {
    fixed: await lines(addon, "token", fixed, run, { repeats: () => 1 }),
    single: await lines(addon, "token", single, run, { repeats }),
  };
  dispose();
  const { name, bytes } = records.single.at(-1);
  console.log(`  ${name}: ${(bytes / 1e9).toFixed(2)} GB   wanted: under ${WANTED_BYTES / 1e9} GB`);
  return records;
}

async function specialists(addon, index) {
  const options = { archLayout: ["w2"], dModel: 64, headSize: 32, numLabels: 8 };
  const shape = { batch: 8, tokens: 64 };
  console.log(`\nSwarm forward, w2, d ${options.dModel}, B=${shape.batch} T=${shape.tokens}`);
  const model = (seed) => new index.AegirForColumnAnnotation(options, { seed });
  const records = {};
  for (const execution of ["streams", "batched"]) {
    const sizes = [1, 2, 4, 8, 16, 32, 64].map((count) => ({
      name: `${count} ${execution}`,
      units: count,
      count,
    }));
    const swarms = new Map();
    const swarmOf = (count) => {
      if (!swarms.has(count)) {
        const own = Array.from(
          { length: count },
          (_, i) => new index.FrozenSpecialist(model(10 + i), { id: `${i}` }),
        );
        swarms.set(
          count,
          new index.SwarmOrchestrator({ primaryModel: model(1), specialists: own, execution }),
        );
      }
      return swarms.get(count);
    };
    const ids = Int32Array.from({ length: shape.batch * shape.tokens }, (_, i) => (i * 37) % 256);
    const inputIds = addon.Tensor.fromData(ids, [shape.batch, shape.tokens], "i64");
    const work = async ({ count }) => {
      const result = await swarmOf(count).forward({ inputIds, routingHidden: "auto", routing: "all-on" });
      result.dispose();
    };
    records[execution] = await lines(addon, "specialist", sizes, work, { repeats: () => 6 });
    inputIds.dispose();
    for (const swarm of swarms.values()) {
      swarm.dispose();
      for (const each of [swarm.primary, ...swarm.specialists.map((one) => one.model)]) each.dispose();
    }
  }
  return records;
}

async function columns(addon, index) {
  const { modelLogits } = await import("../dist/train/predict.js");
  const labels = Array.from({ length: 28 }, (_, i) => `type${i}`);
  const options = { archLayout: ["w3"], dModel: 64, headSize: 32, labels };
  console.log(`\nAnnotating the columns of one table of 50 rows, flat, 3 layers, d ${options.dModel}`);
  const model = new index.AegirForColumnAnnotation(options, { seed: 3 });
  const lanes = Array.from({ length: threads }, (_, i) => new index.Lane({ name: `bench ${i}` }));
  const annotator = {
    task: "cta",
    labels,
    serialiser: new index.Serialiser(),
    logitsOf: modelLogits(model, lanes),
    concurrency: lanes.length + 1,
  };
  const random = seededRandom(5);
  const table = (count) => ({
    name: `wide${count}`,
    columns: Array.from({ length: count }, (_, c) => ({
      header: `column ${c}`,
      cells: Array.from({ length: 50 }, () => String(Math.floor(random.uniform() * 1e6))),
    })),
  });
  const sizes = [1, 10, 100, 1000, 5000].map((count) => ({
    name: `${count} columns`,
    units: count,
    table: table(count),
  }));
  const work = async ({ table: wide }) => {
    const found = await index.annotateTable(annotator, wide, { maxColumns: 5000 });
    if (found.length !== wide.columns.length) throw new Error(`${wide.name}: ${found.length} columns`);
  };
  await work({ table: table(16) });
  const records = await lines(addon, "column", sizes, work, { repeats: (units) => (units <= 100 ? 4 : 0) });
  model.dispose();
  await Promise.all(lanes.map((lane) => lane.close()));
  return records;
}

async function run({ addon }) {
  const index = await import("../dist/index.js");
  const records = {
    training: await training(addon, index),
    specialists: await specialists(addon, index),
    columns: await columns(addon, index),
  };
  return { case: "scaling", title: "Scaling", threads, ...records };
}

export const scalingCases = [{ name: "scaling", run }];
