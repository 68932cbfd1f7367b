import { z } from "zod";
import type { MetricValue } from "./metricsLog.js";
import type { ProgressListener } from "./progress.js";

export const count = z.number().int().positive();

interface LoopDefaults {
  steps: number;
  batchRows: number;
  lr: number;
  warmup: number;
  finalLr: number;
  ratioWeight: number;
  validateEvery: number;
  validationColumns: number;
  saveEvery: number;
}

/** The options that every training has, with its own defaults. */
export function loopOptions(defaults: LoopDefaults) {
  return {
    steps: count.default(defaults.steps).describe("training steps"),
    batchRows: count.default(defaults.batchRows).describe("rows of a batch"),
    lr: z.number().positive().default(defaults.lr).describe("peak learning rate of the model"),
    warmup: z
      .number()
      .int()
      .min(0)
      .default(defaults.warmup)
      .describe("steps of linear learning-rate warm-up"),
    finalLr: z.number().min(0).max(1).default(defaults.finalLr).describe("the decay ends at lr times this"),
    weightDecay: z.number().min(0).default(0.01).describe("of the large matrices"),
    optimizer: z
      .enum(["adamw", "muon"])
      .default("adamw")
      .describe("of the model: AdamW, or Muon for hidden matrices with AdamW for the rest"),
    clipNorm: z.number().min(0).default(1).describe("global norm that gradients are clipped to; 0: off"),
    ratioWeight: z
      .number()
      .min(0)
      .default(defaults.ratioWeight)
      .describe("weight of the routing modules' ratio loss"),
    validateEvery: count.default(defaults.validateEvery).describe("steps between validations"),
    validationColumns: count
      .default(defaults.validationColumns)
      .describe("validation columns at most, evenly spaced"),
    saveEvery: count.default(defaults.saveEvery).describe("steps between checkpoints"),
    seed: z.number().int().default(0).describe("decides initial values and the order of batches"),
    threads: count.default(1).describe("threads of the model's lane"),
  };
}

/** Of the trainings that label columns. */
export const holdOut = z
  .number()
  .gt(0)
  .lt(1)
  .optional()
  .describe(
    "share of the training sites that what a swarm is made of leaves out, and is judged by in place of validation; the swarm itself learns on them (--learn-from held-out)",
  );

/** Of the trainings that label columns. */
export const labelSmoothing = z
  .number()
  .min(0)
  .lt(1)
  .default(0)
  .describe("share of the target spread over all labels");

export const keptWeights = z
  .enum(["best", "last"])
  .default("best")
  .describe("weights to end with: best by validation, or the last");

/** What a training is given besides its options, its data and its model. */
export interface TrainingRun {
  /** Run folder; absent: nothing is written. */
  out?: string;
  /** Continue the run in `out`: its recorded options hold, and those given here must agree. */
  resume?: boolean;
  /** What progress calls this run. */
  task?: string;
  /** Recorded in config.json. */
  dataSource?: { [key: string]: MetricValue };
  signal?: AbortSignal;
  onProgress?: ProgressListener;
}
