import type { BatchPosition } from "../data/batches.js";
import { classificationReport } from "../data/metrics.js";
import { Random } from "../data/random.js";
import type { Batch, EncodedExample } from "../data/types.js";
import { type AegirForColumnAnnotation, type AnnotatorOutput, batchInput } from "../model/index.js";
import type { NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import type { TensorMap } from "./checkpoint.js";
import type { Figures } from "./loop.js";
import { backward, ratioTerm, type WeightedLosses } from "./losses.js";
import type { MetricValue } from "./metricsLog.js";
import { ModelTrainee } from "./modelTrainee.js";
import { modelLogits, predict } from "./predict.js";
import { learningRate } from "./schedule.js";
import type { SupervisedSettings } from "./supervisedOptions.js";
import { restoreModule, Scope, storeModule } from "./tensors.js";
import type { TrainingBatches } from "./trainingBatches.js";

/** The loss of logits (R,C) against a batch's targets. */
type LossOf = (logits: NativeTensor) => Promise<NativeTensor>;

/** Soft targets: what teachers say of columns that need no label. */
export interface SoftTargets {
  batches: TrainingBatches;
  /** (columns, classes) row-major, each row a distribution, in the order of the examples that are batched. */
  probabilities: Float32Array;
  /** Share of the steps that learn from them, the others learn from labels. */
  share: number;
}

/** Another label set on the same backbone. */
export interface OtherTask {
  name: string;
  /** On the backbone of the model that is trained (`withHead`). */
  model: AegirForColumnAnnotation;
  batches: TrainingBatches;
}

/** What a step learns from. */
interface Lesson {
  batch: Batch;
  model: AegirForColumnAnnotation;
  kind: "labels" | "soft" | OtherTask;
}

/** Parameters that the models of all tasks share. */
const SHARED = /^backbone\./;

/** What supervised training does at a step: cross-entropy of labels, of soft targets, or of another task's labels. */
export class SupervisedTrainee extends ModelTrainee<AegirForColumnAnnotation> {
  constructor(
    model: AegirForColumnAnnotation,
    /** Of the weights; null: the weights themselves are judged. */
    private readonly average: AegirForColumnAnnotation | null,
    batches: TrainingBatches,
    private readonly validation: EncodedExample[],
    private readonly options: SupervisedSettings,
    private readonly soft: SoftTargets | null = null,
    private readonly others: readonly OtherTask[] = [],
  ) {
    const heads = others.map((other) => ({ module: other.model.native, except: SHARED }));
    super(model, batches, options, heads);
  }

  async step(step: number): Promise<Figures> {
    const { lr, warmup, steps, finalLr, decay, clipNorm, ratioWeight, dropout, seed } = this.options;
    const { batch, model, kind } = await this.nextLesson(step);
    using scope = new Scope();
    const dropoutSeed = new Random(seed, "dropout", step).uint32();
    const inputs = scope.keep(batchInput(batch));
    const output = scope.keep(
      await model.forward(inputs, { grad: true, dropout: { rate: dropout, seed: dropoutSeed } }),
    );
    const { lane } = this.model;
    const entropy = await this.entropyTerm(
      output,
      kind === "soft" ? this.softLoss(batch, scope) : this.hardLoss(batch, scope),
    );
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
      tokens: tokensOf(batch),
      ...(this.soft ? { soft: kind === "soft" } : {}),
      ...(this.others.length > 0 ? { also: typeof kind === "string" ? null : kind.name } : {}),
      skipped,
    };
  }

  private async nextLesson(step: number): Promise<Lesson> {
    const { soft, others, model } = this;
    const { seed, alsoShare } = this.options;
    if (soft && new Random(seed, "soft", step).chance(soft.share))
      return { batch: await soft.batches.next(), model, kind: "soft" };
    const random = new Random(seed, "task", step);
    if (others.length === 0 || !random.chance(alsoShare))
      return { batch: await this.batches.next(), model, kind: "labels" };
    const other = others[random.range(0, others.length - 1)]!;
    return { batch: await other.batches.next(), model: other.model, kind: other };
  }

  /** The loss of the logits; column-wise also of what the target column says alone. */
  private async entropyTerm({ logits, ownLogits }: AnnotatorOutput, lossOf: LossOf): Promise<WeightedLosses> {
    const { ownWeight } = this.options;
    if (!ownLogits || ownWeight === 0) return { losses: [await lossOf(logits)], weights: [1] };
    return { losses: [await lossOf(logits), await lossOf(ownLogits)], weights: [1, ownWeight] };
  }

  private hardLoss(batch: Batch, scope: Scope): LossOf {
    const labels = scope.keep(native().Tensor.fromData(batch.labels, [batch.size], "i64"));
    const { labelSmoothing } = this.options;
    return async (logits) => {
      const { loss, logp } = await native().crossEntropy(this.model.lane, { logits, labels, labelSmoothing });
      scope.keep(logp);
      return scope.keep(loss);
    };
  }

  private softLoss(batch: Batch, scope: Scope): LossOf {
    const classes = this.model.labels.length;
    const { probabilities } = this.soft!;
    const chosen = new Float32Array(batch.size * classes);
    for (const [i, row] of batch.rows.entries())
      chosen.set(probabilities.subarray(row * classes, (row + 1) * classes), i * classes);
    const targets = scope.keep(native().Tensor.fromData(chosen, [batch.size, classes], "f32"));
    return async (logits) => {
      const { loss } = await native().softCrossEntropy(this.model.lane, { logits, targets });
      return scope.keep(loss);
    };
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
    if (this.others.length > 0) groups.heads = headsOf(this.others);
    return groups;
  }

  override resumeState(): MetricValue {
    const hard = super.resumeState() as { [key: string]: MetricValue };
    if (this.soft) hard.soft = { ...this.soft.batches.state };
    if (this.others.length > 0) hard.also = this.others.map(({ batches }) => ({ ...batches.state }));
    return hard;
  }

  override async restore(groups: Record<string, TensorMap>, state: MetricValue): Promise<void> {
    const { soft, also, ...hard } = state as { [key: string]: MetricValue };
    await super.restore(groups, hard);
    for (const [i, { name, model, batches }] of this.others.entries()) {
      // The backbone is the model's, which is restored.
      const weights = storeModule(model.native);
      for (const key of weights.keys())
        if (!SHARED.test(key)) weights.set(key, groups.heads!.get(`${name}.${key}`)!);
      restoreModule(model.native, weights);
      await batches.restore((also as unknown as BatchPosition[])[i]!);
    }
    if (this.soft) await this.soft.batches.restore(soft as unknown as BatchPosition);
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

/** Named `<task>.<parameter>`. */
function headsOf(others: readonly OtherTask[]): TensorMap {
  return new Map(
    others.flatMap(({ name, model }) =>
      [...storeModule(model.native, `${name}.`)].filter(([key]) => !key.startsWith(`${name}.${SHARED}`)),
    ),
  );
}

function tokensOf(batch: Batch): number {
  return batch.columns ? batch.tokens : batch.lengths.reduce((total, length) => total + length, 0);
}
