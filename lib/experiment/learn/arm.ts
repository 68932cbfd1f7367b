import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Dataset } from "../../data/types.js";
import type { DataSource } from "../../train/dataSource.js";
import type { CellContext } from "../cells.js";
import type { ScoredSplit, SystemResult } from "./answers.js";
import type { LearnPlan, Recipe } from "./plan.js";

/** The data of one training: all of it, or a part for the learning curve. */
export interface Study {
  plan: LearnPlan;
  seed: number;
  dataset: Dataset;
  /** Labels of the other task. */
  other: Dataset | null;
  /** Tables that are read without their labels, beside those of `dataset`. */
  unlabelled: readonly DataSource[];
  /** Folder of its runs. */
  dir: string;
  /** Folder of the linear specialists' runs, which seeds share, and of those that stand in for them where sites are held out. */
  specialists: string;
  standIns: string;
  /** Folder of the arms' runs that teach, where that is not `dir`. */
  whole?: string;
}

/** A system that is trained once a seed and leaves a run in `<study.dir>/<id>`, by which it is scored unless it has `answers`. */
export interface Arm {
  id: string;
  title: string;
  /** What it learns from. @param other the other task's name, in capitals; null where there are no labels of it */
  saw: (plan: LearnPlan, other: string | null) => string;
  /** Arms whose runs it reads. */
  needs: (plan: LearnPlan) => string[];
  /** Linear specialists that it reads, and those of which it reads the stand-ins. */
  specialists: (plan: LearnPlan) => string[];
  standIns?: (plan: LearnPlan) => string[];
  /** Trained for other arms alone: no line of the report. */
  means?: true;
  /** Whether it is trained on parts of the labels too. */
  onCurve: boolean;
  steps: (plan: LearnPlan) => number;
  train: (study: Study, context: CellContext) => Promise<void>;
  answers?: (study: Study, split: ScoredSplit, context: CellContext) => Promise<SystemResult>;
}

/** What every training is given; one that began before goes on. */
export function runSettings(
  out: string,
  { model, serialise }: Pick<Recipe, "model" | "serialise">,
  { signal, onProgress }: CellContext,
) {
  const resume = existsSync(join(out, "config.json"));
  return { model, serialise, out, resume, signal, onProgress };
}
