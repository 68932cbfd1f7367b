import type { BatchPosition } from "../data/batches.js";
import type { AegirForCausalLM, AegirForColumnAnnotation } from "../model/index.js";
import type { TensorMap } from "./checkpoint.js";
import type { Figures, Trainee } from "./loop.js";
import type { MetricValue } from "./metricsLog.js";
import { AdamW, type OptimizedModule } from "./optimizer.js";
import { restoreModule, storeModule, storeTensors, withRestored } from "./tensors.js";
import type { TrainingBatches } from "./trainingBatches.js";

/** One model, its optimiser and its batches: what pretraining and supervised training keep in checkpoints. */
export abstract class ModelTrainee<M extends AegirForCausalLM | AegirForColumnAnnotation>
  implements Trainee, Disposable
{
  readonly geometry: unknown;
  protected readonly optimizer: AdamW;

  constructor(
    protected readonly model: M,
    protected readonly batches: TrainingBatches,
    { weightDecay, optimizer, beta2 }: { weightDecay: number; optimizer: "adamw" | "muon"; beta2?: number },
    others: OptimizedModule[] = [],
  ) {
    this.geometry = model.options;
    this.optimizer = new AdamW([{ module: model.native }, ...others], {
      weightDecay,
      matrices: optimizer,
      ...(beta2 === undefined ? {} : { beta2 }),
    });
  }

  abstract step(step: number): Promise<Figures>;

  abstract validate(): Promise<{ score: number; figures: Figures }>;

  weights(): TensorMap {
    return storeModule(this.model.native);
  }

  loadWeights(tensors: TensorMap): void {
    restoreModule(this.model.native, tensors);
  }

  resumeGroups(): Record<string, TensorMap> {
    return { optimizer: storeTensors(this.optimizer.stateDict()) };
  }

  resumeState(): MetricValue {
    return { ...this.batches.state };
  }

  async restore(groups: Record<string, TensorMap>, state: MetricValue): Promise<void> {
    withRestored(groups.optimizer!, "", (tensors) => this.optimizer.loadStateDict(tensors));
    await this.batches.restore(state as unknown as BatchPosition);
  }

  [Symbol.dispose](): void {
    this.optimizer.dispose();
  }
}
