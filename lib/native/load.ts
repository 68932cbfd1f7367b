import { createRequire } from "node:module";
import { type AddonCandidate, addonCandidates } from "../../scripts/build/compile.mjs";
import { type FoundLibtorch, setupCommand } from "../../scripts/build/libtorch.mjs";
import { AegirError, messageOf } from "../errors.js";
import type { NativeAddon } from "./contract.js";
import { defineLayout } from "./layout.js";
import { libtorchInUse } from "./libtorch.js";

export interface LoadedAddon {
  addon: NativeAddon;
  path: string;
  kind: "built" | "prebuilt";
  libtorch: FoundLibtorch;
}

let loaded: LoadedAddon | undefined;

/**
 * The native addon, loaded at the first call.
 * @throws AegirError ERR_LIBTORCH with every cause, where libtorch is missing or wrong or no binary loads.
 */
export function native(): NativeAddon {
  return loadAddon().addon;
}

/** The addon with what it was loaded from. */
export function loadAddon(): LoadedAddon {
  if (!loaded) {
    loaded = loadFrom(addonCandidates(), libtorchInUse());
    loaded.addon.setErrorClass(AegirError);
  }
  return loaded;
}

/** Loads the first candidate that was built for this libtorch; versions are compared before anything is opened. */
export function loadFrom(candidates: AddonCandidate[], libtorch: FoundLibtorch): LoadedAddon {
  const require = createRequire(import.meta.url);
  const causes: string[] = [];
  let cause: unknown;
  for (const { path, kind, record } of candidates) {
    const reason = unfit(record, libtorch);
    if (reason) {
      causes.push(`${path}: ${reason}`);
      continue;
    }
    try {
      const addon = require(path) as NativeAddon;
      addon.setErrorClass(AegirError);
      defineLayout(addon.Tensor);
      return { addon, path, kind, libtorch };
    } catch (error) {
      cause ??= error;
      causes.push(`${path}: ${messageOf(error)}`);
    }
  }
  if (candidates.length === 0) causes.push("none was built and none came with the package");
  throw new AegirError(
    "ERR_LIBTORCH",
    `no native addon for torch ${libtorch.version} (${libtorch.realPath}): ${causes.join("; ")}; run '${setupCommand}'`,
    { cause },
  );
}

/** Why a binary with this record does not serve, or null where it does. */
function unfit(record: AddonCandidate["record"], libtorch: FoundLibtorch): string | null {
  if (!record) return "no record of the torch that it was built for";
  if (record.torch !== libtorch.minor) {
    return `built for torch ${record.torch}, and libtorch here is ${libtorch.version}`;
  }
  const napi = Number(process.versions.napi);
  if (record.napi > napi) return `needs Node-API ${record.napi}, and this Node.js has ${napi}`;
  return null;
}
