import type { SerialiserOptions } from "../../data/serialise.js";
import type { AnnotatorOptions } from "../../model/index.js";
import type { NgramSpecialistOptions, SpecialistKind } from "../../specialists/index.js";
import type { DistillOptions } from "../../train/distill.js";
import type { ParlOptions } from "../../train/parlOptions.js";
import type { PretrainOptions } from "../../train/pretrain.js";
import type { SupervisedOptions } from "../../train/supervised.js";

/** The recipe of one trained model: whatever is not named has its default. */
export interface Recipe {
  model: Omit<AnnotatorOptions, "labels" | "numLabels">;
  serialise: SerialiserOptions;
  train: SupervisedOptions;
}

/** What a distilled model learns from, beside the labels. */
export type TeacherName = "ngram" | "stacked" | "labels" | "swarm";

/** The recipe with one thing changed. */
export interface Ablation {
  name: string;
  /** Which model is trained with the change. */
  of: "labels" | "distilled";
  model?: Partial<Recipe["model"]>;
  serialise?: SerialiserOptions;
  train?: SupervisedOptions;
  distill?: LearnPlan["distill"];
  teachers?: TeacherName[];
  /** Of the model on labels alone: labels of the other task as a second one on the same backbone. */
  also?: true;
  /** Of the model on labels alone: what comes before. */
  pretrain?: PretrainOptions;
}

export interface LearnPlan extends Recipe {
  /** Of the distilled model, over `train`. */
  distill: SupervisedOptions & DistillOptions;
  teachers: TeacherName[];
  also?: true;
  pretrain?: PretrainOptions;
  /** Over `distill`, of the net that answers in the distilled one's place while the swarm learns: the held-out sites, and the steps. */
  standIn: { holdOut: number; steps: number };
  /** Features of the n-gram baselines. */
  ngrams: Omit<NgramSpecialistOptions, "context" | "folds" | "tau">;
  /** Linear specialists, for teaching and for the swarm. */
  specialists: Record<string, { kind: SpecialistKind; options?: object }>;
  /** A small model that reads sequences, and how it learns to ask; `byTime`, over `parl`: where what it asks costs its time. */
  swarm: { primary: Recipe; parl: ParlOptions; byTime: ParlOptions };
  ablations: Ablation[];
  /** Labelled columns of the learning curve; counts that training has not so many of are left out. */
  curve: number[];
}

const NGRAMS = { sizes: [2, 3, 4, 5, 6, 8], buckets: 262_144, width: 48, lowercase: true, shapes: true };

const RECIPE = {
  model: {
    archLayout: ["w2"],
    dModel: 96,
    headSize: 32,
    channelMixRatio: 2,
    ngrams: NGRAMS,
    pooling: ["mean", "max"],
    poolNorm: true,
    columns: { positions: 16 },
  },
  serialise: {
    form: "columns",
    shared: true,
    choose: "sampled",
    maxTokens: 256,
    maxContext: 8,
    targetCells: 5,
    cellBytes: 96,
    // Of the subject alone, where there is one.
    contextCells: 5,
  },
} satisfies Omit<Recipe, "train">;

const TRAIN = {
  lr: 3e-3,
  beta2: 0.98,
  warmup: 30,
  decay: "linear",
  weightDecay: 0.05,
  labelSmoothing: 0.05,
  dropout: 0.1,
  dropRate: 0.3,
  ema: 0.995,
  batchBy: "table",
  batchRows: 128,
  batchTokens: 6144,
  validateEvery: 200,
  saveEvery: 200,
} satisfies SupervisedOptions;

const SPECIALISTS: LearnPlan["specialists"] = {
  ngram: { kind: "ngram" },
  own: { kind: "ngram", options: { context: false } },
  format: { kind: "format" },
  // What labels of the other task say, and nothing that the others read already.
  properties: {
    kind: "stacked",
    options: {
      readOwn: false,
      wordPairs: false,
      shapes: false,
      formats: false,
      places: false,
      readerLength: 1,
    },
  },
  stacked: { kind: "stacked" },
};

const SWARM: LearnPlan["swarm"] = {
  primary: {
    model: {
      ...RECIPE.model,
      ngrams: { ...NGRAMS, buckets: 65_536 },
      columns: undefined,
      pooling: ["mean", "max", "context"],
    },
    serialise: {
      ...RECIPE.serialise,
      form: "sequence",
      shared: false,
      choose: "relevant",
      maxContext: 5,
      contextCells: 2,
      contextCellBytes: 24,
    },
    train: {
      ...TRAIN,
      ema: 0,
      batchBy: "column",
      batchTokens: undefined,
      batchRows: 32,
      lr: 2.5e-3,
      steps: 400,
    },
  },
  parl: {
    fuse: "outputs",
    pool: "fitted",
    freezePrimary: true,
    cost: 0.05,
    steps: 150,
    batchRows: 32,
    validateEvery: 150,
    saveEvery: 50,
    keep: "last",
  },
  byTime: { prices: "time", cost: 0.2 },
};

/** Of what either net reads. */
const READING: Omit<Ablation, "of">[] = [
  { name: "no shapes", model: { ngrams: { ...NGRAMS, shapes: false } } },
  { name: "case matters", model: { ngrams: { ...NGRAMS, lowercase: false } } },
  { name: "65,536 rows of n-grams", model: { ngrams: { ...NGRAMS, buckets: 65_536 } } },
  {
    name: "batches of columns, of context columns two short cells",
    serialise: { shared: false, contextCells: 2, contextCellBytes: 24 },
    train: { batchBy: "column" },
  },
];

const ABLATIONS: Ablation[] = [
  { name: "no context columns", of: "labels", serialise: { maxContext: 0 } },
  ...READING.map((one): Ablation => ({ ...one, of: "labels" })),
  ...READING.map((one): Ablation => ({ ...one, name: `${one.name}, distilled`, of: "distilled" })),
  { name: "no positions", of: "labels", model: { columns: {} } },
  { name: "no n-gram embeddings", of: "labels", model: { ngrams: undefined } },
  { name: "pooled values not normalised", of: "labels", model: { poolNorm: false } },
  { name: "mean pooling", of: "labels", model: { pooling: ["mean"] } },
  { name: "one block reversed", of: "labels", model: { archLayout: ["w1<w1"] } },
  { name: "factored labels", of: "labels", model: { factorLabels: true } },
  { name: "cells neither shuffled nor dropped", of: "labels", train: { augment: false } },
  { name: "no own-column head", of: "labels", train: { ownWeight: 0 } },
  { name: "no weight average", of: "labels", train: { ema: 0 } },
  { name: "no dropout", of: "labels", train: { dropout: 0 } },
  { name: "no label smoothing", of: "labels", train: { labelSmoothing: 0 } },
  { name: "labels of the other task too", of: "labels", also: true },
  {
    name: "contrastive pretraining before",
    of: "labels",
    pretrain: {
      objective: "same-column",
      steps: 300,
      batchRows: 64,
      lr: 3e-3,
      validateEvery: 300,
      saveEvery: 300,
    },
  },
  { name: "surer teachers (temperature .5)", of: "distilled", distill: { temperature: 0.5 } },
  { name: "taught by the net on labels too", of: "distilled", teachers: ["ngram", "stacked", "labels"] },
  { name: "taught by the swarm", of: "distilled", teachers: ["swarm"] },
  { name: "taught by the n-gram specialist alone", of: "distilled", teachers: ["ngram"] },
  { name: "no mixed copies", of: "distilled", distill: { mixedCopies: 0 } },
  { name: "AdamW in place of Muon", of: "distilled", distill: { optimizer: "adamw", lr: 3e-3 } },
];

/** The recipe of docs/learning.md; `quick`: small enough for a test, which shows that all works and nothing else. */
export function learnPlan(quick: boolean): LearnPlan {
  if (quick) return quickPlan();
  return {
    ...RECIPE,
    // Two CPU-minutes.
    train: { ...TRAIN, steps: 600 },
    distill: {
      steps: 2000,
      validateEvery: 400,
      softShare: 0.6,
      temperature: 1,
      mixedCopies: 2,
      optimizer: "muon",
      lr: 4e-3,
    },
    teachers: ["ngram", "stacked"],
    standIn: { holdOut: 1 / 3, steps: 1300 },
    ngrams: {},
    specialists: SPECIALISTS,
    swarm: SWARM,
    ablations: ABLATIONS,
    curve: [250, 500, 1000, 2000],
  };
}

function quickPlan(): LearnPlan {
  return {
    model: { archLayout: ["w1"], dModel: 32, headSize: 16, columns: { heads: 2, positions: 4 } },
    serialise: { form: "columns", maxTokens: 48, maxContext: 2, targetCells: 3, contextCells: 2 },
    train: { steps: 12, batchRows: 16, lr: 5e-3, validateEvery: 6, saveEvery: 6 },
    distill: { steps: 16, mixedCopies: 1 },
    teachers: ["ngram", "labels"],
    standIn: { holdOut: 1 / 3, steps: 12 },
    ngrams: { buckets: 4096 },
    specialists: { ngram: { kind: "ngram" }, stacked: { kind: "stacked" } },
    swarm: {
      primary: {
        model: { archLayout: ["w2"], dModel: 32, headSize: 16 },
        serialise: { maxTokens: 48, maxContext: 1, targetCells: 3 },
        train: { steps: 8, batchRows: 16, validateEvery: 8, saveEvery: 8 },
      },
      parl: {
        fuse: "outputs",
        primaryLrScale: 0,
        steps: 6,
        batchRows: 8,
        validateEvery: 6,
        saveEvery: 3,
        keep: "last",
      },
      // Measured ones differ from run to run.
      byTime: { prices: { ngram: 1, stacked: 4, net: 5 }, cost: 0.2 },
    },
    ablations: [
      { name: "no context columns", of: "labels", serialise: { maxContext: 0 } },
      {
        name: "contrastive pretraining before",
        of: "labels",
        pretrain: { objective: "same-column", steps: 2, batchRows: 16 },
      },
    ],
    curve: [60, 120],
  };
}
