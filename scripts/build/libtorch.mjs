// Finds, gets and links libtorch. Plain JavaScript: the install script runs before TypeScript is compiled.
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { fileURLToPath } from "node:url";

export const packageRoot = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
/** The one place through which the addon reaches libtorch: its RUNPATH is relative to it. */
export const libtorchLink = path.join(packageRoot, "libtorch");
export const downloadVersion = "2.13.0";
export const supportedMinors = ["2.11", "2.12", "2.13", "2.14"];
export const setupCommand = "npx aegir-swarm setup";

/** An error that `AegirError` takes over with its code. */
export class LibtorchError extends Error {
  code = "ERR_LIBTORCH";
}

/** "2.13" of "2.13.0+cpu"; null where the text is no version. */
export function minorOf(version) {
  return /^(\d+\.\d+)/.exec(version)?.[1] ?? null;
}

/** Directories in which libtorch is kept when the package gets it itself; the first writable one is used. */
export function cacheDirectories(env = process.env, root = packageRoot) {
  const home = env.HOME === undefined ? os.homedir() : env.HOME;
  const base = env.XDG_CACHE_HOME || (home && path.join(home, ".cache"));
  const local = path.join(root, ".libtorch");
  return base ? [path.join(base, "aegir-swarm"), local] : [local];
}

/**
 * What lies in a directory with include/ and lib/ of libtorch (a torch wheel's `torch/` or the unpacked zip).
 * @throws LibtorchError where it is no libtorch.
 */
export function describeLibtorch(directory) {
  const library = path.join(directory, "lib", "libtorch_cpu.so");
  if (!fs.existsSync(library)) {
    throw new LibtorchError(`${directory}: no libtorch (expected ${library})`);
  }
  const version = readVersion(directory);
  if (!version)
    throw new LibtorchError(`${directory}: a libtorch without a version (version.py, build-version)`);
  return {
    path: directory,
    realPath: fs.realpathSync(directory),
    version,
    minor: minorOf(version),
    cuda: fs.existsSync(path.join(directory, "lib", "libtorch_cuda.so")),
  };
}

function readVersion(directory) {
  const read = (...parts) => {
    const file = path.join(directory, ...parts);
    return fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "";
  };
  return (
    /^__version__ = ['"]([^'"]+)['"]/m.exec(read("version.py"))?.[1] ||
    read("build-version").trim() ||
    /TORCH_VERSION\s*\\?\s*"([^"]+)"/.exec(read("include", "torch", "headeronly", "version.h"))?.[1]
  );
}

/** @throws LibtorchError naming the version there and the versions that serve. */
export function requireSupported(libtorch) {
  if (supportedMinors.includes(libtorch.minor)) return libtorch;
  throw new LibtorchError(
    `${libtorch.path}: torch ${libtorch.version} does not serve (expected ${supportedMinors[0]} to ${supportedMinors.at(-1)}); ` +
      `point AEGIR_LIBTORCH at another one and run '${setupCommand}', or run it without AEGIR_LIBTORCH to get torch ${downloadVersion}`,
  );
}

/**
 * The first libtorch in the order option → AEGIR_LIBTORCH → LIBTORCH → cache → active Python's torch, or null.
 * What the user named must serve; what was merely found is passed over with its reason in `skipped`.
 */
export function findLibtorch({ option, env = process.env, root = packageRoot, skipped = [] } = {}) {
  const named = [
    ["option", option],
    ["AEGIR_LIBTORCH", env.AEGIR_LIBTORCH],
    ["LIBTORCH", env.LIBTORCH],
  ];
  for (const [source, directory] of named) {
    if (!directory) continue;
    try {
      return { ...requireSupported(describeLibtorch(path.resolve(directory))), source };
    } catch (error) {
      throw new LibtorchError(`${source === "option" ? "--libtorch" : source}: ${error.message}`);
    }
  }
  for (const [source, directory] of foundDirectories(env, root)) {
    try {
      return { ...requireSupported(describeLibtorch(directory)), source };
    } catch (error) {
      skipped.push(`${source}: ${error.message}`);
    }
  }
  return null;
}

function* foundDirectories(env, root) {
  for (const cache of cacheDirectories(env, root)) {
    if (!fs.existsSync(cache)) continue;
    const versions = fs.readdirSync(cache).filter((name) => /^torch-\d[^~]*$/.test(name));
    versions.sort((a, b) => Number(b === cachedName) - Number(a === cachedName) || (a < b ? 1 : -1));
    for (const version of versions) yield ["cache", path.join(cache, version, "torch")];
  }
  const directory = pythonTorch(env);
  if (directory) yield ["python", directory];
}

const cachedName = `torch-${downloadVersion}`;

/** The directory of the active Python's torch package, found without importing it. */
export function pythonTorch(env = process.env) {
  const script =
    "import importlib.util as u; s = u.find_spec('torch'); print(list(s.submodule_search_locations)[0] if s else '')";
  for (const python of ["python3", "python"]) {
    const run = spawnSync(python, ["-c", script], { env, encoding: "utf8", timeout: 30_000 });
    if (run.status === 0) return run.stdout.trim() || null;
  }
  return null;
}

/** Gets torch with pip into the first writable cache directory; what the user configured for pip applies. */
export function downloadLibtorch({ env = process.env, root = packageRoot, log = console.error } = {}) {
  const cache = writableDirectory(cacheDirectories(env, root));
  const target = path.join(cache, cachedName);
  const python = pythonWithPip(env);
  const partial = `${target}~${process.pid}`;
  const spec = `torch==${downloadVersion}`;
  log(`getting ${spec} with pip into ${target}`);
  try {
    // C++ needs torch's own files alone; a CUDA build also links the runtime libraries that its dependencies bring.
    pipInstall(python, env, partial, [spec, "--no-deps"]);
    if (describeLibtorch(path.join(partial, "torch")).cuda) pipInstall(python, env, partial, [spec]);
    fs.rmSync(target, { recursive: true, force: true });
    fs.renameSync(partial, target);
  } finally {
    fs.rmSync(partial, { recursive: true, force: true });
  }
  return { ...requireSupported(describeLibtorch(path.join(target, "torch"))), source: "cache" };
}

function pipInstall(python, env, target, what) {
  const args = ["-m", "pip", "install", "--no-compile", "--disable-pip-version-check", "--no-input"];
  const run = spawnSync(python, [...args, "--target", target, ...what], {
    env,
    encoding: "utf8",
    // pip's progress goes to stderr: stdout belongs to the command that asked.
    stdio: ["ignore", 2, "pipe"],
  });
  if (run.status === 0) return;
  const said = (run.stderr || run.error?.message || "").trim().split("\n").slice(-6).join("\n  ");
  throw new LibtorchError(
    `'${python} ${args.join(" ")} ${what.join(" ")}' failed; install torch ${downloadVersion} yourself and ` +
      `name its directory: '${setupCommand} --libtorch DIR'\n  ${said}`,
  );
}

function pythonWithPip(env) {
  const candidates = ["python3", "python", "/usr/bin/python3"];
  for (const python of candidates) {
    if (spawnSync(python, ["-m", "pip", "--version"], { env, stdio: "ignore" }).status === 0) return python;
  }
  throw new LibtorchError(
    `no libtorch found, and no Python with pip to get it with (tried ${candidates.join(", ")}); ` +
      `install python3 and pip, or name a libtorch: '${setupCommand} --libtorch DIR'`,
  );
}

function writableDirectory(directories) {
  const causes = [];
  for (const directory of directories) {
    try {
      fs.mkdirSync(directory, { recursive: true });
      fs.accessSync(directory, fs.constants.W_OK);
      return directory;
    } catch (error) {
      causes.push(error.message);
    }
  }
  throw new LibtorchError(`no writable directory for libtorch: ${causes.join("; ")}; set XDG_CACHE_HOME`);
}

/** Points `<package root>/libtorch` at a libtorch, replacing the link in one step. */
export function linkLibtorch(libtorch, link = libtorchLink) {
  if (fs.existsSync(link) && fs.realpathSync(link) === libtorch.realPath) return;
  const made = `${link}~${process.pid}`;
  try {
    fs.symlinkSync(libtorch.realPath, made);
    fs.renameSync(made, link);
  } catch (error) {
    fs.rmSync(made, { force: true });
    throw new LibtorchError(
      `cannot link ${link} to ${libtorch.realPath}: ${error.message}; run '${setupCommand}' as a user who may write there`,
    );
  }
}

/** The libtorch behind the link, or null where there is none that serves, with the reason in `skipped`. */
export function linkedLibtorch(link = libtorchLink, skipped = []) {
  if (!fs.lstatSync(link, { throwIfNoEntry: false })) return null;
  try {
    return { ...requireSupported(describeLibtorch(link)), source: "link" };
  } catch (error) {
    skipped.push(error.message);
    return null;
  }
}

/**
 * Makes the link: to what the user names, else to what it already serves, else to what is found, else to what pip gets.
 * `download: false` throws in place of getting it.
 */
export function ensureLibtorch({ option, env = process.env, log = console.error, download = true } = {}) {
  const named = option || env.AEGIR_LIBTORCH || env.LIBTORCH;
  const skipped = [];
  const linked = named ? null : linkedLibtorch(libtorchLink, skipped);
  if (linked) return linked;
  let found = findLibtorch({ option, env, skipped });
  if (!found) {
    for (const reason of skipped) log(`passed over ${reason}`);
    if (!download) {
      throw new LibtorchError(
        `no libtorch found (AEGIR_LIBTORCH, LIBTORCH, ${cacheDirectories(env).join(", ")}, the active Python's torch` +
          `${skipped.length ? `; passed over ${skipped.join("; ")}` : ""}); run '${setupCommand}'`,
      );
    }
    found = downloadLibtorch({ env, log });
  }
  linkLibtorch(found);
  return found;
}
