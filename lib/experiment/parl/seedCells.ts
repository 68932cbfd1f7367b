import { join } from "node:path";
import { selectColumns } from "../../data/dataset.js";
import { parlOptions } from "../../train/parlOptions.js";
import { supervisedOptions } from "../../train/supervisedOptions.js";
import type { Cell, CellContext } from "../cells.js";
import { type Datasets, groupsOf } from "../datasets.js";
import {
  type Arm,
  type ArmResult,
  type ArmSetting,
  trainAlone,
  trainRouter,
  trainSpecialist,
  trainTogether,
} from "./arms.js";
import { TRAINED_COLUMN } from "./compute.js";
import type { ParlExperiment, SpecialistChoice } from "./experiment.js";
import type { ParlPlan } from "./plan.js";

/** A step of a swarm's training takes about so many of the primary alone. */
const SWARM_COST = 3;

/** The parts of one seed: its specialists, and the arms that are compared. */
export class SeedCells {
  private readonly dir: string;

  constructor(
    private readonly experiment: ParlExperiment,
    private readonly seed: number,
    private readonly datasets: Datasets,
  ) {
    this.dir = join(experiment.out, "runs", `seed-${seed}`);
  }

  specialists(): Cell[] {
    return trainedHere(this.experiment).map((choice, i) => this.specialist(choice, i));
  }

  private specialist(choice: SpecialistChoice, i: number): Cell {
    const { plan, groups } = this.experiment;
    const { id } = choice;
    return {
      key: specialistKey(this.seed, id),
      needs: [],
      cost: specialistSize(plan).steps,
      run: async (context) => {
        const seed = this.seed + 1 + i;
        const target = { plan, dir: join(this.dir, "specialists") };
        const data = await this.datasets.get(
          choice.kind === "data" ? choice.source : this.experiment.source(this.seed),
        );
        if (choice.kind === "data") return trainSpecialist(target, id, data, seed, context);
        const groupOf = groupsOf(data, groups);
        const own = selectColumns(data, `${data.name}: ${id}`, (column) => groupOf(column) === id);
        return trainSpecialist(target, id, own, seed, context);
      },
    };
  }

  /** What takes the same steps of the primary. */
  arms(): Cell[] {
    const { plan } = this.experiment;
    const { steps } = plan.primary;
    const specialists = trainedHere(this.experiment).map(({ id }) => specialistKey(this.seed, id));
    return [
      this.arm("alone", [], steps, (setting, context) => trainAlone(setting, "alone", steps, context)),
      this.arm("together", specialists, SWARM_COST * steps, (setting, context) =>
        trainTogether(setting, "together", false, context),
      ),
      this.arm("router", [this.together], 2 * parlOptions.parse(plan.router).steps, (setting, context) =>
        trainRouter(setting, "router", this.togetherResult(context), context),
      ),
      this.arm("random", specialists, SWARM_COST * steps, (setting, context) =>
        trainTogether(setting, "random", true, context),
      ),
    ];
  }

  /** The primary alone at the computation of the swarm. */
  longerArms(): Cell[] {
    const { plan } = this.experiment;
    const cost = SWARM_COST * plan.primary.steps;
    const specialists = trainedHere(this.experiment).length * specialistSize(plan).steps;
    return [
      this.arm("alone-own", [this.together], cost, (setting, context) =>
        trainAlone(setting, "alone-own", this.equalSteps(context, false), context),
      ),
      this.arm("alone-all", [this.together], cost + specialists, (setting, context) =>
        trainAlone(setting, "alone-all", this.equalSteps(context, true), context),
      ),
    ];
  }

  private get together(): string {
    return armKey(this.seed, "together");
  }

  private togetherResult(context: CellContext): { name: string; result: ArmResult } {
    return { name: "together", result: context.resultOf(this.together) as ArmResult };
  }

  private arm(
    name: Arm,
    needs: readonly string[],
    cost: number,
    run: (setting: ArmSetting, context: CellContext) => Promise<ArmResult>,
  ): Cell {
    return {
      key: armKey(this.seed, name),
      needs,
      cost,
      run: async (context) => run(await this.setting(), context),
    };
  }

  /** Steps of the primary alone that take as much as the swarm trained together, with its specialists' training or without. */
  private equalSteps(context: CellContext, withSpecialists: boolean): number {
    const { plan } = this.experiment;
    const { compute } = this.togetherResult(context).result;
    const { steps, batchRows } = specialistSize(plan);
    const before = withSpecialists ? trainedHere(this.experiment).length * steps * batchRows : 0;
    return Math.round((compute / TRAINED_COLUMN + before) / plan.primary.batchRows);
  }

  private async setting(): Promise<ArmSetting> {
    const { plan, specialists, groups, split, source } = this.experiment;
    const { seed, dir } = this;
    const dataset = await this.datasets.get(source(seed));
    return {
      plan,
      seed,
      dataset,
      groupOf: groupsOf(dataset, groups),
      specialists: specialists.map((choice) => ({
        id: choice.id,
        run: choice.kind === "run" ? choice.run : join(dir, "specialists", choice.id),
      })),
      split,
      dir,
    };
  }
}

/** The specialists that the experiment trains itself, with the geometry of its primary. */
export function trainedHere({ specialists }: Pick<ParlExperiment, "specialists">): SpecialistChoice[] {
  return specialists.filter(({ kind }) => kind !== "run");
}

export function armKey(seed: number, arm: Arm): string {
  return `seed-${seed}/${arm}`;
}

export function specialistKey(seed: number, id: string): string {
  return `seed-${seed}/specialist-${id}`;
}

function specialistSize({ specialist }: ParlPlan): { steps: number; batchRows: number } {
  return supervisedOptions.parse(specialist);
}
