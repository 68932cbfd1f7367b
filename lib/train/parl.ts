import { parseOptions } from "../config.js";
import { checkHeaders, haveHeaders } from "../data/headers.js";
import { classCounts } from "../data/metrics.js";
import { Serialiser, type SerialiserOptions } from "../data/serialise.js";
import type { Dataset, EncodedExample } from "../data/types.js";
import { AegirError } from "../errors.js";
import type { AegirForColumnAnnotation, AnnotatorOptions } from "../model/index.js";
import { classWeights } from "../rl/rewards.js";
import { ColumnSpecialist, type SwarmOrchestrator } from "../swarm/index.js";
import { saveAbstention } from "./abstention.js";
import { type Calibration, saveCalibration } from "./calibration.js";
import { columnReader } from "./columnModel.js";
import { defined } from "./defined.js";
import { encodeColumns, knownColumns, trainableLabels, validationColumns } from "./examples.js";
import { fingerprintOf } from "./fingerprint.js";
import { columnsToLearn, foldersOf, standingIn } from "./heldOut.js";
import type { LoadedRun } from "./loadRun.js";
import { runLoop, type TrainingOutcome } from "./loop.js";
import type { TrainingRun } from "./loopOptions.js";
import { type ParlOptions, type ParlSettings, parlOptions, refuseUnread } from "./parlOptions.js";
import { ParlTrainee } from "./parlTrainee.js";
import { fitPool, pooledSpecialists } from "./poolFit.js";
import { timePrices } from "./prices.js";
import { priceShares } from "./rolloutRewards.js";
import { correctPerf, loglikPerf } from "./routerLearner.js";
import {
  inTodaysOptions,
  openRun,
  type RunConfig,
  recordedRun,
  SPECIALIST_ID,
  startingRun,
} from "./runFolder.js";
import { SharedCaches } from "./sharedCaches.js";
import { type AnswerOptions, type Asked, SpecialistAnswers } from "./specialistAnswers.js";
import { buildSwarm, checkStorable, initialiseSwarm, saveSpecialists, swarmConfig } from "./swarmRun.js";
import { Scope } from "./tensors.js";
import { TrainingBatches } from "./trainingBatches.js";

/** A trained model that a swarm uses as a frozen specialist. */
export interface SpecialistSource {
  id: string;
  model: AegirForColumnAnnotation;
  serialiser: Serialiser;
  /** Of a column-wise model: what its answers are adjusted by. */
  calibration?: Calibration | null;
}

export interface ParlRun extends ParlOptions, TrainingRun {
  dataset: Dataset;
  /** Models, frozen by the training, stay the caller's to dispose (column-wise ones encode columns by themselves); or specialists that read columns. */
  specialists: (SpecialistSource | ColumnSpecialist)[];
  /**
   * With `learnFrom: "held-out"`, of specialists that are trained on all columns: runs of the same training with `holdOut`, by the specialist's
   * id. They answer in its place on the columns that are learnt from, and are no part of the swarm; outputs alone are fused then.
   */
  standIns?: Readonly<Record<string, LoadedRun>>;
  /** Geometry of the primary; absent: that of the first specialist that is a model, "tiny" where none is. */
  model?: Omit<AnnotatorOptions, "labels" | "numLabels">;
  /** Absent: that of the first specialist that is a model. */
  serialise?: SerialiserOptions;
  /** Run whose weights to start from: a model for the primary, or a swarm of the same specialists for all of it. */
  init?: string;
  /** Of a swarm in `init`, all but its router. */
  freshRouter?: boolean;
  /** Shared with other trainings of these specialists on these data; they stay the caller's to dispose. */
  caches?: SharedCaches;
  /** Signs of a collapsing router. */
  onWarning?: (message: string) => void;
}

export interface TrainedSwarm extends Disposable {
  swarm: SwarmOrchestrator;
  labels: string[];
  serialiser: Serialiser;
  outcome: TrainingOutcome;
  /** Chosen on the validation columns with the final weights. */
  calibration: Calibration;
}

/** What models that read the primary's tokens find otherwise than in their own training. */
function readingNotes(
  specialists: ParlRun["specialists"],
  { options }: Serialiser,
  dataset: Dataset,
): string[] {
  if (options.headers && !haveHeaders(dataset, "table"))
    return [`specialists learnt with column headers, and no training column of ${dataset.name} has one`];
  return specialists.flatMap((source) => {
    if (source instanceof ColumnSpecialist || source.serialiser.options.headers === options.headers)
      return [];
    const [own, here] = options.headers ? ["without", "with"] : ["with", "without"];
    const cure = options.headers
      ? "specialists that all read them, or none"
      : "--headers, or the specialist that reads them first";
    return [
      `specialist '${source.id}' learnt ${own} column headers and reads the primary's tokens ${here} them: give ${cure}`,
    ];
  });
}

/**
 * Phase 3: trains a primary, the fusion of its specialists' outputs and a router over frozen specialists by Parallel Agent
 * Reinforcement Learning. Per batch: primary's first layers → router → cached specialists → fusion → primary → rewards →
 * token-level clipped loss for the router and cross-entropy for all the rest.
 * @throws AegirError ERR_CONFIG, ERR_DATA, ERR_CHECKPOINT before anything is written; ERR_ABORTED after saving
 */
export async function trainParl(run: ParlRun): Promise<TrainedSwarm> {
  const { dataset, model, serialise, out, resume, init, task, dataSource, standIns = {}, ...rest } = run;
  const { specialists: _, signal, onProgress, onWarning, caches, freshRouter, ...given } = rest;
  const recorded = await recordedRun(out, resume, "parl");
  const options = parseOptions("trainParl", parlOptions, { ...recorded?.options, ...defined(given) });
  refuseUnread(given, options, run.specialists.length);
  checkSources(run.specialists, options, init !== undefined || recorded !== null);
  const ids = run.specialists.map(({ id }) => id);
  const ownShares = typeof options.prices === "object" ? priceShares(ids, options.prices) : null;
  const specialists = run.specialists.map(columnReader);
  if (out) for (const specialist of specialists) checkStorable(specialist);
  const first = specialists.find(
    (source): source is SpecialistSource => !(source instanceof ColumnSpecialist),
  );
  const base = recorded?.serialise ?? first?.serialiser.options;
  const serialiser = new Serialiser({ ...base, ...serialise });
  if ((recorded?.serialise ?? serialise)?.headers) checkHeaders(dataset, "table");
  for (const note of readingNotes(specialists, serialiser, dataset)) onWarning?.(note);
  checkForm(model, serialiser);
  const labels = trainableLabels(dataset);
  const name = task ?? "parl";
  const teaching = await standingIn(specialists, standIns, options, init);
  const data = await prepare(columnsToLearn(dataset, options), labels, serialiser, options);
  const geometry = { ...(model ?? recorded?.model ?? first?.model.options ?? { preset: "tiny" }), labels };
  using cleanup = new Scope();
  const parts = buildSwarm(specialists, geometry, options, name);
  try {
    if (options.pool === "fitted") pooledSpecialists(parts.swarm);
    const start = await startingRun(out, init, recorded);
    if (start !== null) await initialiseSwarm(parts.swarm, start, freshRouter);
    if (out) {
      const config: RunConfig = {
        kind: "parl",
        task: dataset.task,
        model: parts.swarm.primary.options,
        serialise: serialiser.options,
        options,
        init: init ?? null,
        data: dataSource ?? null,
        fingerprint: fingerprintOf(dataset),
        swarm: swarmConfig(parts.swarm),
        ...(Object.keys(standIns).length > 0 ? { standIns: foldersOf(standIns) } : {}),
      };
      await openRun(out, config, recorded && inTodaysOptions(recorded, parlOptions));
      if (!recorded) await saveSpecialists(out, specialists, dataset.task);
    }
    const own = caches ?? cleanup.keep(new SharedCaches());
    const answers = (asked: Asked, examples: EncodedExample[] | null, what: string) =>
      specialistAnswers(asked, examples, own, what, {
        stages: caches ? undefined : asked.specialistStages,
        timeoutMs: options.specialistTimeout * 1000,
        maxBytes: options.cacheBytes / specialists.length,
        rows: options.batchRows,
        task: `${name}: ${what}`,
        signal,
        onProgress,
        onFailure: onWarning,
      });
    const held = await answers(parts.swarm, data.validation, "specialists on validation");
    const prices = options.prices === "time" ? await timePrices(out, ids, held.times) : undefined;
    const shares = ownShares ?? priceShares(ids, prices);
    const learnt = options.augment ? null : data.examples;
    const train = await answers(teaching(parts.swarm), learnt, "specialists on training");
    // What is resumed has weights of its own, which replace these.
    if (options.pool === "fitted") {
      await fitPool(parts.swarm, data.examples, train, options.batchRows, onWarning);
    }
    const trainee = cleanup.keep(
      new ParlTrainee(parts.swarm, { ...data, train, held, shares }, options, onWarning),
    );
    const outcome = await runLoop(trainee, {
      task: name,
      totalSteps: options.steps,
      dir: out,
      resume,
      validateEvery: options.validateEvery,
      saveEvery: options.saveEvery,
      keep: options.keep,
      show: ["loss", "reward", "activation"],
      signal,
      onProgress,
    });
    const { calibration, abstention } = await trainee.validation.calibrated(data.counts);
    if (out) {
      await saveCalibration(out, calibration);
      if (abstention) await saveAbstention(out, abstention);
    }
    const dispose = { [Symbol.dispose]: () => parts.dispose() };
    return { swarm: parts.swarm, labels, serialiser, outcome, calibration, ...dispose };
  } catch (error) {
    parts.dispose();
    throw error;
  }
}

function checkSources(
  specialists: ParlRun["specialists"],
  { freezePrimary }: ParlSettings,
  initialised: boolean,
): void {
  if (specialists.length === 0) {
    throw new AegirError("ERR_CONFIG", "trainParl.specialists: expected at least one, got none");
  }
  const odd = specialists.find(({ id }) => !SPECIALIST_ID.test(id));
  if (odd) {
    throw new AegirError(
      "ERR_CONFIG",
      `trainParl.specialists: id '${odd.id}' names a folder: expected letters, digits and . _ - @, not a dot in front`,
    );
  }
  if (freezePrimary && !initialised) {
    throw new AegirError(
      "ERR_CONFIG",
      "trainParl.freezePrimary: an untrained primary cannot be frozen; give init, the run of a trained one",
    );
  }
}

/** A primary reads one sequence a column, with its context in it. */
function checkForm(primary: ParlRun["model"], { options: { form } }: Serialiser): void {
  if (!primary?.columns && form !== "columns") return;
  throw new AegirError(
    "ERR_CONFIG",
    "trainParl: the primary is a column-wise model, and the primary of a swarm reads its context in the column's own sequence; train one without columns",
  );
}

/** Encoded examples, and everything that follows from them. */
async function prepare(dataset: Dataset, labels: string[], serialiser: Serialiser, options: ParlSettings) {
  const training = new Serialiser({ ...serialiser.options, shuffle: options.augment, seed: options.seed });
  const learnt = knownColumns(dataset, "train", labels, "skip").columns;
  const encode = (epoch: number) =>
    encodeColumns(training, dataset, learnt, labels, options.augment ? epoch : 0);
  const batches = await TrainingBatches.create(encode, { rows: options.batchRows, seed: options.seed });
  const columns = validationColumns(dataset, labels, options.validationColumns);
  const examples = await encode(0);
  const counts = classCounts(
    examples.map(({ label }) => label),
    labels.length,
  );
  return {
    batches,
    examples,
    counts,
    validation: await encodeColumns(serialiser, dataset, columns, labels),
    perfReward: options.reward === "loglik" ? loglikPerf : correctPerf(classWeights(counts)),
  };
}

/** @param examples null: the specialists run at every batch */
function specialistAnswers(
  asked: Asked,
  examples: EncodedExample[] | null,
  caches: SharedCaches,
  key: string,
  { stages, ...options }: AnswerOptions & { stages: readonly (readonly number[])[] | undefined },
): Promise<SpecialistAnswers> {
  return examples === null
    ? Promise.resolve(SpecialistAnswers.live(asked, options))
    : SpecialistAnswers.cached(asked, examples, caches, key, stages, options);
}
