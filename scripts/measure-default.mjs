// npm run measure:default -- --data NAME=DIR … [--split validation] [--model DIR] [--threshold X | --sweep]
//
// What the default model says of real tables with labels of their own: of the columns whose label has a default type beside it in
// scripts/default-types.json, how many it names and how many of those rightly; of all others, how many it names although it knows no
// type of theirs.
import { readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { openDataset } from "../dist/data/open.js";
import { expectedCalibrationError } from "../dist/train/calibration.js";
import { loadDefaultModel } from "../dist/train/defaultModel.js";
import { encodeTargets } from "../dist/train/examples.js";
import { allLogits, predictionsOf } from "../dist/train/predict.js";

const here = path.dirname(fileURLToPath(import.meta.url));
const { values: given } = parseArgs({
  options: {
    data: { type: "string", multiple: true, default: [] },
    split: { type: "string", default: "validation" },
    model: { type: "string" },
    threshold: { type: "string" },
    sweep: { type: "boolean", default: false },
  },
});
const shared = JSON.parse(await readFile(path.join(here, "default-types.json"), "utf8"));

/** The default types that a label of a data set stands for; null: the model was shown none of its kind. */
function typesOf(name, label) {
  const { exact, patterns = {} } = shared[name];
  if (exact[label]) return exact[label];
  const entry = Object.entries(patterns).find(([pattern]) => new RegExp(pattern).test(label));
  return entry ? entry[1] : null;
}

/** Every labelled column with what the model makes of it: logits (columns, labels), row-major. */
async function columnsOf(model, name, dir) {
  const dataset = await openDataset(dir, { task: "cta" });
  const labelled = dataset.splits[given.split];
  const targets = labelled.map(({ table, column }) => ({ table: dataset.tables.get(table), column }));
  const examples = await encodeTargets(model.serialiser, targets);
  const logits = await allLogits(model.logitsOf, examples, model.labels.length);
  return { columns: labelled.map(({ label }) => ({ label, types: typesOf(name, label) })), logits };
}

/** The most probable type of each column, however unsure. @param flatten divides the logits, which are calibrated as the model is */
function answersOf(model, { columns, logits }, flatten = 1) {
  const classes = model.labels.length;
  const flat = flatten === 1 ? logits : logits.map((value) => value / flatten);
  const predictions = predictionsOf(flat, classes, model.labels.indexOf(model.none));
  return columns.map((column, i) => ({
    ...column,
    type: model.labels[predictions[i].label],
    confidence: predictions[i].confidence,
  }));
}

/** How far confidence is from the share of right names, over columns of shared types and others alike. */
function calibrationError(answers) {
  return expectedCalibrationError(
    answers.map(({ confidence }) => confidence),
    answers.map(({ type, types }) => types?.includes(type) ?? false),
  );
}

const share = (part, whole) => (whole === 0 ? "–" : (part / whole).toFixed(3));

function figuresOf(answers, threshold) {
  const known = answers.filter(({ types }) => types !== null);
  const foreign = answers.filter(({ types }) => types === null);
  const named = (list) => list.filter(({ confidence }) => confidence >= threshold);
  const right = (list) => named(list).filter(({ type, types }) => types?.includes(type));
  return {
    columns: known.length,
    coverage: share(named(known).length, known.length),
    accuracy: share(right(known).length, named(known).length),
    foreign: foreign.length,
    falseClaims: share(named(foreign).length, foreign.length),
    precision: share(right(known).length, named(answers).length),
  };
}

function perLabel(answers, threshold) {
  const labels = [...new Set(answers.map(({ label }) => label))].sort();
  return labels.map((label) => {
    const of = answers.filter((answer) => answer.label === label);
    const named = of.filter(({ confidence }) => confidence >= threshold);
    const counts = {};
    for (const { type } of named) counts[type] = (counts[type] ?? 0) + 1;
    const common = Object.entries(counts)
      .sort(([, a], [, b]) => b - a)
      .slice(0, 3)
      .map(([type, n]) => `${type} ${n}`);
    const { types } = of[0];
    const right = named.filter(({ type }) => types?.includes(type)).length;
    return {
      label,
      types: types?.join("|") ?? null,
      columns: of.length,
      named: named.length,
      right,
      common: common.join(", "),
    };
  });
}

const model = await loadDefaultModel({ dir: given.model });
const threshold = given.threshold === undefined ? model.abstainBelow : Number(given.threshold);
for (const entry of given.data) {
  const [name, dir] = [entry.slice(0, entry.indexOf("=")), entry.slice(entry.indexOf("=") + 1)];
  const set = await columnsOf(model, name, dir);
  const answers = answersOf(model, set);
  console.log(`\n${name}, ${given.split}: ${answers.length} columns`);
  for (const t of given.sweep
    ? [0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99]
    : [threshold])
    console.log(`  from confidence ${t.toFixed(2)}: ${JSON.stringify(figuresOf(answers, t))}`);
  if (given.sweep) {
    console.log("  calibration error with logits divided by 1, 1.5, …:");
    for (let flatten = 1; flatten <= 5; flatten += 0.5)
      console.log(`    ${flatten}: ${calibrationError(answersOf(model, set, flatten)).toFixed(3)}`);
  }
  const rows = perLabel(answers, threshold);
  for (const row of rows.filter(({ types }) => types))
    console.log(
      `  ${row.label} → ${row.types}: ${row.columns} columns, ${row.named} named, ${row.right} right (${row.common})`,
    );
  console.log("  not shown, named all the same:");
  for (const row of rows.filter(({ types, named }) => !types && named > 0))
    console.log(`  ${row.label}: ${row.named} of ${row.columns} (${row.common})`);
}
model.dispose();
