import { fileURLToPath } from "node:url";
import { AegirError } from "../errors.js";
import { readAbstention } from "./abstention.js";
import { type LoadedRun, type LoadRunOptions, loadRun } from "./loadRun.js";

/** The model that comes with the package: of everyday types, learnt from generated tables alone (docs/training.md). */
export interface DefaultModel extends LoadedRun {
  /** Below this confidence it names no type. */
  abstainBelow: number;
}

export type DefaultModelOptions = LoadRunOptions & {
  /** Another folder made as the package's own is. */
  dir?: string;
};

const PACKAGED = fileURLToPath(new URL("../../models/default", import.meta.url));

/**
 * The default model, for `annotateTable` and `annotateFiles`, which leave a column without a type where it is unsure. The caller disposes
 * it. `labels` holds its types and `none`, the label that stands for no type.
 * @throws AegirError ERR_CHECKPOINT where the folder or a file of it is missing or damaged
 */
export async function loadDefaultModel({
  dir = PACKAGED,
  ...options
}: DefaultModelOptions = {}): Promise<DefaultModel> {
  const run = await loadRun(dir, { name: "default", ...options });
  const abstention = await readAbstention(dir);
  if (abstention) return { ...run, abstainBelow: abstention.threshold };
  run.dispose();
  throw new AegirError("ERR_CHECKPOINT", `${dir}: no threshold to abstain below (best/abstention.json)`);
}
