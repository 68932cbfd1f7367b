// Columns a second from CSV files to JSON on two cores, against the same model driven from PyTorch with a plain Python loader. Figures
// are printed where every column gets the same type and confidence.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { exportWeights } from "./weights.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
/** Of a confidence: float32 through five layers and a softmax. */
const TOLERANCE = 1e-4;
const sizes = { layers: 5, dModel: 128, headSize: 32, classes: 28, rows: 64, cores: 2 };

/** Generated tables as CSV files, of those whose header line is recognised: Python is told that there is one. */
async function writeFiles(folder, count) {
  const { generateDataset, readCsv } = await import("../dist/index.js");
  const { formatCsv } = await import("../dist/data/csvWrite.js");
  const { tables } = await generateDataset({ tables: count, rows: 60, seed: 5 });
  const files = [];
  for (const [i, table] of [...tables.values()].entries()) {
    const file = path.join(folder, `table${i}.csv`);
    fs.writeFileSync(file, formatCsv(table));
    const read = await readCsv(file);
    const agrees = read.columns.every(
      ({ header, cells }, c) => header !== null && cells.length === table.columns[c]?.cells.length,
    );
    if (agrees && read.warnings.length === 0) files.push(file);
  }
  return files;
}

/** The parts one after another, without overlap, in seconds. */
async function partsOf(annotator, files) {
  const { readCsv } = await import("../dist/index.js");
  const { encodeTargets } = await import("../dist/train/examples.js");
  const { predict } = await import("../dist/train/predict.js");
  const { labels, serialiser, logitsOf, concurrency } = annotator;
  const times = [performance.now()];
  const tables = [];
  for (const file of files) tables.push(await readCsv(file));
  times.push(performance.now());
  const examples = [];
  for (const table of tables)
    examples.push(
      ...(await encodeTargets(
        serialiser,
        table.columns.map((_, column) => ({ table, column })),
      )),
    );
  times.push(performance.now());
  const predictions = await predict(logitsOf, examples, labels.length, { concurrency });
  times.push(performance.now());
  JSON.stringify(predictions, null, 2);
  times.push(performance.now());
  const names = ["parse", "serialise", "forward", "write"];
  const tokens = examples.reduce((sum, { ids }) => sum + ids.length, 0);
  return {
    tokens,
    parts: Object.fromEntries(names.map((name, i) => [name, (times[i + 1] - times[i]) / 1000])),
  };
}

async function annotate(annotator, files, out) {
  const { annotateFiles } = await import("../dist/index.js");
  const results = await annotateFiles(annotator, files);
  const columns = results.flatMap(({ columns }) => columns);
  fs.writeFileSync(out, JSON.stringify(columns, null, 2));
  return columns;
}

function pytorch(python, folder, task) {
  fs.writeFileSync(path.join(folder, "task.json"), JSON.stringify(task));
  const script = path.join(here, "reference", "annotate.py");
  const env = { ...python.env, OMP_NUM_THREADS: String(task.threads) };
  const run = spawnSync(python.command, [script, folder], { encoding: "utf8", env });
  if (run.status !== 0) throw new Error(`${script} failed:\n${run.stderr}`);
  return {
    ...JSON.parse(fs.readFileSync(path.join(folder, "results.json"), "utf8")),
    columns: JSON.parse(fs.readFileSync(task.out, "utf8")),
  };
}

/** The first column of another type or confidence, or null. */
function difference(ours, theirs) {
  if (ours.length !== theirs.length) return `${ours.length} columns, Python has ${theirs.length}`;
  for (const [i, a] of ours.entries()) {
    const b = theirs[i];
    const same = a.table === b.table && a.header === b.header && a.type === b.type;
    if (!same || !(Math.abs(a.confidence - b.confidence) <= TOLERANCE))
      return `${JSON.stringify(a)} here, ${JSON.stringify(b)} in Python`;
  }
  return null;
}

const shares = (parts) =>
  Object.entries(parts)
    .map(([name, seconds]) => `${name} ${(seconds * 1000).toFixed(0)} ms`)
    .join(", ");

const name = "annotate";
const title = `Annotating CSV files, flat, ${sizes.layers} layers, d ${sizes.dModel}, ${sizes.cores} cores`;

async function run({ python, quick }) {
  console.log(`\n${title}`);
  if (!python) {
    console.log("  no figures: nothing to compare with");
    return { case: name, title, forms: [] };
  }
  const { AegirForColumnAnnotation, Lane, Serialiser } = await import("../dist/index.js");
  const { modelLogits } = await import("../dist/train/predict.js");
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aegir-bench-"));
  const labels = Array.from({ length: sizes.classes }, (_, i) => `type${i}`);
  const options = {
    archLayout: [`w${sizes.layers}`],
    dModel: sizes.dModel,
    headSize: sizes.headSize,
    labels,
  };
  const model = new AegirForColumnAnnotation(options, { seed: 3 });
  const lanes = Array.from({ length: sizes.cores }, (_, i) => new Lane({ name: `bench ${i}` }));
  const wide = new Lane({ name: "bench wide", threads: sizes.cores });
  try {
    const files = await writeFiles(folder, quick ? 40 : 80);
    const serialiser = new Serialiser();
    const annotator = {
      task: "cta",
      labels,
      serialiser,
      logitsOf: modelLogits(model, lanes),
      concurrency: lanes.length + 1,
    };
    let columns;
    const timed = async (annotator) => {
      let best = Number.POSITIVE_INFINITY;
      for (let i = 0; i < (quick ? 1 : 2); i++) {
        const start = performance.now();
        columns = await annotate(annotator, files, path.join(folder, "aegir.json"));
        best = Math.min(best, (performance.now() - start) / 1000);
      }
      return best;
    };
    await annotate(annotator, files.slice(0, 4), path.join(folder, "aegir.json"));
    const before = await timed(annotator);
    const task = {
      ...sizes,
      files,
      labels,
      serialise: serialiser.options,
      weights: exportWeights(model, folder),
      threads: sizes.cores,
      out: path.join(folder, "python.json"),
      chunk: 16,
      repeats: quick ? 1 : 2,
    };
    const other = pytorch(python, folder, task);
    const seconds = Math.min(before, await timed(annotator));
    const oneLane = await timed({ ...annotator, logitsOf: modelLogits(model, [wide]), concurrency: 2 });
    const wrong = difference(columns, other.columns);
    if (wrong) {
      console.log(`  no figures: ${wrong}`);
      return null;
    }
    const { parts, tokens } = await partsOf(annotator, files);
    const rate = (s) => `${(columns.length / s).toFixed(0).padStart(6)} columns/s`;
    console.log(`  ${files.length} files, ${columns.length} columns, ${tokens} tokens`);
    console.log(`  ${"aegir-swarm".padEnd(24)} ${rate(seconds)}   alone: ${shares(parts)}`);
    console.log(`  ${"one lane of 2 threads".padEnd(24)} ${rate(oneLane)}`);
    console.log(`  ${"PyTorch, chunks of 16".padEnd(24)} ${rate(other.seconds)}   ${shares(other.parts)}`);
    console.log(`  ${(other.seconds / seconds).toFixed(2)}x   wanted: 1.5x`);
    return {
      case: name,
      title,
      columns: columns.length,
      forms: [
        { name: "aegir-swarm", seconds, parts },
        { name: "one lane of 2 threads", seconds: oneLane },
        { name: "PyTorch, chunks of 16", seconds: other.seconds, parts: other.parts },
      ],
    };
  } finally {
    model.dispose();
    await Promise.all([wide, ...lanes].map((lane) => lane.close()));
    fs.rmSync(folder, { recursive: true });
  }
}

export const annotateCases = [{ name, run }];
