import { join } from "node:path";
import { selectColumns } from "../../data/dataset.js";
import { FAMILIES, labelFamilies } from "../../data/families.js";
import { DOMAIN_NAMES } from "../../data/generator.js";
import type { Dataset, LabelledColumn } from "../../data/types.js";
import { AegirError } from "../../errors.js";
import { type DataSource, openDataSource } from "../../train/dataSource.js";
import { trainableLabels } from "../../train/examples.js";
import { readRunConfig, SPECIALIST_ID } from "../../train/runFolder.js";
import type { Cell, CellContext, CellRecord } from "../cells.js";
import { openExperiment } from "../folder.js";
import { type RunCellsOptions, runCells } from "../runCells.js";
import {
  ARMS,
  type Arm,
  type ArmResult,
  type ArmSetting,
  trainAlone,
  trainRouter,
  trainSpecialist,
  trainTogether,
} from "./arms.js";
import { TRAINED_COLUMN } from "./compute.js";
import { checkCount } from "./outcomes.js";
import type { ParlPlan } from "./plan.js";

/** A specialist of the experiment's: of a group of its columns, of other labelled tables, or a run that was trained before. */
export type SpecialistChoice =
  | { id: string; kind: "group" }
  | { id: string; kind: "data"; source: DataSource }
  | { id: string; kind: "run"; run: string };

export interface ParlExperiment extends Omit<RunCellsOptions, "task"> {
  /** Labelled tables of a seed. */
  source: (seed: number) => DataSource;
  /** How the columns are grouped, for specialists and for the tables of activation. */
  groups: "domains" | "families";
  specialists: readonly SpecialistChoice[];
  /** Repetitions, with seeds 0, 1, … */
  seeds: number;
  /** Columns that the report is about; validation, while something is still to be chosen. */
  split: "test" | "validation";
  plan: ParlPlan;
  /** Folder of the experiment; what is done in it is not done again. */
  out: string;
}

/** What was run of one seed. */
export interface SeedResults {
  seed: number;
  arms: Record<Arm, ArmResult>;
  specialists: Record<string, { labels: number; steps: number; validationF1: number | null }>;
}

export interface ExperimentResults {
  seeds: SeedResults[];
  seconds: number;
  cpuSeconds: number;
}

/**
 * Trains every arm for every seed, or finds it done.
 * @throws AegirError ERR_CONFIG, ERR_DATA before anything is trained; ERR_ABORTED: the same call goes on
 */
export async function runParlExperiment(experiment: ParlExperiment): Promise<ExperimentResults> {
  const { seeds, source, groups, specialists, split, plan, out } = experiment;
  if (!(Number.isInteger(seeds) && seeds >= 1))
    throw new AegirError("ERR_CONFIG", `seeds: expected a whole number from 1, got ${seeds}`);
  await checkSpecialists(specialists);
  // Opened before the folder is made: data that cannot be read leave nothing behind.
  const datasets = new Datasets(source);
  await datasets.of(0);
  const options = { source: source(0), groups, specialists, split, plan };
  const { store, close } = await openExperiment(out, { kind: "parl", options });
  try {
    const cells = Array.from({ length: seeds }, (_, seed) => seedCells(experiment, seed, datasets)).flat();
    const records = await runCells(cells, store, { ...experiment, task: "experiment parl" });
    return collect(experiment, records);
  } finally {
    await close();
  }
}

async function checkSpecialists(specialists: readonly SpecialistChoice[]): Promise<void> {
  if (specialists.length === 0)
    throw new AegirError("ERR_CONFIG", "specialists: expected at least one, got none");
  checkCount(specialists.length);
  const ids = specialists.map(({ id }) => id);
  const odd = ids.find((id, i) => !SPECIALIST_ID.test(id) || ids.indexOf(id) !== i);
  if (odd !== undefined) {
    throw new AegirError(
      "ERR_CONFIG",
      `specialists: id '${odd}' is given twice or is no folder name (letters, digits and . _ - @, not a dot in front)`,
    );
  }
  for (const choice of specialists) {
    if (choice.kind !== "run") continue;
    const { kind } = await readRunConfig(choice.run);
    if (kind !== "supervised")
      throw new AegirError("ERR_CONFIG", `${choice.run} is a run of kind ${kind}, expected supervised`);
  }
}

/** The data of each seed, opened once; columns of labels that training has none of are left out, for no arm can know them. */
class Datasets {
  private readonly open = new Map<string, Promise<Dataset>>();

  constructor(private readonly source: (seed: number) => DataSource) {}

  of(seed: number): Promise<Dataset> {
    return this.from(this.source(seed));
  }

  from(source: DataSource): Promise<Dataset> {
    const key = JSON.stringify(source);
    const present = this.open.get(key);
    if (present) return present;
    const opened = openDataSource(source).then((dataset) => {
      const known = new Set(trainableLabels(dataset));
      return selectColumns(dataset, dataset.name, ({ label }) => known.has(label));
    });
    this.open.set(key, opened);
    return opened;
  }
}

function seedCells(experiment: ParlExperiment, seed: number, datasets: Datasets): Cell[] {
  const { plan, specialists, groups, split, out } = experiment;
  const dir = join(out, "runs", seedName(seed));
  const key = (name: string) => cellKey(seed, name);
  const own = specialists.filter(({ kind }) => kind !== "run");
  const trained = own.map(({ id }) => key(`specialist-${id}`));
  const setting = async (): Promise<ArmSetting> => {
    const dataset = await datasets.of(seed);
    return {
      plan,
      seed,
      dataset,
      groupOf: grouping(dataset, groups),
      specialists: specialists.map((choice) => ({
        id: choice.id,
        run: choice.kind === "run" ? choice.run : join(dir, "specialists", choice.id),
      })),
      split,
      dir,
    };
  };
  const specialistCell = (choice: SpecialistChoice, i: number): Cell => ({
    key: key(`specialist-${choice.id}`),
    needs: [],
    cost: specialistSteps(plan),
    run: async (context) => {
      const all = await (choice.kind === "data" ? datasets.from(choice.source) : datasets.of(seed));
      const inGroup = grouping(all, groups);
      const columns =
        choice.kind === "data"
          ? all
          : selectColumns(all, `${all.name}: ${choice.id}`, (column) => inGroup(column) === choice.id);
      return trainSpecialist(
        { plan, dir: join(dir, "specialists") },
        choice.id,
        columns,
        seed + 1 + i,
        context,
      );
    },
  });
  const arm = (
    name: Arm,
    needs: readonly string[],
    cost: number,
    run: (setting: ArmSetting, context: CellContext) => Promise<ArmResult>,
  ): Cell => ({
    key: key(name),
    needs,
    cost,
    run: async (context) => run(await setting(), context),
  });
  const { steps, batchRows } = plan.primary;
  const together = key("together");
  /** Steps of the primary alone that take as much as the swarm, with its specialists' training or without. */
  const equalSteps = (context: CellContext, withSpecialists: boolean) => {
    const { compute } = context.resultOf(together) as ArmResult;
    const before = withSpecialists ? own.length * specialistCompute(plan) : 0;
    return Math.round((compute + before) / (TRAINED_COLUMN * batchRows));
  };
  const swarmCost = 4 * steps;
  const routerCost = 2 * (plan.router.steps ?? 200);
  return [
    ...own.map(specialistCell),
    arm("alone", [], steps, (s, c) => trainAlone(s, "alone", steps, c)),
    arm("together", trained, swarmCost, (s, c) => trainTogether(s, "together", false, c)),
    arm("random", trained, swarmCost, (s, c) => trainTogether(s, "random", true, c)),
    arm("alone-own", [together], swarmCost, (s, c) => trainAlone(s, "alone-own", equalSteps(c, false), c)),
    arm("alone-all", [together], swarmCost + own.length * specialistSteps(plan), (s, c) =>
      trainAlone(s, "alone-all", equalSteps(c, true), c),
    ),
    arm("router", trained, 2 * steps + routerCost, (s, c) => trainRouter(s, "router", c)),
  ];
}

function specialistSteps(plan: ParlPlan): number {
  return plan.specialist.steps ?? 400;
}

/** Of one specialist's training, in forwards of the primary, whose geometry it has. */
function specialistCompute(plan: ParlPlan): number {
  return TRAINED_COLUMN * specialistSteps(plan) * (plan.specialist.batchRows ?? 64);
}

function grouping(dataset: Dataset, groups: ParlExperiment["groups"]): (column: LabelledColumn) => string {
  if (groups === "domains") return ({ domain }) => domain ?? "none";
  const families = labelFamilies(dataset);
  return ({ label }) => families.get(label) ?? "none";
}

/** One specialist a group that the data has training columns of. */
export function groupSpecialists(dataset: Dataset, groups: ParlExperiment["groups"]): SpecialistChoice[] {
  const groupOf = grouping(dataset, groups);
  const present = new Set(dataset.splits.train.map(groupOf));
  const names: readonly string[] = groups === "domains" ? DOMAIN_NAMES : FAMILIES;
  return names.filter((name) => present.has(name)).map((id) => ({ id, kind: "group" }));
}

function collect(
  { seeds, specialists }: ParlExperiment,
  records: ReadonlyMap<string, CellRecord>,
): ExperimentResults {
  const result = (seed: number, name: string) => records.get(cellKey(seed, name))!.result;
  const all = [...records.values()];
  return {
    seeds: Array.from({ length: seeds }, (_, seed) => ({
      seed,
      arms: Object.fromEntries(ARMS.map((arm) => [arm, result(seed, arm)])) as SeedResults["arms"],
      specialists: Object.fromEntries(
        specialists
          .filter(({ kind }) => kind !== "run")
          .map(({ id }) => [id, result(seed, `specialist-${id}`)]),
      ) as SeedResults["specialists"],
    })),
    seconds: all.reduce((sum, { seconds }) => sum + seconds, 0),
    cpuSeconds: all.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0),
  };
}

function seedName(seed: number): string {
  return `seed-${seed}`;
}

function cellKey(seed: number, name: string): string {
  return `${seedName(seed)}/${name}`;
}
