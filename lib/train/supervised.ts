import { z } from "zod";
import { parseOptions } from "../config.js";
import { classificationReport } from "../data/metrics.js";
import { Random } from "../data/random.js";
import { Serialiser, type SerialiserOptions } from "../data/serialise.js";
import type { Batch, Dataset, EncodedExample } from "../data/types.js";
import { AegirError } from "../errors.js";
import {
  AegirForColumnAnnotation,
  type AnnotatorOptions,
  type AnnotatorOutput,
  batchInput,
} from "../model/index.js";
import type { NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import { type Calibration, calibrate, saveCalibration } from "./calibration.js";
import type { TensorMap } from "./checkpoint.js";
import { defined } from "./defined.js";
import { encodeColumns, knownColumns, thin, trainableLabels } from "./examples.js";
import { initialiseFrom } from "./initialise.js";
import { type Figures, runLoop, type TrainingOutcome } from "./loop.js";
import { count, labelSmoothing, loopOptions, type TrainingRun } from "./loopOptions.js";
import { backward, ratioTerm, type WeightedLosses } from "./losses.js";
import type { MetricValue } from "./metricsLog.js";
import { ModelTrainee } from "./modelTrainee.js";
import { allLogits, modelLogits, predict } from "./predict.js";
import { openRun, type RunConfig, recordedRun, startingRun } from "./runFolder.js";
import { learningRate } from "./schedule.js";
import { restoreModule, Scope, storeModule } from "./tensors.js";
import { TrainingBatches } from "./trainingBatches.js";

export const supervisedOptions = z.strictObject({
  ...loopOptions({
    steps: 400,
    batchRows: 64,
    lr: 2.5e-3,
    warmup: 10,
    finalLr: 0.05,
    ratioWeight: 0.1,
    validateEvery: 50,
    validationColumns: 2000,
    saveEvery: 50,
  }),
  batchTokens: count
    .optional()
    .describe("tokens of a batch at most, padding included; column-wise: of all its columns"),
  decay: z.enum(["cosine", "linear"]).default("cosine").describe("of the learning rate after the warm-up"),
  beta2: z.number().min(0).lt(1).default(0.99).describe("of AdamW: memory of the squared gradient"),
  labelSmoothing,
  ownWeight: z
    .number()
    .min(0)
    .default(0.5)
    .describe("column-wise models: weight of the loss of the own-column head, which reads the target alone"),
  ema: z
    .number()
    .min(0)
    .lt(1)
    .default(0)
    .describe("decay of the weights' exponential average, which is then judged and kept; 0: none"),
  calibrate: z
    .boolean()
    .default(true)
    .describe(
      "choose a power of the classes' prior and a temperature on validation, and keep them with the run",
    ),
  dropout: z.number().min(0).lt(1).default(0).describe("chance to drop a value of the embeddings"),
  augment: z.boolean().default(true).describe("shuffle cells anew each epoch"),
  dropRate: z
    .number()
    .min(0)
    .max(1)
    .default(0)
    .describe("with augmentation: chance to drop some cells of a column, and a context column"),
  patience: z
    .number()
    .int()
    .min(0)
    .default(0)
    .describe("validations without a better macro F1 before it stops; 0: never stops early"),
  keep: z
    .enum(["best", "last"])
    .default("best")
    .describe("weights to end with: best by validation, or the last"),
});
export type SupervisedOptions = z.input<typeof supervisedOptions>;
export type SupervisedSettings = z.output<typeof supervisedOptions>;

export interface SupervisedRun extends SupervisedOptions, TrainingRun {
  dataset: Dataset;
  /** Geometry; labels come from the data. Default: preset "tiny". */
  model?: Omit<AnnotatorOptions, "labels" | "numLabels">;
  serialise?: SerialiserOptions;
  /** Run folder whose weights to start from: pretraining, or another supervised run. */
  init?: string;
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
    dataset,
    model: geometry,
    serialise,
    out,
    resume,
    init,
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
  const serialiser = new Serialiser({ ...recorded?.serialise, ...serialise });
  const labels = trainableLabels(dataset);
  const validation = thin(knownColumns(dataset, "validation", labels).columns, options.validationColumns);
  const trainSerialiser = new Serialiser({
    ...serialiser.options,
    shuffle: options.augment,
    dropRate: options.dropRate,
    seed: options.seed,
  });
  const batches = await TrainingBatches.create(
    (epoch) => encodeColumns(trainSerialiser, dataset, dataset.splits.train, labels, epoch),
    { rows: options.batchRows, tokens: options.batchTokens, seed: options.seed },
  );
  const validationExamples = await encodeColumns(serialiser, dataset, validation, labels);
  const name = task ?? "supervised";
  const model = new AegirForColumnAnnotation(
    { ...(geometry ?? recorded?.model ?? { preset: "tiny" }), labels },
    { seed: options.seed, threads: options.threads, name },
  );
  try {
    checkForm(model, serialiser);
    const start = await startingRun(out, init, recorded);
    if (start !== null) await initialiseFrom(model, start);
    const config: RunConfig = {
      kind: "supervised",
      task: dataset.task,
      model: model.options,
      serialise: serialiser.options,
      options,
      init: init ?? null,
      data: dataSource ?? null,
    };
    if (out) await openRun(out, config, recorded);
    using average =
      options.ema > 0
        ? new AegirForColumnAnnotation(model.options, { seed: options.seed, lane: model.lane, name })
        : null;
    if (average && start !== null) await initialiseFrom(average, start);
    using trainee = new SupervisedTrainee(model, average, batches, validationExamples, options);
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

class SupervisedTrainee extends ModelTrainee<AegirForColumnAnnotation> {
  constructor(
    model: AegirForColumnAnnotation,
    /** Of the weights; null: the weights themselves are judged. */
    private readonly average: AegirForColumnAnnotation | null,
    batches: TrainingBatches,
    private readonly validation: EncodedExample[],
    private readonly options: SupervisedSettings,
  ) {
    super(model, batches, options);
  }

  async step(step: number): Promise<Figures> {
    const { lr, warmup, steps, finalLr, decay, clipNorm, ratioWeight, dropout, seed } = this.options;
    const batch = await this.batches.next();
    using scope = new Scope();
    const dropoutSeed = new Random(seed, "dropout", step).uint32();
    const inputs = scope.keep(batchInput(batch));
    const output = scope.keep(
      await this.model.forward(inputs, { grad: true, dropout: { rate: dropout, seed: dropoutSeed } }),
    );
    const labels = scope.keep(native().Tensor.fromData(batch.labels, [batch.size], "i64"));
    const { lane } = this.model;
    const entropy = await this.entropyTerm(output, labels, scope);
    await backward(lane, [entropy, ratioTerm(output, ratioWeight)]);
    const rate = learningRate(step, { lr, warmup, total: steps, finalFraction: finalLr, decay });
    const { gradNorm, skipped } = await this.optimizer.step(lane, { lr: rate, clipNorm });
    await this.advanceAverage(step);
    return {
      loss: entropy.losses[0]!.item(),
      ratioLoss: output.ratioLoss.item(),
      boundaryRates: output.boundaryRates,
      gradNorm,
      lr: rate,
      tokens: sum(batch),
      skipped,
    };
  }

  /** Cross-entropy of the labels; column-wise also of what the target column says alone. */
  private async entropyTerm(
    { logits, ownLogits }: AnnotatorOutput,
    labels: NativeTensor,
    scope: Scope,
  ): Promise<WeightedLosses> {
    const { labelSmoothing, ownWeight } = this.options;
    const of = async (said: NativeTensor) => {
      const { loss, logp } = await native().crossEntropy(this.model.lane, {
        logits: said,
        labels,
        labelSmoothing,
      });
      scope.keep(logp);
      return scope.keep(loss);
    };
    if (!ownLogits || ownWeight === 0) return { losses: [await of(logits)], weights: [1] };
    return { losses: [await of(logits), await of(ownLogits)], weights: [1, ownWeight] };
  }

  /** The average of few steps would be of the initial values: its memory grows with the steps. */
  private async advanceAverage(step: number): Promise<void> {
    if (!this.average) return;
    const decay = Math.min(this.options.ema, (1 + step) / (10 + step));
    await native().averageWeights(this.model.lane, this.average.native, this.model.native, decay);
  }

  get judgedWeights(): (() => TensorMap) | undefined {
    const { average } = this;
    return average ? () => storeModule(average.native) : undefined;
  }

  override resumeGroups(): Record<string, TensorMap> {
    const groups = super.resumeGroups();
    if (this.average) groups.average = storeModule(this.average.native);
    return groups;
  }

  override async restore(groups: Record<string, TensorMap>, state: MetricValue): Promise<void> {
    await super.restore(groups, state);
    if (this.average) restoreModule(this.average.native, groups.average!);
  }

  async validate(): Promise<{ score: number; figures: Figures }> {
    const { labels } = this.model;
    const predictions = await predict(
      modelLogits(this.average ?? this.model),
      this.validation,
      labels.length,
    );
    const { macroF1, microF1 } = classificationReport(
      this.validation.map((example) => example.label),
      predictions.map((prediction) => prediction.label),
      labels,
    );
    return { score: macroF1, figures: { macroF1, microF1 } };
  }
}

/** @throws AegirError ERR_CONFIG where the model and the examples are not of one form */
function checkForm(
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
  const counts = labels.map(
    (label) => dataset.splits.train.filter((column) => column.label === label).length,
  );
  const truth = examples.map(({ label }) => label);
  return calibrate(logits, truth, counts);
}

function sum(batch: Batch): number {
  return batch.columns ? batch.tokens : batch.lengths.reduce((total, length) => total + length, 0);
}
