import { z } from "zod";
import { count, holdOut, keptWeights, labelSmoothing, loopOptions } from "./loopOptions.js";

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
  batchBy: z
    .enum(["column", "table"])
    .default("column")
    .describe("what batches are drawn of; columns of one table share what is encoded of it"),
  decay: z.enum(["cosine", "linear"]).default("cosine").describe("of the learning rate after the warm-up"),
  beta2: z.number().min(0).lt(1).default(0.99).describe("of AdamW: memory of the squared gradient"),
  labelSmoothing,
  holdOut,
  ownWeight: z
    .number()
    .min(0)
    .default(0.5)
    .describe("column-wise models: weight of the loss of the own-column head, which reads the target alone"),
  alsoShare: z
    .number()
    .min(0)
    .max(1)
    .default(0.3)
    .describe("with other tasks: share of the labelled steps that learn them, each as many"),
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
  keep: keptWeights,
});
export type SupervisedOptions = z.input<typeof supervisedOptions>;
export type SupervisedSettings = z.output<typeof supervisedOptions>;
