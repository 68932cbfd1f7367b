import { z } from "zod";
import { AegirError } from "../errors.js";
import { count, holdOut, keptWeights, labelSmoothing, loopOptions } from "./loopOptions.js";

const share = z.number().min(0).max(1);

const swarmParts = {
  fuse: z
    .enum(["states", "outputs", "states+outputs"])
    .default("states")
    .describe("what of the specialists enters the primary"),
  fusionMode: z
    .enum(["weighted_sum", "gated", "concat_project"])
    .default("weighted_sum")
    .describe("how states are fused"),
  fuseLabels: z
    .boolean()
    .default(true)
    .describe("fused outputs reach the logits label by label, and not the embedding alone"),
  pool: z
    .enum(["learned", "fitted"])
    .default("learned")
    .describe(
      "weights of fused outputs: learned from equal ones on, or first those under which the labels of the columns that are learnt from are likeliest; with freezePrimary they stay so",
    ),
  poolOnly: z
    .boolean()
    .default(false)
    .describe(
      "of fused outputs learn the specialists' and the primary's weights in the pool, and no matrices: for a few thousand columns or fewer",
    ),
};

const learningRates = {
  primaryLrScale: z
    .number()
    .min(0)
    .default(1)
    .describe("the primary learns at lr times this; 0: only fusion, alignment and router learn"),
  routerLr: z.number().positive().default(1e-2).describe("learning rate of the router"),
  fusionLrScale: z.number().positive().default(3).describe("fusion learns at lr times this"),
  alignmentLrScale: z.number().positive().default(3).describe("alignment learns at lr times this"),
};

const rollouts = {
  estimator: z
    .enum(["auto", "sample", "enumerate"])
    .default("auto")
    .describe(
      "routings evaluated per row: drawn, or all there are (auto: all for up to 3 specialists; at most 10)",
    ),
  rollouts: count.default(8).describe("joint routings drawn per row"),
  baseline: z
    .enum(["rloo", "mean", "grpo", "none"])
    .optional()
    .describe("baseline of drawn routings (default: rloo; mean under --objective k25)"),
  normalise: z
    .enum(["none", "gdpo"])
    .default("none")
    .describe("gdpo: every component of the reward by itself, in place of the baseline; drawn routings only"),
  parallelCredit: z
    .enum(["surrogate", "difference"])
    .default("surrogate")
    .describe(
      "how r_parallel reaches the router: mean-field surrogate, or difference rewards of drawn routings",
    ),
};

const rewards = {
  reward: z
    .enum(["loglik", "correct"])
    .default("loglik")
    .describe("r_perf: log-likelihood of the label, or class-weighted correctness"),
  abstainBelow: share
    .default(0)
    .describe("a column whose largest probability is lower counts as unanswered in r_finish and correctness"),
  abstainAccuracy: share
    .optional()
    .describe(
      "share of right answers on validation that sets abstain-below at every validation; the run stores that of its weights",
    ),
  cost: z.number().min(0).default(0.25).describe("what activating every specialist costs a row"),
  prices: z
    .union([z.literal("time"), z.record(z.string(), z.number().min(0))])
    .optional()
    .describe(
      "what activating each specialist costs beside the others, or time: the milliseconds that it takes for a column, measured once on validation (default: all alike)",
    ),
  targetRate: share.optional().describe("activation rate that a controller of the cost holds"),
  stepsBudget: z
    .number()
    .positive()
    .optional()
    .describe("critical steps (blocks) beyond which a routing pays"),
  stepsPenalty: z.number().min(0).default(1).describe("what twice that budget costs"),
  toggle: z
    .number()
    .optional()
    .describe(
      "Toggle: in budget phases, once a row's mean r_perf reaches this, dear routings get the lowest reward",
    ),
  togglePercentile: z
    .number()
    .min(0)
    .max(100)
    .default(50)
    .describe("Toggle's budget: this percentile of the activations of correct rollouts at the start"),
  lambdaParallel: z.number().min(0).default(0.3).describe("initial weight of r_parallel"),
  lambdaFinish: z.number().min(0).default(0.1).describe("initial weight of r_finish"),
  lambdaSchedule: z
    .enum(["staged", "constant"])
    .default("staged")
    .describe("weights over the training: in stages, or as they began"),
  annealToZero: z.boolean().default(true).describe("anneal both weights to 0 over the last tenth"),
};

const policyUpdate = {
  objective: z.enum(["ppo", "k25"]).default("ppo").describe("policy loss: PPO's, or Kimi K2.5's"),
  epochs: z.number().int().min(1).max(8).default(1).describe("passes over the rollouts of a step"),
  minibatches: count.default(1).describe("router updates a pass"),
  accumulate: count.default(1).describe("batches whose gradients make one step"),
  clipFrom: z.number().positive().default(0.2).describe("clipping range at the start"),
  clipTo: z.number().positive().default(0.1).describe("clipping range at the end"),
  clipHighScale: z.number().min(1).default(1).describe("the upper range is this times the lower"),
  dualClip: z.number().gt(1).optional().describe("bound of the ratio for negative advantages"),
  logAlpha: z.number().max(0).default(-0.25).describe("k25: lower bound of the log-ratio"),
  logBeta: z.number().min(0).default(0.25).describe("k25: upper bound of the log-ratio"),
  tau: z.number().min(0).default(0.1).describe("k25: weight of the squared log-ratio"),
  entropyBonus: z.number().min(0).max(0.1).default(0.005).describe("weight of the policy's entropy"),
  entropyTarget: z.number().min(0).optional().describe("nats a specialist under which the bonus grows"),
  klCoef: z.number().min(0).default(0).describe("weight of KL(new policy, old policy)"),
  klTarget: z.number().positive().optional().describe("nats of KL a step that an adaptive weight holds"),
};

const phases = {
  phaseSteps: count.default(8).describe("steps of a budget-limited or standard phase"),
  maxCap: count.optional().describe("largest cap of the budget phases (default: all specialists)"),
  keepSingle: z.boolean().default(false).describe("every second budget phase keeps a cap of 1"),
  routingWarmup: share
    .default(1 / 3)
    .describe("share of the steps with random activation before the router learns"),
  randomShare: share.default(0.25).describe("share of rows with random activation after that"),
};

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
  ...swarmParts,
  ...learningRates,
  ...rollouts,
  ...rewards,
  ...policyUpdate,
  ...phases,
  collapsePatience: z
    .number()
    .int()
    .min(0)
    .default(100)
    .describe("steps that a sign of collapse may hold before the training stops; 0: it only warns"),
  specialistTimeout: z
    .number()
    .positive()
    .default(120)
    .describe("seconds for a batch after which a specialist has failed"),
  cacheBytes: z
    .number()
    .positive()
    .default(2 * 2 ** 30)
    .describe(
      "memory for the outputs of all specialists on the training columns; what does not fit is run again",
    ),
  freezePrimary: z.boolean().default(false).describe("train the router alone, from the run in init"),
  learnFrom: z
    .enum(["train", "held-out", "validation"])
    .default("train")
    .describe(
      "columns to learn on: all training ones; those that holdOut kept back from the specialists or their stand-ins; or half of the validation sites, judged by the other half, for specialists that know all training columns by heart",
    ),
  holdOut,
  augment: z
    .boolean()
    .default(false)
    .describe("shuffle cells anew each epoch; specialists then run at every step"),
  keep: keptWeights,
});
export type ParlOptions = z.input<typeof parlOptions>;
export type ParlSettings = z.output<typeof parlOptions>;

/** Options that mean nothing unless another has a certain value. */
const READ_WITH: {
  names: (keyof ParlSettings)[];
  what: string;
  read: (all: ParlSettings, numSpecialists: number) => boolean;
}[] = [
  {
    names: ["logAlpha", "logBeta", "tau"],
    what: "objective k25",
    read: ({ objective }) => objective === "k25",
  },
  {
    names: ["clipFrom", "clipTo", "clipHighScale", "dualClip"],
    what: "objective ppo",
    read: ({ objective }) => objective === "ppo",
  },
  { names: ["togglePercentile"], what: "toggle", read: ({ toggle }) => toggle !== undefined },
  { names: ["stepsPenalty"], what: "stepsBudget", read: ({ stepsBudget }) => stepsBudget !== undefined },
  {
    names: ["prices"],
    what: "a cost",
    read: ({ cost, targetRate }) => cost > 0 || targetRate !== undefined,
  },
  {
    names: ["baseline"],
    what: "drawn routings (estimator sample) and normalise none",
    read: (all, n) => !enumerates(all, n) && all.normalise === "none",
  },
  { names: ["fusionMode", "alignmentLrScale"], what: "fuse states", read: ({ fuse }) => fuse !== "outputs" },
  { names: ["fuseLabels"], what: "fuse outputs", read: ({ fuse }) => fuse !== "states" },
  {
    names: ["poolOnly"],
    what: "fuse outputs, and fuseLabels",
    read: ({ fuse, fuseLabels }) => fuse !== "states" && fuseLabels,
  },
];

/** @throws AegirError ERR_CONFIG for the first of `given` that nothing reads, unless it is the default */
export function refuseUnread(given: ParlOptions, settings: ParlSettings, numSpecialists: number): void {
  const defaults = parlOptions.parse({});
  for (const { names, what, read } of READ_WITH) {
    const name = names.find((each) => given[each] !== undefined && given[each] !== defaults[each]);
    if (name === undefined || read(settings, numSpecialists)) continue;
    const value = given[name];
    const was = typeof value === "object" ? JSON.stringify(value) : value;
    throw new AegirError(
      "ERR_CONFIG",
      `trainParl.${name}: was ${was}, which nothing reads without ${what}; leave it out, or give that too`,
    );
  }
}

const ENUMERATED_BY_DEFAULT = 3;
const ENUMERATION_LIMIT = 10;

/** Whether all routings are evaluated. @throws AegirError ERR_CONFIG for options that contradict it */
export function enumerates(
  { estimator, normalise, parallelCredit }: Pick<ParlSettings, "estimator" | "normalise" | "parallelCredit">,
  numSpecialists: number,
): boolean {
  const drawnOnly = normalise !== "none" || parallelCredit === "difference";
  if (estimator === "enumerate" && drawnOnly)
    throw new AegirError(
      "ERR_CONFIG",
      `trainParl: ${normalise === "none" ? "parallelCredit difference" : "normalise gdpo"} is for drawn routings; estimator: expected sample, got enumerate`,
    );
  if (estimator === "enumerate" && numSpecialists > ENUMERATION_LIMIT)
    throw new AegirError(
      "ERR_CONFIG",
      `trainParl.estimator: enumerate needs at most ${ENUMERATION_LIMIT} specialists, got ${numSpecialists}; use sample`,
    );
  return (
    estimator === "enumerate" ||
    (estimator === "auto" && !drawnOnly && numSpecialists <= ENUMERATED_BY_DEFAULT)
  );
}
