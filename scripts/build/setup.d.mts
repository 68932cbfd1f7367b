import type { FoundLibtorch } from "./libtorch.mjs";

export interface SetUp {
  libtorch: FoundLibtorch;
  addon: string;
  kind: "built" | "prebuilt";
}

export const isClone: boolean;

export function setUp(options?: {
  /** Directory of the libtorch to use. */
  option?: string;
  /** Compile even where a binary fits. */
  rebuild?: boolean;
  /** Show the compiler's output. */
  verbose?: boolean;
  log?: (line: string) => void;
}): SetUp;
export function runScript(body: () => SetUp): void;
