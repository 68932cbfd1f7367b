import { AegirError } from "../../errors.js";
import type { DataSource } from "../../train/dataSource.js";
import { readRunConfig, SPECIALIST_ID } from "../../train/runFolder.js";
import type { CellRecord } from "../cells.js";
import { Datasets, type Grouping } from "../datasets.js";
import { openExperiment } from "../folder.js";
import { checkCount } from "../outcomes.js";
import { type RunCellsOptions, runCells } from "../runCells.js";
import { ARMS, type Arm, type ArmResult, type SpecialistResult } from "./arms.js";
import type { ParlPlan } from "./plan.js";
import { armKey, SeedCells, specialistKey, trainedHere } from "./seedCells.js";

/** A specialist of the experiment's: of a group of its columns, of other labelled tables, or a run that was trained before. */
export type SpecialistChoice =
  | { id: string; kind: "group" }
  | { id: string; kind: "data"; source: DataSource }
  | { id: string; kind: "run"; run: string };

export interface ParlExperiment extends Omit<RunCellsOptions, "task"> {
  /** Labelled tables of a seed. */
  source: (seed: number) => DataSource;
  /** Those that are open already; absent: none. */
  datasets?: Datasets;
  /** How the columns are grouped, for specialists and for the tables of activation. */
  groups: Grouping;
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
  specialists: Record<string, SpecialistResult>;
}

export interface ExperimentResults {
  seeds: SeedResults[];
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
  const { datasets = new Datasets() } = experiment;
  await datasets.get(source(0));
  const options = { source: source(0), groups, specialists, split, plan };
  const { store, close } = await openExperiment(out, { kind: "parl", options });
  try {
    const all = Array.from({ length: seeds }, (_, seed) => new SeedCells(experiment, seed, datasets));
    const cells = [
      ...all.flatMap((seed) => [...seed.specialists(), ...seed.arms()]),
      ...all.flatMap((seed) => seed.longerArms()),
    ];
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

function collect(experiment: ParlExperiment, records: ReadonlyMap<string, CellRecord>): ExperimentResults {
  const result = (key: string) => records.get(key)!.result;
  return {
    seeds: Array.from({ length: experiment.seeds }, (_, seed) => ({
      seed,
      arms: Object.fromEntries(ARMS.map((arm) => [arm, result(armKey(seed, arm))])) as SeedResults["arms"],
      specialists: Object.fromEntries(
        trainedHere(experiment).map(({ id }) => [id, result(specialistKey(seed, id)) as SpecialistResult]),
      ),
    })),
    cpuSeconds: [...records.values()].reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0),
  };
}
