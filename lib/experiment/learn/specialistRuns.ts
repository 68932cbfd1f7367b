import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Dataset } from "../../data/types.js";
import { trainSpecialist } from "../../train/specialistRun.js";
import type { CellContext } from "../cells.js";
import type { LearnPlan } from "./plan.js";

/** What specialists are trained on. */
export interface SpecialistData {
  plan: LearnPlan;
  dataset: Dataset;
  /** What stacked specialists read besides. */
  other: Dataset | null;
  /** Share of the sites to hold out. */
  holdOut?: number;
}

/** Trains specialists of the plan by name, each in a run folder `<dir>/<name>`; those that are there stay. */
export async function trainSpecialists(
  dir: string,
  names: readonly string[],
  { plan, dataset, other, holdOut }: SpecialistData,
  { signal, onProgress }: CellContext,
): Promise<void> {
  for (const name of names) {
    const out = join(dir, name);
    if (existsSync(join(out, "best"))) continue;
    // One that was interrupted before its weights were written.
    await rm(out, { recursive: true, force: true });
    const { kind, options } = plan.specialists[name]!;
    const others = kind === "stacked" && other ? [other] : [];
    // Nothing learns on their training columns: no fits without them are needed.
    const all = { ...(kind === "format" ? {} : plan.ngrams), ...options, folds: 0 };
    await trainSpecialist({ kind, dataset, others, holdOut, options: all, out, signal, onProgress });
  }
}
