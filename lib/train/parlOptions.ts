import { z } from "zod";
import { count, labelSmoothing, loopOptions } from "./loopOptions.js";

const share = z.number().min(0).max(1);

export const parlOptions = z.strictObject({
  ...loopOptions({
    steps: 200,
    batchRows: 64,
    lr: 2.5e-3,
    warmup: 10,
    finalLr: 0.05,
    ratioWeight: 0.1,
    validateEvery: 25,
    validationColumns: 1000,
    saveEvery: 25,
  }),
  labelSmoothing,
  routerLr: z.number().positive().default(1e-2).describe("learning rate of the router"),
  fusionLrScale: z.number().positive().default(3).describe("fusion and alignment learn at lr times this"),
  fuse: z
    .enum(["states", "outputs", "states+outputs"])
    .default("states")
    .describe("what of the specialists enters the primary"),
  fusionMode: z
    .enum(["weighted_sum", "gated", "concat_project"])
    .default("weighted_sum")
    .describe("how states are fused"),
  estimator: z
    .enum(["auto", "sample", "enumerate"])
    .default("auto")
    .describe("routings evaluated per row: drawn, or all there are (auto: all for up to 3 specialists)"),
  rollouts: count.default(8).describe("joint routings drawn per row"),
  baseline: z.enum(["rloo", "mean", "grpo", "none"]).default("rloo").describe("baseline of drawn routings"),
  reward: z
    .enum(["loglik", "correct"])
    .default("loglik")
    .describe("r_perf: log-likelihood of the label, or class-weighted correctness"),
  cost: z.number().min(0).default(0.25).describe("what activating every specialist costs a row"),
  targetRate: share.optional().describe("activation rate that a controller of the cost holds"),
  epochs: z.number().int().min(1).max(8).default(1).describe("policy updates per batch"),
  clipFrom: z.number().positive().default(0.2).describe("clipping range at the start"),
  clipTo: z.number().positive().default(0.1).describe("clipping range at the end"),
  entropyBonus: z.number().min(0).max(0.1).default(0.005).describe("weight of the policy's entropy"),
  lambdaParallel: z.number().min(0).default(0.3).describe("initial weight of r_parallel"),
  lambdaFinish: z.number().min(0).default(0.1).describe("initial weight of r_finish"),
  annealToZero: z.boolean().default(true).describe("anneal both weights to 0 over the last tenth"),
  phaseSteps: count.default(8).describe("steps of a budget-limited or standard phase"),
  keepSingle: z.boolean().default(false).describe("every second budget phase keeps a cap of 1"),
  routingWarmup: share
    .default(1 / 3)
    .describe("share of the steps with random activation before the router learns"),
  randomShare: share.default(0.25).describe("share of rows with random activation after that"),
  freezePrimary: z.boolean().default(false).describe("train the router alone, from the run in init"),
  augment: z
    .boolean()
    .default(false)
    .describe("shuffle cells anew each epoch; specialists then run at every step"),
  keep: z
    .enum(["best", "last"])
    .default("best")
    .describe("weights to end with: best by validation, or the last"),
});
export type ParlOptions = z.input<typeof parlOptions>;
export type ParlSettings = z.output<typeof parlOptions>;
