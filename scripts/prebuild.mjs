// Makes prebuilds/<platform>-<arch>/ with prebuildify: one binary for the torch minor behind ./libtorch, and its record.
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as path from "node:path";
import { builtAddon, prebuiltDirectory, probeAddon, readRecord, writeRecord } from "./build/compile.mjs";
import { ensureLibtorch, packageRoot } from "./build/libtorch.mjs";

const libtorch = ensureLibtorch();
const require = createRequire(import.meta.url);
const program = path.join(path.dirname(require.resolve("prebuildify")), "bin.js");
const name = `aegir-swarm.torch-${libtorch.minor}`;
const run = spawnSync(process.execPath, [program, "--napi", "--strip", "--name", name], {
  cwd: packageRoot,
  // prebuildify knows node-gyp's command line alone; the shim answers it with cmake-js.
  env: { ...process.env, PREBUILD_NODE_GYP: path.join(packageRoot, "scripts/prebuild-shim.mjs") },
  stdio: "inherit",
});
if (run.status !== 0) process.exit(run.status ?? 1);

const prebuilt = path.join(prebuiltDirectory, `${name}.node`);
writeRecord(prebuilt, libtorch);
// prebuildify moved the binary away; the clone goes on with its own.
fs.copyFileSync(prebuilt, builtAddon);
const failure = probeAddon(prebuilt);
if (failure) throw new Error(failure);
console.log(`${path.relative(packageRoot, prebuilt)}: torch ${readRecord(prebuilt).torch}`);
