// The operators against plain PyTorch in Python on the same libtorch: same inputs, one thread, one run, alternating.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { cases } from "./cases.mjs";
import { seededRandom } from "./random.mjs";
import { runNative, timeNative, worstError } from "./timed.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
/** float32 over some hundred dependent steps, relative to the largest value. */
const TOLERANCE = 1e-3;

function runPython(python, folder, benchCase, inputs, weight) {
  const shapes = { ...benchCase.shapes(), weight: benchCase.outputShape };
  const { operator, inputs: names, repeats } = benchCase;
  fs.writeFileSync(
    path.join(folder, "task.json"),
    JSON.stringify({ operator, inputs: names, shapes, repeats }),
  );
  for (const [name, values] of Object.entries({ ...inputs, weight })) {
    fs.writeFileSync(path.join(folder, `${name}.f32`), values);
  }
  const script = path.join(here, "reference", "operators.py");
  const run = spawnSync(python.command, [script, folder], { encoding: "utf8", env: python.env });
  if (run.status !== 0) throw new Error(`${script} failed:\n${run.stderr}`);
  const report = JSON.parse(fs.readFileSync(path.join(folder, "results.json"), "utf8"));
  for (const [index, form] of report.forms.entries()) {
    form.values = [0, ...names.keys()].map((_, i) => {
      const bytes = fs.readFileSync(path.join(folder, `form${index}.${i}.f32`));
      return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
    });
  }
  return report;
}

function milliseconds(value) {
  return `${(value * 1000).toFixed(value < 0.01 ? 2 : 1)} ms`.padStart(10);
}

function printForm(name, form, native) {
  const ratio = (of) => `${(form[of] / native[of]).toFixed(1)}x`.padStart(7);
  const ratios = form === native ? ["", ""] : [ratio("forward"), ratio("both")];
  const cells = [
    name.padEnd(24),
    milliseconds(form.forward),
    ratios[0].padStart(7),
    milliseconds(form.both),
    ratios[1],
  ];
  console.log(`  ${cells.join(" ")}`);
}

function printRates(benchCase, native, sgemm) {
  if (!benchCase.flops) return;
  const rates = ["forward", "both"].map((of) => {
    const rate = (benchCase.flops[of] / native[of]) * 1e-9;
    return `${of === "both" ? "forward + backward" : of} ${rate.toFixed(1)} GFLOP/s = ${((100 * rate) / sgemm).toFixed(0)} % of sgemm`;
  });
  console.log(`  ${rates.join(", ")} (${sgemm.toFixed(1)} GFLOP/s)`);
}

async function compareWithReference(addon, lane, benchCase, inputs, weight, values) {
  const expected = await runNative(addon, lane, benchCase, inputs, weight, { reference: true });
  return worstError(values, expected.values);
}

async function runCase(addon, lane, benchCase, { python, quick, sgemm }) {
  const random = seededRandom(20260101);
  const arrays = benchCase.makeInputs(random);
  const count = benchCase.outputShape.reduce((a, b) => a * b);
  const weightArray = Float32Array.from({ length: count }, random.normal);
  const tensor = (values, shape) => addon.Tensor.fromData(values, shape, "f32");
  const shapes = benchCase.shapes();
  const inputs = Object.fromEntries(
    benchCase.inputs.map((name) => [name, tensor(arrays[name], shapes[name])]),
  );
  const weight = tensor(weightArray, benchCase.outputShape);
  const repeats = quick ? 5 : 20;
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aegir-bench-"));
  try {
    const before = await timeNative(addon, lane, benchCase, inputs, weight, repeats);
    const sized = { ...benchCase, repeats: quick ? 2 : benchCase.repeats };
    const report = python ? runPython(python, folder, sized, arrays, weightArray) : { sgemm, forms: [] };
    const after = await timeNative(addon, lane, benchCase, inputs, weight, repeats);
    const native = {
      forward: Math.min(before.forward, after.forward),
      both: Math.min(before.both, after.both),
      values: (await runNative(addon, lane, benchCase, inputs, weight)).values,
    };
    const errors = python
      ? report.forms.map((form) => worstError(native.values, form.values))
      : [await compareWithReference(addon, lane, benchCase, inputs, weight, native.values)];
    return { native, report, errors };
  } finally {
    fs.rmSync(folder, { recursive: true });
    for (const each of [...Object.values(inputs), weight]) each.dispose();
  }
}

function printCase(benchCase, { native, report, errors }) {
  console.log(`\n${benchCase.title}`);
  const failed = errors.findIndex((error) => !(error <= TOLERANCE));
  if (failed >= 0) {
    const against = report.forms[failed]?.name ?? "the reference";
    console.log(`  no figures: results differ from ${against} by ${errors[failed]} relative to the largest`);
    return null;
  }
  console.log(`  ${"".padEnd(24)} ${"forward".padStart(10)} ${"".padStart(7)} ${"fwd + bwd".padStart(10)}`);
  printForm("aegir-swarm", native, native);
  for (const form of report.forms) printForm(form.name, form, native);
  printRates(benchCase, native, report.sgemm);
  if (benchCase.wanted) console.log(`  wanted: ${benchCase.wanted}`);
  const times = ({ name, forward, both }) => ({ name, forward, both });
  return {
    case: benchCase.name,
    title: benchCase.title,
    sgemm: report.sgemm,
    largestError: Math.max(...errors),
    forms: [times({ name: "aegir-swarm", ...native }), ...report.forms.map(times)],
  };
}

/** Cases of the bench: each runs by itself and returns its record, or null where results differ. */
export const operatorCases = cases.map((benchCase) => ({
  name: benchCase.name,
  async run(context) {
    const lane = new context.addon.Lane({ name: "bench", threads: 1 });
    try {
      return printCase(benchCase, await runCase(context.addon, lane, benchCase, context));
    } finally {
      await lane.close();
    }
  },
}));
