// Which binaries of the addon there are, and how one is compiled: cmake-js, into build/Release.
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as os from "node:os";
import * as path from "node:path";
import { LibtorchError, packageRoot, setupCommand } from "./libtorch.mjs";

export const builtAddon = path.join(packageRoot, "build", "Release", "aegir_swarm.node");
export const prebuiltDirectory = path.join(packageRoot, "prebuilds", `${process.platform}-${process.arch}`);
export const napiVersion = 8;

/** The record beside a binary: what it was built for. It is read before the binary is loaded. */
export function recordPath(addon) {
  return addon.replace(/\.node$/, ".json");
}

export function readRecord(addon) {
  try {
    return JSON.parse(fs.readFileSync(recordPath(addon), "utf8"));
  } catch {
    return null;
  }
}

export function writeRecord(addon, libtorch) {
  const record = {
    torch: libtorch.minor,
    torchVersion: libtorch.version,
    napi: napiVersion,
    built: new Date(),
  };
  fs.writeFileSync(recordPath(addon), `${JSON.stringify(record, null, 2)}\n`);
}

/** Binaries that are there, the one built here first, each with its record (null where it has none). */
export function addonCandidates() {
  const prebuilt = fs.existsSync(prebuiltDirectory)
    ? fs
        .readdirSync(prebuiltDirectory)
        .filter((name) => name.endsWith(".node"))
        .sort()
    : [];
  return [
    ...(fs.existsSync(builtAddon) ? [{ path: builtAddon, kind: "built" }] : []),
    ...prebuilt.map((name) => ({ path: path.join(prebuiltDirectory, name), kind: "prebuilt" })),
  ].map((candidate) => ({ ...candidate, record: readRecord(candidate.path) }));
}

/**
 * Loads a binary in a child process, so that one that crashes takes nothing with it.
 * @returns null where it loaded, else what went wrong.
 */
export function probeAddon(addon) {
  const script = "process.dlopen({ exports: {} }, process.argv[1]); process.stdout.write('loaded')";
  const run = spawnSync(process.execPath, ["-e", script, addon], { encoding: "utf8", timeout: 120_000 });
  if (run.stdout === "loaded") return null;
  const said = /Error: (.*)/.exec(run.stderr)?.[1];
  return said ?? `${addon}: the process loading it ended with ${run.signal ?? `exit code ${run.status}`}`;
}

/** One for each processor, as long as each compiler finds the memory that libtorch's headers take. */
function parallelJobs() {
  const bytesPerJob = 2 * 2 ** 30;
  return Math.max(1, Math.min(os.availableParallelism(), Math.floor(os.freemem() / bytesPerJob)));
}

/** @throws LibtorchError where AEGIR_BUILD_JOBS is no number of compilers */
function buildJobs() {
  const given = process.env.AEGIR_BUILD_JOBS;
  if (!given) return String(parallelJobs());
  if (/^[1-9]\d{0,3}$/.test(given)) return given;
  throw new LibtorchError(
    `AEGIR_BUILD_JOBS was '${given}', expected how many compilers run at once: a whole number from 1 to 9999; ` +
      "unset it to have one for each processor",
  );
}

/** @throws LibtorchError where a tool is missing or the compiler fails. */
export function buildAddon(libtorch, { verbose = false } = {}) {
  requireTools();
  const jobs = buildJobs();
  // The version is a compile definition: another libtorch behind the same link makes every object be built again.
  const version = `--CDAEGIR_TORCH_VERSION=${libtorch.version}`;
  // Every part reads libtorch's headers once: more parts than processors are work for nothing. Of the machine, not
  // of this build's jobs: another number would make every object be built again.
  const units = `--CDAEGIR_UNITS=${Math.min(4, Math.max(2, os.availableParallelism()))}`;
  const common = ["--directory", packageRoot, version, units];
  configure(common, verbose);
  cmakeJs("build", [...common, "--parallel", jobs], verbose);
  writeRecord(builtAddon, libtorch);
  return builtAddon;
}

/** A build folder of another place or generator cannot be configured again: it is made anew. */
function configure(args, verbose) {
  const folder = path.join(packageRoot, "build");
  const old = fs.existsSync(path.join(folder, "CMakeCache.txt"));
  try {
    cmakeJs("configure", args, verbose);
  } catch (error) {
    if (!old) throw error;
    fs.rmSync(folder, { recursive: true, force: true });
    cmakeJs("configure", args, verbose);
  }
}

function requireTools() {
  const missing = ["cmake", "c++", "make|ninja"].filter(
    (tool) =>
      !tool.split("|").some((name) => spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0),
  );
  if (missing.length === 0) return;
  throw new LibtorchError(
    `building the addon needs ${missing.join(", ").replace("make|ninja", "ninja or make")} (on Debian or Ubuntu: ` +
      `'apt-get install g++ cmake ninja-build'); then run '${setupCommand}'`,
  );
}

function cmakeJs(command, args, verbose) {
  const require = createRequire(import.meta.url);
  const manifest = require.resolve("cmake-js/package.json");
  const program = path.join(path.dirname(manifest), require("cmake-js/package.json").bin["cmake-js"]);
  const run = spawnSync(process.execPath, [program, command, ...args], {
    cwd: packageRoot,
    // With paths relative to the package, ccache serves one clone with what it kept of another.
    env: { CCACHE_BASEDIR: packageRoot, CCACHE_NOHASHDIR: "1", ...process.env },
    encoding: "utf8",
    stdio: verbose ? ["ignore", 2, 2] : ["ignore", "pipe", "pipe"],
    maxBuffer: 1 << 28,
  });
  if (run.status === 0) return;
  if (!verbose) process.stderr.write(`${run.stdout}${run.stderr}`);
  throw new LibtorchError(
    `cmake-js ${command} failed (its output is above); mend it and run '${setupCommand}'`,
  );
}
