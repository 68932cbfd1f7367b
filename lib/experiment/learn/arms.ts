import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Dataset } from "../../data/types.js";
import {
  labelledRefs,
  trainNgramSpecialist,
  trainStackedSpecialist,
  withoutHeldOutSites,
} from "../../specialists/index.js";
import type { DataSource } from "../../train/dataSource.js";
import { distill } from "../../train/distill.js";
import { type Head, specialistHead } from "../../train/heads.js";
import { loadRun } from "../../train/loadRun.js";
import { trainSupervised } from "../../train/supervised.js";
import { Scope } from "../../train/tensors.js";
import type { CellContext } from "../cells.js";
import type { LearnPlan } from "./plan.js";

/** The data of one training: all of it, or a part for the learning curve. */
export interface Study {
  plan: LearnPlan;
  seed: number;
  dataset: Dataset;
  cpa: Dataset | null;
  /** Tables that are read without their labels, beside those of `dataset`. */
  unlabelled: readonly DataSource[];
  /** Folder of its runs. */
  dir: string;
  /** The run that teaches as "labels", where that is not the study's own. */
  labelsRun?: string;
}

/** A system that is trained once a seed and leaves a run in `<study.dir>/<id>`, by which it is scored. */
export interface Arm {
  id: string;
  title: string;
  /** What it learns from. */
  saw: (plan: LearnPlan) => string;
  /** Arms whose runs it reads. */
  needs: (plan: LearnPlan) => string[];
  steps: (plan: LearnPlan) => number;
  train: (study: Study, context: CellContext) => Promise<void>;
}

const labels: Arm = {
  id: "labels",
  title: "net, labels alone",
  saw: () => "labels",
  needs: () => [],
  steps: ({ train }) => train.steps ?? 0,
  train: async (study, context) => {
    const { plan, dataset, seed } = study;
    const run = { ...plan.train, ...shared(study, "labels", context), dataset, seed };
    (await trainSupervised(run)).model.dispose();
  },
};

const distilled: Arm = {
  id: "distilled",
  title: "net, distilled",
  saw: ({ teachers }) =>
    `labels, unlabelled columns, teachers ${teachers.join(" + ")}${teachers.includes("stacked") ? " (CPA labels)" : ""}`,
  needs: ({ teachers }) => (teachers.includes("labels") ? ["labels"] : []),
  steps: ({ train, distill: { steps } }) => steps ?? train.steps ?? 0,
  train: async (study, context) => {
    const { plan, dataset, seed, unlabelled } = study;
    using scope = new Scope();
    const teachers = await teachersOf(study, scope, context);
    const settings = { ...plan.train, ...plan.distill, ...shared(study, "distilled", context) };
    (await distill({ ...settings, dataset, seed, teachers, unlabelled })).model.dispose();
  },
};

/**
 * What is trained with every seed. A further system is a further entry: a swarm, for instance, which trains its specialists and its
 * router in `train` and leaves a run of kind "parl"; nothing else has to know of it.
 */
export const ARMS: readonly Arm[] = [labels, distilled];

async function teachersOf(study: Study, scope: Scope, { signal }: CellContext): Promise<Head[]> {
  const { plan, dataset, cpa, labelsRun = join(study.dir, "labels") } = study;
  const [train, validation] = [labelledRefs(dataset, "train"), labelledRefs(dataset, "validation")];
  const data = { train, validation, labels: dataset.labels };
  const heads: Head[] = [];
  for (const name of plan.teachers) {
    if (name === "labels") heads.push(scope.keep(await loadRun(labelsRun, { name })));
    if (name === "ngram") {
      const specialist = await trainNgramSpecialist(data, { ...plan.ngrams, folds: 0 }, { signal });
      heads.push(specialistHead(name, dataset.task, specialist));
    }
    if (name === "stacked" && cpa) {
      const others = [{ name: cpa.task, train: withoutHeldOutSites(cpa, dataset) }];
      const settings = { ...plan.ngrams, folds: 0 };
      const specialist = await trainStackedSpecialist({ ...data, others }, settings, { signal });
      heads.push(specialistHead(name, dataset.task, specialist));
    }
  }
  return heads;
}

/** What every training is given; one that began before goes on. */
function shared({ plan, dir }: Study, id: string, { signal, onProgress }: CellContext) {
  const out = join(dir, id);
  const resume = existsSync(join(out, "config.json"));
  return { model: plan.model, serialise: plan.serialise, out, resume, task: id, signal, onProgress };
}
