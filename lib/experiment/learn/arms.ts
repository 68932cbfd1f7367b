import { join } from "node:path";
import { parametersOf } from "../../specialists/index.js";
import { distill } from "../../train/distill.js";
import type { Head } from "../../train/heads.js";
import { loadRun } from "../../train/loadRun.js";
import { type PretrainOptions, pretrain } from "../../train/pretrain.js";
import { trainSupervised } from "../../train/supervised.js";
import { Scope } from "../../train/tensors.js";
import type { CellContext } from "../cells.js";
import { answersOf } from "./answers.js";
import { type Arm, runSettings, type Study } from "./arm.js";
import type { LearnPlan, TeacherName } from "./plan.js";
import { primary, swarms } from "./swarmArm.js";

/** The strongest linear classifier, trained once for all seeds. */
const stacked: Arm = {
  id: "stacked",
  title: "stacked specialist",
  saw: (_, other) => (other ? `labels, ${other} labels` : "labels"),
  needs: () => [],
  specialists: () => ["stacked"],
  onCurve: true,
  steps: () => 10,
  train: async () => {},
  async answers({ dataset, specialists }, split, context) {
    using run = await loadRun(join(specialists, "stacked"));
    const { learned } = run.specialist!;
    const answers = await answersOf([run], dataset, split, context);
    return { ...answers, tau: learned.tau, parameters: parametersOf(run.specialist!) };
  },
};

const labels: Arm = {
  id: "labels",
  title: "net, labels alone",
  saw: () => "labels",
  needs: () => [],
  specialists: () => [],
  onCurve: false,
  steps: ({ train }) => train.steps ?? 0,
  train: async (study, context) => {
    const { plan, dataset, other, seed } = study;
    const init = plan.pretrain && (await pretrained(study, plan.pretrain, context));
    const also = plan.also && other ? [{ name: other.task, dataset: other }] : [];
    const run = { ...plan.train, ...shared(study, "labels", context), dataset, seed, init, also };
    (await trainSupervised(run)).model.dispose();
  },
};

const distilled: Arm = {
  id: "distilled",
  title: "net, distilled",
  saw: ({ teachers }, other) =>
    `labels, unlabelled columns, teachers ${teachers.join(" + ")}${other && teachers.includes("stacked") ? ` (${other} labels)` : ""}`,
  needs: ({ teachers }) => teachers.filter(isArm),
  specialists: linearTeachers,
  onCurve: true,
  steps: ({ train, distill: { steps } }) => steps ?? train.steps ?? 0,
  train: (study, context) =>
    trainDistilled("distilled", study, study.plan.teachers, study.plan.distill, context),
};

/** The distilled net's stand-in while a swarm learns. */
const standIn: Arm = {
  id: "stand-in",
  title: "net, distilled, some sites held out",
  saw: ({ standIn: { holdOut } }) =>
    `as the distilled net, but for ${Math.round(100 * holdOut)} % of the sites`,
  means: true,
  needs: () => [],
  specialists: () => [],
  standIns: linearTeachers,
  onCurve: false,
  steps: ({ standIn: { steps } }) => steps ?? 0,
  train: (study, context) => {
    const { plan, standIns } = study;
    const settings = { ...plan.distill, ...plan.standIn };
    return trainDistilled(
      "stand-in",
      { ...study, specialists: standIns },
      linearTeachers(plan),
      settings,
      context,
    );
  },
};

/** What is trained with every seed. */
export const ARMS: readonly Arm[] = [stacked, labels, distilled, standIn, primary, ...swarms];

/** Teachers that are arms themselves; the others are linear specialists. */
function isArm(name: TeacherName): name is "labels" | "swarm" {
  return name === "labels" || name === "swarm";
}

function linearTeachers({ teachers }: LearnPlan): TeacherName[] {
  return teachers.filter((name) => !isArm(name));
}

/** The folder of the finished run. */
async function pretrained(study: Study, options: PretrainOptions, context: CellContext): Promise<string> {
  const { out, ...settings } = shared(study, "pretrained", context);
  const { dataset, seed } = study;
  (await pretrain({ ...options, ...settings, out, dataset, seed })).model.dispose();
  return out;
}

async function trainDistilled(
  id: string,
  study: Study,
  names: readonly TeacherName[],
  settings: LearnPlan["distill"],
  context: CellContext,
): Promise<void> {
  const { plan, dataset, seed, unlabelled } = study;
  using scope = new Scope();
  const teachers = await teachersOf(study, names, scope);
  const run = { ...plan.train, ...settings, ...shared(study, id, context) };
  (await distill({ ...run, dataset, seed, teachers, unlabelled })).model.dispose();
}

async function teachersOf(study: Study, names: readonly TeacherName[], scope: Scope): Promise<Head[]> {
  const { dir, whole = dir } = study;
  const heads: Head[] = [];
  for (const name of names) {
    const run = join(isArm(name) ? whole : study.specialists, name);
    heads.push(scope.keep(await loadRun(run, { name })));
  }
  return heads;
}

function shared({ plan, dir }: Study, id: string, context: CellContext) {
  return { ...runSettings(join(dir, id), plan, context), task: id };
}
