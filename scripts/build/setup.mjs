// What `npm install`, `aegir-swarm setup` and the build share: libtorch linked, and an addon that loads on it.
import * as fs from "node:fs";
import * as path from "node:path";
import { addonCandidates, buildAddon, probeAddon } from "./compile.mjs";
import { ensureLibtorch, LibtorchError, packageRoot } from "./libtorch.mjs";

/** A clone has the TypeScript sources: its addon follows the sources beside it, and no earlier binary stands for them. */
export const isClone = fs.existsSync(path.join(packageRoot, "lib"));

/**
 * Finds or gets libtorch, then takes the first binary that was built for its minor and loads, else compiles one.
 * @throws LibtorchError with every cause gathered.
 */
export function setUp({ option, rebuild = isClone, verbose = false, log = console.error } = {}) {
  const libtorch = ensureLibtorch({ option, log });
  log(`libtorch ${libtorch.version} in ${libtorch.realPath}`);
  const causes = [];
  const fitting = rebuild ? [] : addonCandidates().filter(({ record }) => record?.torch === libtorch.minor);
  for (const candidate of fitting) {
    const failure = probeAddon(candidate.path);
    if (!failure) return { libtorch, addon: candidate.path, kind: candidate.kind };
    causes.push(`${candidate.path}: ${failure}`);
  }
  for (const cause of causes) log(`passed over ${cause}`);
  log("compiling the addon (a few minutes)");
  const addon = buildAddon(libtorch, { verbose });
  const failure = probeAddon(addon);
  if (failure) throw new LibtorchError([...causes, `${addon}: ${failure}`].join("; "));
  return { libtorch, addon, kind: "built" };
}

/** Runs a script's body: an error of ours is one line, and the exit code says it failed. */
export function runScript(body) {
  try {
    const { addon } = body();
    console.error(`addon: ${path.relative(packageRoot, addon)}`);
  } catch (error) {
    if (!(error instanceof LibtorchError)) throw error;
    console.error(`error [${error.code}]: ${error.message}`);
    process.exitCode = 1;
  }
}
