import type { Libtorch } from "./libtorch.mjs";

export interface AddonRecord {
  /** The torch minor that the binary serves, and the version it was built against. */
  torch: string;
  torchVersion: string;
  napi: number;
  built: string;
}

export interface AddonCandidate {
  path: string;
  kind: "built" | "prebuilt";
  record: AddonRecord | null;
}

export const builtAddon: string;
export const prebuiltDirectory: string;
export const napiVersion: number;

export function recordPath(addon: string): string;
export function readRecord(addon: string): AddonRecord | null;
export function writeRecord(addon: string, libtorch: Libtorch): void;
export function addonCandidates(): AddonCandidate[];
/** null where it loaded in a child process, else what went wrong. */
export function probeAddon(addon: string): string | null;
export function buildAddon(libtorch: Libtorch, options?: { verbose?: boolean }): string;
