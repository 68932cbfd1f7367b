import { join } from "node:path";
import type { Dataset } from "../../data/types.js";
import { parametersOf, trainBaselines } from "../../specialists/index.js";
import type { DataSource } from "../../train/dataSource.js";
import { specialistHead } from "../../train/heads.js";
import type { Cell, CellContext } from "../cells.js";
import { answersOf, answersOfRuns, type ScoredSplit, type SystemResult } from "./answers.js";
import type { Arm, Study } from "./arm.js";
import { ARMS } from "./arms.js";
import type { Ablation, LearnPlan } from "./plan.js";
import { type SpecialistData, trainSpecialists } from "./specialistRuns.js";
import { withTrainingColumns } from "./subset.js";

/** Seconds that the n-gram baselines take, in steps of a net. */
const BASELINE_COST = 300;
/** Keys of the linear specialists' parts, and names of their folders. */
export const SPECIALISTS = "specialists";
export const STAND_INS = "stand-ins";
/** Systems of one run, whose probabilities have a mean. */
export const ENSEMBLES = ARMS.filter(({ answers, means }) => !answers && !means);
/** Of ablations and the learning curve, which are trained once. */
export const ONE_SEED = 0;

export interface LearnData {
  dataset: Dataset;
  /** Labels of the other task. */
  other: Dataset | null;
  unlabelled: readonly DataSource[];
}

/** The parts of the experiment. Trainings are scored on validation; a reported test split is a part of its own, beside them. */
export class LearnCells {
  constructor(
    private readonly plan: LearnPlan,
    private readonly out: string,
    private readonly data: LearnData,
  ) {}

  all(seeds: number, split: ScoredSplit): Cell[] {
    const numbers = Array.from({ length: seeds }, (_, seed) => seed);
    const names = Object.keys(this.plan.specialists);
    const shared = this.study(0);
    const validation = [
      this.baselines("validation"),
      this.specialists(shared.specialists, SPECIALISTS, names, shared),
      this.specialists(shared.standIns, STAND_INS, names, { ...shared, holdOut: this.plan.standIn.holdOut }),
      ...numbers.flatMap((seed) => ARMS.map((arm) => this.arm(arm, this.study(seed), `seed-${seed}`))),
      ...this.ensembles(seeds, "validation"),
      ...this.plan.ablations.map((ablation) => this.ablation(ablation)),
      ...this.counts().flatMap((count) => this.curvePoint(count)),
    ];
    if (split === "validation") return validation;
    return [
      ...validation,
      this.baselines("test"),
      ...numbers.flatMap((seed) => ARMS.map((arm) => this.armOnTest(arm, seed))),
      ...this.ensembles(seeds, "test"),
    ];
  }

  /** Points of the learning curve below the whole training split. */
  counts(): number[] {
    return curveCounts(this.plan, this.data.dataset.splits.train.length);
  }

  private study(seed: number): Study {
    const runs = join(this.out, "runs");
    const [dir, specialists, standIns] = [
      join(runs, `seed-${seed}`),
      join(runs, SPECIALISTS),
      join(runs, STAND_INS),
    ];
    return { plan: this.plan, seed, ...this.data, dir, specialists, standIns };
  }

  private specialists(dir: string, key: string, names: readonly string[], data: SpecialistData): Cell {
    const run = async (context: CellContext) => {
      await trainSpecialists(dir, names, data, context);
      return { specialists: names };
    };
    return this.scoring(key, [], run, BASELINE_COST * names.length);
  }

  private arm(arm: Arm, study: Study, prefix: string): Cell {
    return {
      key: `${prefix}/${arm.id}`,
      needs: this.needsOf(arm, study.plan, prefix, prefix.startsWith("curve") ? `${prefix}/` : ""),
      cost: arm.steps(study.plan),
      run: async (context) => {
        await arm.train(study, context);
        return answersOfArm(arm, study, "validation", context);
      },
    };
  }

  /** @param own prefix of the specialists' key */
  private needsOf(arm: Arm, plan: LearnPlan, prefix: string, own: string): string[] {
    const specialists = arm.specialists(plan).length > 0 ? [own + SPECIALISTS] : [];
    const standIns = (arm.standIns?.(plan) ?? []).length > 0 ? [STAND_INS] : [];
    return [...specialists, ...standIns, ...arm.needs(plan).map((id) => `${prefix}/${id}`)];
  }

  private armOnTest(arm: Arm, seed: number): Cell {
    const key = `seed-${seed}/${arm.id}`;
    return this.scoring(`test/${key}`, [key], (context) =>
      answersOfArm(arm, this.study(seed), "test", context),
    );
  }

  private ensembles(seeds: number, split: ScoredSplit): Cell[] {
    if (seeds < 2) return [];
    return ENSEMBLES.map(({ id }) => {
      const members = Array.from({ length: seeds }, (_, seed) => join(this.study(seed).dir, id));
      const needs = members.map((_, seed) => `seed-${seed}/${id}`);
      return this.scoring(ensembleKey(id, seeds, split), needs, (context) =>
        answersOfRuns(members, this.data.dataset, split, context),
      );
    });
  }

  private baselines(split: ScoredSplit): Cell {
    const { dataset, other } = this.data;
    return this.scoring(
      baselinesKey(split),
      [],
      (context) => baselineResults(this.plan, dataset, other, split, context),
      BASELINE_COST,
    );
  }

  private ablation(ablation: Ablation): Cell {
    const { name, of, teachers = this.plan.teachers } = ablation;
    const plan: LearnPlan = {
      ...this.plan,
      model: { ...this.plan.model, ...ablation.model },
      serialise: { ...this.plan.serialise, ...ablation.serialise },
      train: { ...this.plan.train, ...ablation.train },
      distill: { ...this.plan.distill, ...ablation.distill },
      teachers,
      also: ablation.also,
      pretrain: ablation.pretrain,
    };
    const key = ablationKey(name);
    const arm = ARMS.find(({ id }) => id === of)!;
    const dir = join(this.out, "runs", key);
    const whole = this.study(ONE_SEED);
    // Taught by nets and swarm as the plan has them: the change is the student's.
    const study: Study = { ...whole, plan, dir, whole: whole.dir };
    return {
      key,
      needs: this.needsOf(arm, plan, `seed-${ONE_SEED}`, ""),
      cost: arm.steps(plan),
      run: async (context) => {
        await arm.train(study, context);
        return answersOfRuns([join(dir, of)], study.dataset, "validation", context);
      },
    };
  }

  /** Baseline and every arm on a part of the labels; the columns that lose theirs are unlabelled ones. */
  private curvePoint(count: number): Cell[] {
    const prefix = curvePrefix(count);
    const dataset = withTrainingColumns(this.data.dataset, count, ONE_SEED);
    const dir = join(this.out, "runs", prefix);
    const study: Study = { ...this.study(ONE_SEED), dataset, dir, specialists: join(dir, SPECIALISTS) };
    const baseline = this.scoring(
      `${prefix}/baselines`,
      [],
      (context) => baselineResults(this.plan, dataset, null, "validation", context),
      BASELINE_COST,
    );
    const shown = ARMS.filter(({ onCurve }) => onCurve);
    const arms = [...new Set(shown.flatMap((arm) => armsNeeded(arm, this.plan)))];
    const names = [...new Set(arms.flatMap((arm) => arm.specialists(this.plan)))];
    const specialists = this.specialists(study.specialists, `${prefix}/${SPECIALISTS}`, names, study);
    return [baseline, specialists, ...arms.map((arm) => this.arm(arm, study, prefix))];
  }

  private scoring(
    key: string,
    needs: string[],
    run: (context: CellContext) => Promise<unknown>,
    cost = 10,
  ): Cell {
    return { key, needs, cost, run };
  }
}

function answersOfArm(
  { id, answers }: Arm,
  study: Study,
  split: ScoredSplit,
  context: CellContext,
): Promise<SystemResult> {
  if (answers) return answers(study, split, context);
  return answersOfRuns([join(study.dir, id)], study.dataset, split, context);
}

/** By the baseline's name. */
async function baselineResults(
  { ngrams }: LearnPlan,
  dataset: Dataset,
  other: Dataset | null,
  split: ScoredSplit,
  { signal, onProgress }: CellContext,
): Promise<Record<string, SystemResult>> {
  const options = { features: ngrams, ...(other ? { other } : {}) };
  const results: Record<string, SystemResult> = {};
  for (const { name, specialist, cpuSeconds } of await trainBaselines(dataset, options, { signal })) {
    const head = specialistHead(name, dataset.task, specialist);
    const answers = await answersOf([head], dataset, split, { signal, onProgress });
    const { tau } = specialist.learned;
    results[name] = { ...answers, tau, parameters: parametersOf(specialist), cpuSeconds };
  }
  return results;
}

/** An arm, and those whose runs it reads. */
export function armsNeeded(arm: Arm, plan: LearnPlan): Arm[] {
  const needs = arm.needs(plan).map((id) => ARMS.find((each) => each.id === id)!);
  return [...new Set([arm, ...needs.flatMap((each) => armsNeeded(each, plan))])];
}

export function baselinesKey(split: ScoredSplit): string {
  return split === "test" ? "test/baselines" : "baselines";
}

export function armKey(id: string, seed: number, split: ScoredSplit): string {
  return `${split === "test" ? "test/" : ""}seed-${seed}/${id}`;
}

export function ensembleKey(id: string, seeds: number, split: ScoredSplit): string {
  return `${split === "test" ? "test/" : ""}ensemble-${seeds}/${id}`;
}

export function ablationKey(name: string): string {
  return `ablations/${name.replace(/[^a-z0-9]+/gi, "-")}`;
}

/** Points below the whole training split, each once, from the smallest on. */
export function curveCounts({ curve }: Pick<LearnPlan, "curve">, trainColumns: number): number[] {
  return [...new Set(curve)].filter((count) => count < trainColumns).sort((a, b) => a - b);
}

export function curvePrefix(count: number): string {
  return `curve-${count}`;
}
