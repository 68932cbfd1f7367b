import { z } from "zod";
import { parseOptions } from "../config.js";
import { classificationReport } from "../data/metrics.js";
import { Random } from "../data/random.js";
import { Serialiser, type SerialiserOptions } from "../data/serialise.js";
import type { Batch, Dataset, EncodedExample } from "../data/types.js";
import { AegirForColumnAnnotation, type AnnotatorOptions, batchInput } from "../model/index.js";
import { native } from "../native/load.js";
import { defined } from "./defined.js";
import { encodeColumns, knownColumns, thin, trainableLabels } from "./examples.js";
import { initialiseFrom } from "./initialise.js";
import { type Figures, runLoop, type TrainingOutcome } from "./loop.js";
import { labelSmoothing, loopOptions, type TrainingRun } from "./loopOptions.js";
import { backward, ratioTerm } from "./losses.js";
import { ModelTrainee } from "./modelTrainee.js";
import { modelLogits, predict } from "./predict.js";
import { openRun, type RunConfig, recordedRun, startingRun } from "./runFolder.js";
import { learningRate } from "./schedule.js";
import { Scope } from "./tensors.js";
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
  labelSmoothing,
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
    { rows: options.batchRows, seed: options.seed },
  );
  const validationExamples = await encodeColumns(serialiser, dataset, validation, labels);
  const name = task ?? "supervised";
  const model = new AegirForColumnAnnotation(
    { ...(geometry ?? recorded?.model ?? { preset: "tiny" }), labels },
    { seed: options.seed, threads: options.threads, name },
  );
  try {
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
    using trainee = new SupervisedTrainee(model, batches, validationExamples, options);
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
    return { model, labels, serialiser, outcome };
  } catch (error) {
    model.dispose();
    throw error;
  }
}

class SupervisedTrainee extends ModelTrainee<AegirForColumnAnnotation> {
  constructor(
    model: AegirForColumnAnnotation,
    batches: TrainingBatches,
    private readonly validation: EncodedExample[],
    private readonly options: SupervisedSettings,
  ) {
    super(model, batches, options);
  }

  async step(step: number): Promise<Figures> {
    const { lr, warmup, steps, finalLr, clipNorm, ratioWeight, labelSmoothing, dropout, seed } = this.options;
    const batch = await this.batches.next();
    using scope = new Scope();
    const dropoutSeed = new Random(seed, "dropout", step).uint32();
    const inputs = scope.keep(batchInput(batch));
    const output = scope.keep(
      await this.model.forward(inputs, { grad: true, dropout: { rate: dropout, seed: dropoutSeed } }),
    );
    const labels = scope.keep(native().Tensor.fromData(batch.labels, [batch.size], "i64"));
    const { lane } = this.model;
    const entropy = await native().crossEntropy(lane, { logits: output.logits, labels, labelSmoothing });
    scope.keep(entropy.loss);
    scope.keep(entropy.logp);
    await backward(lane, [{ losses: [entropy.loss], weights: [1] }, ratioTerm(output, ratioWeight)]);
    const rate = learningRate(step, { lr, warmup, total: steps, finalFraction: finalLr });
    const { gradNorm, skipped } = await this.optimizer.step(lane, { lr: rate, clipNorm });
    return {
      loss: entropy.loss.item(),
      ratioLoss: output.ratioLoss.item(),
      boundaryRates: output.boundaryRates,
      gradNorm,
      lr: rate,
      tokens: sum(batch),
      skipped,
    };
  }

  async validate(): Promise<{ score: number; figures: Figures }> {
    const { labels } = this.model;
    const predictions = await predict(modelLogits(this.model), this.validation, labels.length);
    const { macroF1, microF1 } = classificationReport(
      this.validation.map((example) => example.label),
      predictions.map((prediction) => prediction.label),
      labels,
    );
    return { score: macroF1, figures: { macroF1, microF1 } };
  }
}

function sum(batch: Batch): number {
  return batch.lengths.reduce((total, length) => total + length, 0);
}
