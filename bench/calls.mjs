// What a call from JavaScript into the addon costs.
import { spawnSync } from "node:child_process";

/** Best nanoseconds a call over several rounds. */
function perCall(call, rounds = 15, calls = 20_000) {
  let best = Infinity;
  for (let round = 0; round < rounds; round++) {
    const start = process.hrtime.bigint();
    for (let i = 0; i < calls; i++) call();
    best = Math.min(best, Number(process.hrtime.bigint() - start) / calls);
  }
  return best;
}

const PYTHON_ADD = `
import time, torch
torch.set_num_threads(1)
x, y = torch.ones(1), torch.ones(1)
best = float("inf")
for _ in range(15):
    start = time.perf_counter_ns()
    for _ in range(20000): x + y
    best = min(best, (time.perf_counter_ns() - start) / 20000)
print(best)
`;

async function run({ addon, python }) {
  console.log("\nCalls, nanoseconds");
  const x = addon.Tensor.fromData([1], [1], "f32");
  const y = addon.Tensor.fromData([1], [1], "f32");
  const property = perCall(() => x.numel);
  const shape = perCall(() => x.shape);
  const add = perCall(() => x.add(y).dispose());
  const empty = addon.noop ? perCall(() => addon.noop()) : null;
  const expected = x.add(y);
  const right = expected.item() === 2;
  for (const each of [x, y, expected]) each.dispose();
  if (!right) {
    console.log("  no figures: 1 + 1 is not 2");
    return null;
  }
  const torchAdd = python
    ? Number(spawnSync(python.command, ["-c", PYTHON_ADD], { encoding: "utf8", env: python.env }).stdout)
    : null;
  const line = (what, value, wanted) =>
    console.log(`  ${what.padEnd(34)} ${value.toFixed(0).padStart(7)}   wanted ${wanted}`);
  if (empty !== null) line("empty call", empty, "60");
  line("tensor property (numel)", property, "200");
  line("tensor property (shape, an array)", shape, "200");
  line(
    "one-element add, freed",
    add,
    torchAdd ? `${(1.5 * torchAdd).toFixed(0)} = 1.5 x Python torch's` : "-",
  );
  return { case: "calls", title: "Calls", nanoseconds: { empty, property, shape, add, torchAdd } };
}

export const callCases = [{ name: "calls", run }];
