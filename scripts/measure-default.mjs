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
import { annotateTable } from "../dist/train/annotate.js";
import { loadDefaultModel } from "../dist/train/defaultModel.js";

const here = path.dirname(fileURLToPath(import.meta.url));
const { values: given } = parseArgs({
  options: {
    data: { type: "string", multiple: true, default: [] },
    split: { type: "string", default: "validation" },
    model: { type: "string" },
    threshold: { type: "string" },
    sweep: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
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

/** Every labelled column with the most probable type, however unsure. */
async function answersOf(model, name, dir) {
  const dataset = await openDataset(dir, { task: "cta" });
  const columnsOf = Map.groupBy
    ? Map.groupBy(dataset.splits[given.split], ({ table }) => table)
    : dataset.splits[given.split].reduce(
        (map, column) => map.set(column.table, [...(map.get(column.table) ?? []), column]),
        new Map(),
      );
  const answers = [];
  for (const [table, labelled] of columnsOf) {
    const columns = labelled.map(({ column }) => column);
    const said = await annotateTable(model, dataset.tables.get(table), { columns, abstainBelow: 0 });
    for (const [i, { label }] of labelled.entries())
      answers.push({
        label,
        types: typesOf(name, label),
        type: said[i].type,
        confidence: said[i].confidence,
      });
  }
  return answers;
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
  const answers = await answersOf(model, name, dir);
  console.log(`\n${name}, ${given.split}: ${answers.length} columns`);
  for (const t of given.sweep
    ? [0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99]
    : [threshold])
    console.log(`  from confidence ${t.toFixed(2)}: ${JSON.stringify(figuresOf(answers, t))}`);
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
