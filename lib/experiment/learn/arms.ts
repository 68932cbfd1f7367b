import { join } from "node:path";
import { distill } from "../../train/distill.js";
import type { Head } from "../../train/heads.js";
import { loadRun } from "../../train/loadRun.js";
import { trainSupervised } from "../../train/supervised.js";
import { Scope } from "../../train/tensors.js";
import type { CellContext } from "../cells.js";
import { type Arm, runSettings, type Study } from "./arm.js";
import { sameLabels } from "./sameLabelsArm.js";
import { swarm } from "./swarmArm.js";

const labels: Arm = {
  id: "labels",
  title: "net, labels alone",
  saw: () => "labels",
  needs: () => [],
  specialists: () => [],
  onCurve: true,
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
  specialists: ({ teachers }) => teachers.filter((name) => name !== "labels"),
  onCurve: true,
  steps: ({ train, distill: { steps } }) => steps ?? train.steps ?? 0,
  train: async (study, context) => {
    const { plan, dataset, seed, unlabelled } = study;
    using scope = new Scope();
    const teachers = await teachersOf(study, scope);
    const settings = { ...plan.train, ...plan.distill, ...shared(study, "distilled", context) };
    (await distill({ ...settings, dataset, seed, teachers, unlabelled })).model.dispose();
  },
};

/** What is trained with every seed. */
export const ARMS: readonly Arm[] = [labels, distilled, sameLabels, swarm];

async function teachersOf(study: Study, scope: Scope): Promise<Head[]> {
  const { plan, cpa, labelsRun = join(study.dir, "labels") } = study;
  const heads: Head[] = [];
  for (const name of plan.teachers) {
    if (name === "stacked" && !cpa) continue;
    const run = name === "labels" ? labelsRun : join(study.specialists, name);
    heads.push(scope.keep(await loadRun(run, { name })));
  }
  return heads;
}

function shared({ plan, dir }: Study, id: string, context: CellContext) {
  return { ...runSettings(join(dir, id), plan, context), task: id };
}
