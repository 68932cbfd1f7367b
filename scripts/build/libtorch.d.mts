export interface Libtorch {
  /** Directory with include/ and lib/, as it was named, and with links resolved. */
  path: string;
  realPath: string;
  /** "2.13.0+cpu" and "2.13". */
  version: string;
  minor: string;
  /** Whether it was built with CUDA. */
  cuda: boolean;
}

export type LibtorchSource = "option" | "AEGIR_LIBTORCH" | "LIBTORCH" | "cache" | "python" | "link";
export type FoundLibtorch = Libtorch & { source: LibtorchSource };
export type Environment = Record<string, string | undefined>;

export class LibtorchError extends Error {
  readonly code: "ERR_LIBTORCH";
}

export const packageRoot: string;
export const libtorchLink: string;
export const downloadVersion: string;
export const supportedMinors: readonly string[];
export const setupCommand: string;

export function minorOf(version: string): string | null;
export function cacheDirectories(env?: Environment, root?: string): string[];
export function describeLibtorch(directory: string): Libtorch;
export function requireSupported<L extends Libtorch>(libtorch: L): L;
export function findLibtorch(options?: {
  option?: string;
  env?: Environment;
  root?: string;
  /** Filled with the reasons for which a libtorch that was found is passed over. */
  skipped?: string[];
}): FoundLibtorch | null;
export function pythonTorch(env?: Environment): string | null;
export function downloadLibtorch(options?: {
  env?: Environment;
  root?: string;
  log?: (line: string) => void;
}): FoundLibtorch;
export function linkLibtorch(libtorch: Libtorch, link?: string): void;
export function linkedLibtorch(link?: string, skipped?: string[]): FoundLibtorch | null;
export function ensureLibtorch(options?: {
  option?: string;
  env?: Environment;
  log?: (line: string) => void;
  download?: boolean;
}): FoundLibtorch;
