// Hashed n-gram embeddings against PyTorch's embedding bag, and columns packed without padding against padded rows and one by one.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { seededRandom } from "./random.mjs";
import { runNative, timeNative, worstError } from "./timed.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const TOLERANCE = 1e-4;
const WANTED = 5;
/** A training batch of column-wise models: 6144 tokens of columns from 8 to 120 tokens. */
const sizes = { buckets: 65_536, width: 48, ngrams: [2, 3, 4, 5, 6], tokens: 6144 };

/** Lengths of columns that make up the batch. */
function columnLengths(random) {
  const lengths = [];
  let left = sizes.tokens;
  while (left > 0) {
    const length = Math.min(left, 8 + Math.floor(random.uniform() * 113));
    lengths.push(length);
    left -= length;
  }
  return lengths;
}

function starts(lengths) {
  const ends = [0];
  for (const length of lengths) ends.push(ends.at(-1) + length);
  return Int32Array.from(ends);
}

function makeBatch() {
  const random = seededRandom(11);
  const lengths = columnLengths(random);
  return {
    lengths,
    ids: Int32Array.from({ length: sizes.tokens }, () => 97 + Math.floor(26 * random.uniform())),
    table: Float32Array.from({ length: sizes.buckets * sizes.width }, random.normal),
    weight: Float32Array.from({ length: sizes.tokens * sizes.width }, random.normal),
  };
}

async function ngramNative(addon, lane, { ids, lengths, table, weight }, repeats) {
  const tensor = (values, shape, dtype) => addon.Tensor.fromData(values, shape, dtype);
  const inputs = {
    table: tensor(table, [sizes.buckets, sizes.width], "f32"),
    ids: tensor(ids, [sizes.tokens], "i64"),
    cuSeqlens: tensor(starts(lengths), [lengths.length + 1], "i64"),
  };
  const weights = tensor(weight, [sizes.tokens, sizes.width], "f32");
  const benchCase = { operator: "ngramEmbedding", inputs: ["table"] };
  const options = { sizes: sizes.ngrams };
  const best = await timeNative(addon, lane, benchCase, inputs, weights, repeats, options);
  const { values } = await runNative(addon, lane, benchCase, inputs, weights, options);
  for (const each of [...Object.values(inputs), weights]) each.dispose();
  return { ...best, values };
}

function ngramPython(python, { ids, lengths, table, weight }, repeats) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aegir-bench-"));
  try {
    fs.writeFileSync(path.join(folder, "task.json"), JSON.stringify({ ...sizes, repeats }));
    fs.writeFileSync(path.join(folder, "ids.i32"), ids);
    fs.writeFileSync(path.join(folder, "starts.i32"), starts(lengths));
    fs.writeFileSync(path.join(folder, "table.f32"), table);
    fs.writeFileSync(path.join(folder, "weight.f32"), weight);
    const script = path.join(here, "reference", "ngrams.py");
    const run = spawnSync(python.command, [script, folder], { encoding: "utf8", env: python.env });
    if (run.status !== 0) throw new Error(`${script} failed:\n${run.stderr}`);
    const read = (name) => new Float32Array(fs.readFileSync(path.join(folder, name)).buffer.slice(0));
    const result = JSON.parse(fs.readFileSync(path.join(folder, "results.json"), "utf8"));
    return { ...result, values: [read("output.f32"), read("gradient.f32")] };
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

async function ngramCase({ addon, python, quick }) {
  const title = `n-gram embeddings, ${sizes.tokens} tokens, n = ${sizes.ngrams.at(0)} to ${sizes.ngrams.at(-1)}, table ${sizes.buckets} x ${sizes.width}`;
  console.log(`\n${title}, one thread`);
  const lane = new addon.Lane({ name: "n-grams", threads: 1 });
  try {
    const batch = makeBatch();
    const repeats = quick ? 5 : 20;
    const before = await ngramNative(addon, lane, batch, repeats);
    const bag = python ? ngramPython(python, batch, quick ? 2 : 8) : null;
    const after = await ngramNative(addon, lane, batch, repeats);
    const error = bag ? worstError(after.values, bag.values) : 0;
    if (!(error <= TOLERANCE)) {
      console.log(`  no figures: results differ from PyTorch's by ${error} relative to the largest`);
      return null;
    }
    const native = {
      forward: Math.min(before.forward, after.forward),
      both: Math.min(before.both, after.both),
    };
    const forms = [{ name: "aegir-swarm", ...native }];
    if (bag) forms.push({ name: "PyTorch, embedding bag", forward: bag.forward, both: bag.both });
    for (const { name, forward, both } of forms) {
      const ratio = `${(forward / native.forward).toFixed(1)}x, ${(both / native.both).toFixed(1)}x`;
      console.log(
        `  ${name.padEnd(24)} forward ${(1e3 * forward).toFixed(2)} ms, both ${(1e3 * both).toFixed(2)} ms   ${ratio}`,
      );
    }
    console.log(`  wanted: ${WANTED}x`);
    return { case: "ngrams", title, largestError: error, forms };
  } finally {
    await lane.close();
  }
}

/** Seconds of one forward and backward of every batch, and the logits. */
async function encode(addon, model, batches) {
  let seconds = 0;
  const logits = [];
  for (const input of batches) {
    const rows = input.cuSeqlens ? input.cuSeqlens.shape[0] - 1 : input.inputIds.shape[0];
    const labels = addon.Tensor.full([rows], 0, "i64");
    const start = performance.now();
    const output = await model.forward(input, { grad: true });
    const { loss, logp } = await addon.crossEntropy(model.lane, { logits: output.logits, labels });
    await addon.backward(model.lane, [loss], [1]);
    seconds += (performance.now() - start) / 1000;
    logits.push(...output.logits.data());
    for (const each of [output, loss, logp, labels]) each.dispose();
  }
  return { seconds, logits: Float32Array.from(logits) };
}

async function packedCase({ addon, quick }) {
  const { AegirForColumnAnnotation } = await import("../dist/model/index.js");
  const { ids, lengths } = makeBatch();
  const title = `Encoding ${lengths.length} columns of ${Math.min(...lengths)} to ${Math.max(...lengths)} tokens, forward and backward, d 96, 2 layers`;
  console.log(`\n${title}, one thread`);
  const ngrams = { buckets: sizes.buckets, width: sizes.width };
  const geometry = {
    archLayout: ["w2"],
    dModel: 96,
    headSize: 32,
    channelMixRatio: 2,
    numLabels: 16,
    ngrams,
  };
  const model = new AegirForColumnAnnotation(geometry, { seed: 3, threads: 1, name: "bench" });
  const tensor = (values, shape) => addon.Tensor.fromData(Int32Array.from(values), shape, "i64");
  const at = starts(lengths);
  const rows = lengths.map((length, i) => ids.subarray(at[i], at[i] + length));
  const longest = Math.max(...lengths);
  const padded = rows.flatMap((row) => [...row, ...new Array(longest - row.length).fill(0)]);
  const forms = {
    packed: [{ inputIds: tensor(ids, [1, sizes.tokens]), cuSeqlens: tensor(at, [at.length]) }],
    "padded rows": [
      { inputIds: tensor(padded, [rows.length, longest]), lengths: tensor(lengths, [rows.length]) },
    ],
    "one by one": rows.map((row) => ({ inputIds: tensor(row, [1, row.length]) })),
  };
  try {
    const made = Object.entries(forms).map(([name, batches]) => ({ name, batches, seconds: Infinity }));
    for (let round = 0; round < (quick ? 3 : 10); round++) {
      for (const each of made) {
        const { seconds, logits } = await encode(addon, model, each.batches);
        Object.assign(each, { seconds: Math.min(each.seconds, seconds), logits });
      }
    }
    const errors = made.map(({ logits }) => worstError([logits], [made[0].logits]));
    const failed = errors.findIndex((error) => !(error <= TOLERANCE));
    if (failed >= 0) {
      console.log(
        `  no figures: ${made[failed].name} differs from packed by ${errors[failed]} of the largest`,
      );
      return null;
    }
    for (const { name, seconds } of made)
      console.log(
        `  ${name.padEnd(14)} ${(1e3 * seconds).toFixed(1).padStart(7)} ms  ${(seconds / made[0].seconds).toFixed(2)}x`,
      );
    const times = made.map(({ name, seconds }) => ({ name, seconds }));
    return { case: "packed", title, largestError: Math.max(...errors), forms: times };
  } finally {
    for (const batches of Object.values(forms))
      for (const input of batches) for (const each of Object.values(input)) each.dispose();
    model.dispose();
  }
}

export const ngramCases = [
  { name: "ngrams", run: ngramCase },
  { name: "packed", run: packedCase },
];
