// npm run bench [-- --quick] [-- CASE …]
//
// Every case compares with the same work done another way, PyTorch in Python on the same libtorch where there is one, in the same run,
// alternating. A case whose results differ from the reference's prints no figure. Results go to bench/results/*.json.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

// Read by OpenMP when the addon is loaded below; lanes set their own numbers.
process.env.OMP_NUM_THREADS = "1";

import { annotateCases } from "./annotate.mjs";
import { annotateWideCases } from "./annotateWide.mjs";
import { callCases } from "./calls.mjs";
import { decodeCases } from "./decode.mjs";
import { laneCases } from "./lanes.mjs";
import { lossCases } from "./loss.mjs";
import { ngramCases } from "./ngrams.mjs";
import { operatorCases } from "./operators.mjs";
import { findPython } from "./python.mjs";
import { scalingCases } from "./scaling.mjs";
import { nativeSgemm } from "./sgemm.mjs";
import { sparseCases } from "./sparse.mjs";
import { timeMixCases } from "./timeMix.mjs";
import { trainingCases } from "./training.mjs";
import { wkv7FormCases } from "./wkv7.mjs";

const cases = [
  ...operatorCases,
  ...wkv7FormCases,
  ...ngramCases,
  ...lossCases,
  ...timeMixCases,
  ...trainingCases,
  ...decodeCases,
  ...annotateCases,
  ...annotateWideCases,
  ...callCases,
  ...laneCases,
  ...scalingCases,
  ...sparseCases,
];

async function contextOf(quick) {
  const { loadAddon } = await import("../dist/native/load.js");
  const { addon, libtorch } = loadAddon();
  const python = findPython(libtorch);
  if (!python.command)
    console.log(`No Python with torch ${libtorch.version} (${python.reason}): absolute figures only.`);
  const generator = new addon.Generator(1);
  const sgemm = nativeSgemm(addon, generator);
  generator.dispose();
  const { simd } = addon.info();
  const processor = os.cpus()[0]?.model ?? "unknown processor";
  console.log(`torch ${libtorch.version}, ${simd}, ${processor}`);
  return {
    addon,
    python: python.command ? python : null,
    quick,
    sgemm,
    machine: { torch: libtorch.version, simd, processor },
  };
}

function writeResults(machine, results) {
  const folder = path.join(path.dirname(fileURLToPath(import.meta.url)), "results");
  fs.mkdirSync(folder, { recursive: true });
  const file = path.join(folder, `${new Date().toISOString().replace(/[:.]/g, "-")}.json`);
  fs.writeFileSync(file, `${JSON.stringify({ ...machine, results }, null, 2)}\n`);
  console.log(`\nwritten to ${path.relative(process.cwd(), file)}`);
}

async function main() {
  const { values: options, positionals } = parseArgs({
    allowPositionals: true,
    options: { quick: { type: "boolean", default: false } },
  });
  const unknown = positionals.find((name) => !cases.some((each) => each.name === name));
  if (unknown) throw new Error(`no case "${unknown}"; there are ${cases.map(({ name }) => name).join(", ")}`);
  const context = await contextOf(options.quick);
  const results = [];
  let failures = 0;
  for (const { name, run } of cases) {
    if (positionals.length > 0 && !positionals.includes(name)) continue;
    const record = await run(context);
    if (record) results.push(record);
    else failures++;
  }
  writeResults(context.machine, results);
  process.exitCode = failures > 0 ? 1 : 0;
}

await main();
