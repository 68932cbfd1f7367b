// Tries the packed package as other projects meet it: with a prebuilt binary that fits, with none, and with install
// scripts blocked. Needs the registry (or npm's cache) for the package's dependencies: `npm run test:install`.
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { prebuiltDirectory } from "./build/compile.mjs";
import { ensureLibtorch, packageRoot } from "./build/libtorch.mjs";

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aegir-install-"));
const libtorch = ensureLibtorch();
const env = { ...process.env, AEGIR_LIBTORCH: libtorch.realPath, npm_config_prefer_offline: "true" };
for (const name of Object.keys(env))
  if (name.startsWith("npm_") && name !== "npm_config_prefer_offline") delete env[name];

function run(cwd, command, args, { fails = false, ...more } = {}) {
  const done = spawnSync(command, args, {
    cwd,
    env: { ...env, ...more },
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  if ((done.status !== 0) === fails) return done;
  throw new Error(
    `'${command} ${args.join(" ")}' in ${cwd} ended with ${done.status}\n${done.stdout}${done.stderr}`,
  );
}

function check(condition, message) {
  if (!condition) throw new Error(message);
}

/** A new project with the tarball installed; the packages folder of it. */
function project(name, tarball, args = []) {
  const cwd = path.join(folder, name);
  fs.mkdirSync(cwd);
  fs.writeFileSync(path.join(cwd, "package.json"), JSON.stringify({ name, private: true, type: "module" }));
  run(cwd, "npm", ["install", "--no-audit", "--no-fund", ...args, tarball]);
  return { cwd, installed: path.join(cwd, "node_modules/aegir-swarm") };
}

/** The addon that a program of the project gets, through the public entry and the command line. */
function addonOf(cwd, more = {}) {
  run(cwd, process.execPath, ["--input-type=module", "-e", "await import('aegir-swarm')"], more);
  return JSON.parse(run(cwd, "npx", ["--no-install", "aegir-swarm", "doctor", "--json"], more).stdout);
}

function pack() {
  run(packageRoot, "npm", ["run", "prebuild"]);
  const packed = run(packageRoot, "npm", ["pack", "--json", "--pack-destination", folder]);
  const [{ filename, files }] = JSON.parse(packed.stdout.slice(packed.stdout.indexOf("[")));
  const paths = files.map((file) => file.path);
  const stray = paths.filter((file) => /^(build|libtorch|lib|test|node_modules|runs)\//.test(file));
  check(stray.length === 0, `the tarball holds ${stray.join(", ")}`);
  const prebuilt = path.relative(packageRoot, prebuiltDirectory);
  check(
    paths.some((file) => file.startsWith(prebuilt) && file.endsWith(".node")),
    "the tarball has no prebuilt",
  );
  return path.join(folder, filename);
}

/** The same package whose prebuilt binaries say that they are for a torch which is not here. */
function withoutFit(tarball) {
  const at = path.join(folder, "other");
  fs.mkdirSync(at);
  run(at, "tar", ["-xzf", tarball]);
  const directory = path.join(at, "package", path.relative(packageRoot, prebuiltDirectory));
  for (const name of fs.readdirSync(directory).filter((file) => file.endsWith(".json"))) {
    const record = JSON.parse(fs.readFileSync(path.join(directory, name), "utf8"));
    fs.writeFileSync(path.join(directory, name), JSON.stringify({ ...record, torch: "2.0" }));
  }
  run(at, "tar", ["-czf", "other.tgz", "package"]);
  return path.join(at, "other.tgz");
}

const tried = [
  [
    "a prebuilt that fits: loads, nothing is compiled",
    ({ tarball }) => {
      const { cwd, installed } = project("fits", tarball);
      const { addon } = addonOf(cwd);
      check(addon.kind === "prebuilt", `loaded ${addon.path}`);
      check(!fs.existsSync(path.join(installed, "build")), "something was compiled");
    },
  ],
  [
    "install scripts blocked, a prebuilt that fits: the first use links libtorch and loads",
    ({ tarball }) => {
      const { cwd, installed } = project("blocked", tarball, ["--ignore-scripts"]);
      check(!fs.existsSync(path.join(installed, "libtorch")), "an install script ran");
      check(addonOf(cwd).addon.kind === "prebuilt", "the prebuilt was not loaded");
    },
  ],
  [
    "install scripts blocked, no prebuilt that fits: one error with the command, which mends it",
    ({ other }) => {
      const { cwd } = project("mended", other, ["--ignore-scripts"]);
      const doctor = run(cwd, "npx", ["--no-install", "aegir-swarm", "doctor"], { fails: true });
      check(
        /\[ERR_LIBTORCH\].*built for torch 2\.0.*run 'npx aegir-swarm setup'/.test(doctor.stdout),
        doctor.stdout,
      );
      run(cwd, "npx", ["--no-install", "aegir-swarm", "setup"]);
      check(addonOf(cwd).addon.kind === "built", "setup did not build");
    },
  ],
  [
    "no prebuilt that fits: npm install builds from source",
    ({ other }) => {
      const { cwd } = project("source", other);
      check(addonOf(cwd).addon.kind === "built", "nothing was built");
    },
  ],
];

let failed = 0;
try {
  const tarball = pack();
  const packages = { tarball, other: withoutFit(tarball) };
  for (const [name, attempt] of tried) {
    const start = Date.now();
    try {
      attempt(packages);
      console.log(`passed (${((Date.now() - start) / 1000).toFixed(0)} s): ${name}`);
    } catch (error) {
      failed++;
      console.log(`FAILED: ${name}\n${error.message}`);
    }
  }
} finally {
  fs.rmSync(folder, { recursive: true, force: true });
}
console.log(`${tried.length - failed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
