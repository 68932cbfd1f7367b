// A wide and long table through the command line with the default model: 200 columns of everyday types by 10,000 rows, on two cores. Figures
// are printed where the command says of every column what the model says of it within this process.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const WIDTH = 200;
const ROWS = 10_000;
/** Of a confidence: other batches, other sums. */
const TOLERANCE = 1e-4;
const wanted = { seconds: 10, megabytes: 1000 };

/** Columns of generated tables side by side, each repeated down to the last row. */
async function writeTable(file) {
  const { generateDataset } = await import("../dist/index.js");
  const { EVERYDAY_DOMAINS } = await import("../dist/data/generator.js");
  const { formatRecord } = await import("../dist/data/csvWrite.js");
  const domains = Object.keys(EVERYDAY_DOMAINS);
  const { tables } = await generateDataset({ tables: 80, rows: 600, seed: 7, domains, variety: 0.5 });
  const columns = [...tables.values()].flatMap((table) => table.columns).slice(0, WIDTH);
  const lines = [formatRecord(columns.map(({ header }, i) => `${header} ${i}`))];
  for (let row = 0; row < ROWS; row++)
    lines.push(formatRecord(columns.map(({ cells }) => cells[row % cells.length])));
  fs.writeFileSync(file, lines.join(""));
  return columns.length;
}

/** Seconds from start to end of the command, and its peak resident memory in MB. */
function command(file, out, peak) {
  // Not maxRSS, which a process takes over from the one that starts it.
  const report = `import{readFileSync,writeFileSync}from"node:fs";process.on("exit",()=>writeFileSync(${JSON.stringify(peak)},readFileSync("/proc/self/status")))`;
  const start = performance.now();
  const run = spawnSync(
    process.execPath,
    [
      "--import",
      `data:text/javascript,${encodeURIComponent(report)}`,
      path.join(root, "dist/cli/main.js"),
      "annotate",
      file,
      "--json",
      "--quiet",
      "--out",
      out,
    ],
    { encoding: "utf8", env: { ...process.env, OMP_NUM_THREADS: "1" } },
  );
  const seconds = (performance.now() - start) / 1000;
  if (run.status !== 0) throw new Error(`annotate failed:\n${run.stderr}`);
  const [, kilobytes] = /^VmHWM:\s*(\d+) kB/m.exec(fs.readFileSync(peak, "utf8"));
  return { seconds, megabytes: Number(kilobytes) / 1024 };
}

/** The parts one after another in this process, in seconds, and what the model says. */
async function parts(file) {
  const { annotateTable, loadDefaultModel, readCsv } = await import("../dist/index.js");
  const { encodeTargets } = await import("../dist/train/examples.js");
  const times = [performance.now()];
  const model = await loadDefaultModel();
  times.push(performance.now());
  const table = await readCsv(file);
  times.push(performance.now());
  await encodeTargets(
    model.serialiser,
    table.columns.map((_, column) => ({ table, column })),
  );
  times.push(performance.now());
  const columns = await annotateTable(model, table);
  times.push(performance.now());
  model.dispose();
  const names = ["load", "parse", "serialise", "serialise again and forward"];
  return {
    columns,
    parts: Object.fromEntries(names.map((name, i) => [name, (times[i + 1] - times[i]) / 1000])),
  };
}

const name = "annotate-wide";
const title = `Annotating a CSV file of ${WIDTH} columns by ${ROWS} rows with the default model, two cores`;

async function run({ quick }) {
  console.log(`\n${title}`);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aegir-bench-"));
  try {
    const file = path.join(folder, "wide.csv");
    await writeTable(file);
    const out = path.join(folder, "types.json");
    const runs = Array.from({ length: quick ? 1 : 3 }, () => command(file, out, path.join(folder, "peak")));
    const said = JSON.parse(fs.readFileSync(out, "utf8"));
    const alone = await parts(file);
    const differs = said.findIndex(({ type, confidence }, i) => {
      const other = alone.columns[i];
      return type !== other.type || !(Math.abs(confidence - other.confidence) <= TOLERANCE);
    });
    if (said.length !== WIDTH || differs >= 0) {
      console.log(`  no figures: ${said.length} columns, the first that differs: ${differs}`);
      return null;
    }
    const seconds = Math.min(...runs.map((each) => each.seconds));
    const megabytes = Math.max(...runs.map((each) => each.megabytes));
    const size = fs.statSync(file).size / 1e6;
    const shares = Object.entries(alone.parts).map(([part, s]) => `${part} ${s.toFixed(2)} s`);
    console.log(
      `  ${size.toFixed(1)} MB: ${seconds.toFixed(2)} s (wanted: under ${wanted.seconds}), peak ${megabytes.toFixed(0)} MB (wanted: under ${wanted.megabytes})`,
    );
    console.log(`  alone on one thread: ${shares.join(", ")}`);
    return { case: name, title, megabytesOfCsv: size, seconds, peakMegabytes: megabytes, parts: alone.parts };
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

export const annotateWideCases = [{ name, run }];
