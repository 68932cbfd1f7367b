import { resolve } from "node:path";
import { holdOutSites, learnFromValidation } from "../data/split.js";
import type { Dataset } from "../data/types.js";
import { AegirError } from "../errors.js";
import { ColumnSpecialist, FrozenSpecialist, type Specialist } from "../swarm/index.js";
import { columnReader, specialistOf } from "./columnModel.js";
import type { ParlRun, SpecialistSource } from "./parl.js";
import type { ParlSettings } from "./parlOptions.js";
import { type RunConfig, readRunConfig } from "./runFolder.js";
import type { Asked } from "./specialistAnswers.js";

/**
 * A run may have a part where sites are held out only if its own training left out the same ones.
 * @param config of the run; absent: nothing is known of it
 * @param holdOut the share; absent: nothing is held out
 * @param argument what the run was given as
 * @throws AegirError ERR_CONFIG
 */
export function checkHeldOut(
  config: Pick<RunConfig, "options"> | undefined,
  holdOut: number | undefined,
  argument: string,
): void {
  if (holdOut === undefined || config === undefined || config.options.holdOut === holdOut) return;
  const own = config.options.holdOut;
  throw new AegirError(
    "ERR_CONFIG",
    `${argument}: a run that ${own === undefined ? "held out nothing" : `held out ${own} of the sites`} has seen columns that are held out here; train it with holdOut ${holdOut} (--hold-out ${holdOut})`,
  );
}

/**
 * A swarm that learnt on the columns that a training is judged by may have no part in it.
 * @param config of a run @param holdOut of the training: it is judged by these sites, else by validation
 * @param argument what the run was given as
 * @throws AegirError ERR_CONFIG
 */
export function checkJudges(
  config: Pick<RunConfig, "options"> | undefined,
  holdOut: number | undefined,
  argument: string,
): void {
  const { learnFrom } = config?.options ?? {};
  if (learnFrom !== (holdOut === undefined ? "validation" : "held-out")) return;
  throw new AegirError(
    "ERR_CONFIG",
    `${argument}: a swarm that learnt from ${learnFrom} (learnFrom) has seen labels of the columns that this training is judged by; expected one that learnt from others`,
  );
}

/** The data that a swarm learns on and is judged by. */
export function columnsToLearn(dataset: Dataset, { learnFrom, holdOut, seed }: ParlSettings): Dataset {
  if (learnFrom === "train") return dataset;
  return learnFrom === "validation"
    ? learnFromValidation(dataset, seed)
    : holdOutSites(dataset, holdOut!).held;
}

/**
 * Which specialists answer on the columns that are learnt from.
 * @throws AegirError ERR_CONFIG where what answers there, or the primary, has seen them
 */
export async function standingIn(
  specialists: readonly (SpecialistSource | ColumnSpecialist)[],
  standIns: NonNullable<ParlRun["standIns"]>,
  { learnFrom, holdOut, fuse }: ParlSettings,
  init: string | undefined,
): Promise<(swarm: Asked) => Asked> {
  const config = (message: string) => new AegirError("ERR_CONFIG", `trainParl.${message}`);
  const names = Object.keys(standIns);
  if ((learnFrom === "held-out") !== (holdOut !== undefined)) {
    throw config(
      `holdOut: was ${holdOut}, with learnFrom ${learnFrom}; give the share of the sites that was held out together with learnFrom held-out`,
    );
  }
  if (learnFrom === "held-out" && init !== undefined)
    checkHeldOut(await readRunConfig(init), holdOut, "trainParl.init");
  if (names.length === 0) return (swarm) => swarm;
  if (learnFrom !== "held-out") throw config(`standIns: learnFrom was ${learnFrom}, expected held-out`);
  if (fuse !== "outputs") {
    throw config(
      `standIns: fuse was ${fuse}, expected outputs: states of one model mean nothing to what was fitted to another's`,
    );
  }
  const frozen = new Map<string, Specialist>();
  for (const [id, run] of Object.entries(standIns)) {
    const of = specialists.find((specialist) => specialist.id === id);
    if (!of)
      throw config(
        `standIns: no specialist is called '${id}'; they are ${specialists.map((s) => s.id).join(", ")}`,
      );
    checkHeldOut(run.config, holdOut, `trainParl.standIns '${id}'`);
    const source = specialistOf(run, id, `trainParl.standIns '${id}'`);
    const own = of instanceof ColumnSpecialist ? of.labels : of.model.labels;
    if (own.length !== run.labels.length || own.some((label, i) => run.labels[i] !== label))
      throw config(`standIns '${id}': knows other labels than the specialist`);
    const reader = columnReader(source);
    frozen.set(id, reader instanceof ColumnSpecialist ? reader : new FrozenSpecialist(reader.model, { id }));
  }
  return ({ specialists: own, specialistStages }) => ({
    specialists: own.map((specialist) => frozen.get(specialist.id) ?? specialist),
    specialistStages,
  });
}

/** As a run folder records them. */
export function foldersOf(standIns: NonNullable<ParlRun["standIns"]>) {
  return Object.entries(standIns).map(([id, { dir }]) => ({ id, run: resolve(dir) }));
}
