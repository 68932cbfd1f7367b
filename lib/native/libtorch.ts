import {
  ensureLibtorch,
  type FoundLibtorch,
  findLibtorch,
  LibtorchError,
  libtorchLink,
  linkedLibtorch,
} from "../../scripts/build/libtorch.mjs";
import { AegirError } from "../errors.js";

/** Runs a function of the build scripts; its errors come out as AegirError ERR_LIBTORCH. */
export function asAegirError<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof LibtorchError) throw new AegirError(error.code, error.message, { cause: error });
    throw error;
  }
}

/**
 * The libtorch that the addon runs on: the one linked at setup, else one that is found (design: option →
 * AEGIR_LIBTORCH → LIBTORCH → cache → active Python) and linked now. Nothing is downloaded here.
 * @throws AegirError ERR_LIBTORCH naming what was looked at and the command that mends it.
 */
export function libtorchInUse(): FoundLibtorch {
  const linked = linkedLibtorch();
  return linked ?? asAegirError(() => ensureLibtorch({ download: false, log: () => {} }));
}

/** Where the libtorch in use comes from: the first place in the order of search that names it, else the setup's option. */
export function sourceOf(libtorch: FoundLibtorch): string {
  if (libtorch.source !== "link") return libtorch.source;
  try {
    const found = findLibtorch();
    if (found?.realPath === libtorch.realPath) return found.source;
  } catch {
    // A variable that names no libtorch is the doctor's to report, not a reason to call the linked one wrong.
  }
  return `link (${libtorchLink})`;
}

/** Says so where AEGIR_LIBTORCH or LIBTORCH names another libtorch than the one in use, or none; else null. */
export function namedElsewhere(libtorch: FoundLibtorch): string | null {
  const name = process.env.AEGIR_LIBTORCH ? "AEGIR_LIBTORCH" : "LIBTORCH";
  if (!process.env[name]) return null;
  try {
    const named = findLibtorch();
    return named?.realPath === libtorch.realPath
      ? null
      : `${name} names torch ${named?.version} in ${named?.path}`;
  } catch (error) {
    return (error as Error).message;
  }
}
