import { parseOptions } from "../config.js";
import { checkHeaders } from "../data/headers.js";
import { classCounts } from "../data/metrics.js";
import { Serialiser, type SerialiserOptions } from "../data/serialise.js";
import { withoutHeldOut } from "../data/split.js";
import type { ColumnRef, Dataset, EncodedExample } from "../data/types.js";
import { AegirError } from "../errors.js";
import { AegirForColumnAnnotation, type AnnotatorOptions } from "../model/index.js";
import { labelsOf, withoutHeldOutSites } from "../specialists/index.js";
import { type Calibration, calibrate, saveCalibration } from "./calibration.js";
import { defined } from "./defined.js";
import { encodeColumns, encodeRefs, encodeTargets, trainableLabels, validationColumns } from "./examples.js";
import { fingerprintOf } from "./fingerprint.js";
import { initialiseFrom } from "./initialise.js";
import { runLoop, type TrainingOutcome } from "./loop.js";
import type { TrainingRun } from "./loopOptions.js";
import type { MetricValue } from "./metricsLog.js";
import { allLogits, modelLogits } from "./predict.js";
import { inTodaysOptions, openRun, type RunConfig, recordedRun, startingRun } from "./runFolder.js";
import { type SupervisedOptions, type SupervisedSettings, supervisedOptions } from "./supervisedOptions.js";
import { type OtherTask, SupervisedTrainee } from "./supervisedTrainee.js";
import { restoreModule, Scope, storeModule } from "./tensors.js";
import { TrainingBatches } from "./trainingBatches.js";

export { type SupervisedOptions, type SupervisedSettings, supervisedOptions } from "./supervisedOptions.js";

export interface SupervisedRun extends SupervisedOptions, TrainingRun {
  dataset: Dataset;
  /** Geometry; labels come from the data. Default: preset "tiny". */
  model?: Omit<AnnotatorOptions, "labels" | "numLabels">;
  serialise?: SerialiserOptions;
  /** Run folder whose weights to start from: pretraining, or another supervised run. */
  init?: string;
  /**
   * Other tasks to learn on the same backbone, each with a head of its own, which is left behind (multi-task learning, Caruana 1997): their
   * training columns, but for those on sites that `dataset` is validated or tested on.
   */
  also?: readonly AlsoTask[];
  /** Of distillation (`distill`): columns without labels, and what teachers say of them. */
  soft?: {
    columns: readonly ColumnRef[];
    /** (columns, labels of the training split in the data set's order) row-major. */
    probabilities: Float32Array;
    share: number;
    /** Recorded in config.json. */
    source: { [key: string]: MetricValue };
  };
}

export interface AlsoTask {
  name: string;
  dataset: Dataset;
  /** Recorded in config.json. */
  source?: { [key: string]: MetricValue };
}

export interface TrainedAnnotator {
  /** Has the best weights; the caller disposes it. */
  model: AegirForColumnAnnotation;
  labels: string[];
  serialiser: Serialiser;
  outcome: TrainingOutcome;
  /** Chosen on the validation columns with the final weights; null where it was not asked for. */
  calibration: Calibration | null;
}

/**
 * Phase 1: trains an annotation model on labelled columns by cross-entropy, with warm-up, cosine decay, clipping, the
 * parameter groups of docs/model.md, and early stopping on the validation split's macro F1.
 * @throws AegirError ERR_CONFIG, ERR_DATA, ERR_CHECKPOINT before anything is written; ERR_ABORTED after saving
 */
export async function trainSupervised(run: SupervisedRun): Promise<TrainedAnnotator> {
  const {
    dataset: all,
    model: geometry,
    serialise,
    out,
    resume,
    init,
    soft,
    also = [],
    task,
    dataSource,
    signal,
    onProgress,
    ...given
  } = run;
  const recorded = await recordedRun(out, resume, "supervised");
  const options = parseOptions("trainSupervised", supervisedOptions, {
    ...recorded?.options,
    ...defined(given),
  });
  const dataset = withoutHeldOut(all, options.holdOut);
  const serialiser = new Serialiser({ ...recorded?.serialise, ...serialise });
  if (serialiser.options.headers) checkHeaders(all, "table");
  const labels = trainableLabels(dataset);
  const validation = validationColumns(dataset, labels, options.validationColumns);
  const trainSerialiser = new Serialiser({
    ...serialiser.options,
    shuffle: options.augment,
    dropRate: options.dropRate,
    seed: options.seed,
  });
  const batchOptions = {
    rows: options.batchRows,
    tokens: options.batchTokens,
    by: options.batchBy,
    seed: options.seed,
  };
  const batches = await TrainingBatches.create(
    (epoch) => encodeColumns(trainSerialiser, dataset, dataset.splits.train, labels, epoch),
    batchOptions,
  );
  const softTargets = soft && {
    ...soft,
    batches: await TrainingBatches.create(
      (epoch) => encodeTargets(trainSerialiser, soft.columns, epoch),
      batchOptions,
    ),
  };
  const validationExamples = await encodeColumns(serialiser, dataset, validation, labels);
  const name = task ?? "supervised";
  using cleanup = new Scope();
  const model = new AegirForColumnAnnotation(
    { ...(geometry ?? recorded?.model ?? { preset: "tiny" }), labels },
    { seed: options.seed, threads: options.threads, name },
  );
  try {
    checkForm(model, serialiser);
    const start = await startingRun(out, init, recorded);
    if (start !== null) await initialiseFrom(model, start);
    const others = await otherTasks(also, model, dataset, trainSerialiser, options);
    for (const other of others) cleanup.keep(other.model);
    if (out) {
      const config: RunConfig = {
        kind: "supervised",
        task: dataset.task,
        model: model.options,
        serialise: serialiser.options,
        options,
        init: init ?? null,
        data: dataSource ?? null,
        fingerprint: fingerprintOf(dataset),
        ...(soft ? { distill: { ...soft.source, share: soft.share } } : {}),
        ...(also.length > 0
          ? { also: also.map(({ name: id, source = null }) => ({ name: id, source })) }
          : {}),
      };
      await openRun(out, config, recorded && inTodaysOptions(recorded, supervisedOptions));
    }
    using average =
      options.ema > 0
        ? new AegirForColumnAnnotation(model.options, { seed: options.seed, lane: model.lane, name })
        : null;
    if (average) restoreModule(average.native, storeModule(model.native));
    using trainee = new SupervisedTrainee(
      model,
      average,
      batches,
      validationExamples,
      options,
      softTargets,
      others,
    );
    const outcome = await runLoop(trainee, {
      task: name,
      totalSteps: options.steps,
      dir: out,
      resume,
      validateEvery: options.validateEvery,
      saveEvery: options.saveEvery,
      keep: options.keep,
      patience: options.patience || undefined,
      signal,
      onProgress,
    });
    const calibration = options.calibrate ? await calibrateModel(model, validationExamples, dataset) : null;
    if (out && calibration) await saveCalibration(out, calibration);
    return { model, labels, serialiser, outcome, calibration };
  } catch (error) {
    model.dispose();
    throw error;
  }
}

/** A head and batches for each. @throws AegirError ERR_CONFIG for a name that is given twice, ERR_DATA where no column is left */
async function otherTasks(
  also: readonly AlsoTask[],
  model: AegirForColumnAnnotation,
  dataset: Dataset,
  serialiser: Serialiser,
  { batchRows: rows, batchTokens: tokens, seed }: SupervisedSettings,
): Promise<OtherTask[]> {
  const twice = also.find(({ name }, i) => also.findIndex((other) => other.name === name) !== i);
  if (twice)
    throw new AegirError("ERR_CONFIG", `trainSupervised.also: two tasks have the name '${twice.name}'`);
  const tasks: OtherTask[] = [];
  for (const { name, dataset: other } of also) {
    const columns = withoutHeldOutSites(other, dataset);
    if (columns.length === 0)
      throw new AegirError("ERR_DATA", `${name}: no training column is left on sites that are not held out`);
    const labels = labelsOf(columns);
    const encode = (epoch: number) => encodeRefs(serialiser, columns, labels, epoch);
    const batches = await TrainingBatches.create(encode, { rows, tokens, seed });
    tasks.push({ name, model: model.withHead(labels, { seed }), batches });
  }
  return tasks;
}

/** @throws AegirError ERR_CONFIG where the model and the examples are not of one form */
export function checkForm(
  { options: { columns } }: AegirForColumnAnnotation,
  { options: { form } }: Serialiser,
): void {
  if ((form === "columns") === (columns !== undefined)) return;
  throw new AegirError(
    "ERR_CONFIG",
    columns
      ? `serialise.form: is "${form}", but the model has columns: give form "columns"`
      : 'serialise.form: "columns" needs a model with columns (--columns)',
  );
}

/** @throws AegirError ERR_ABORTED */
async function calibrateModel(
  model: AegirForColumnAnnotation,
  examples: EncodedExample[],
  dataset: Dataset,
): Promise<Calibration> {
  const { labels } = model;
  const logits = await allLogits(modelLogits(model), examples, labels.length);
  const idOf = new Map(labels.map((label, id) => [label, id]));
  const trained = dataset.splits.train.map(({ label }) => idOf.get(label)!);
  const truth = examples.map(({ label }) => label);
  return calibrate(logits, truth, classCounts(trained, labels.length));
}
