import { z } from "zod";
import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import type {
  AnnotatorConfig,
  BackboneConfig,
  BlockSpec,
  ColumnsConfig,
  LoraRanks,
  NgramConfig,
  Pooling,
  StageConfig,
} from "../native/contract.js";
import { labelFactors } from "./labelFactors.js";
import { type ArchLayout, hasReversedBlocks, type LayoutBlock, parseLayout } from "./layout.js";

/** 256 bytes and the special ids above them. */
const DEFAULT_VOCABULARY = 264;
const DEFAULT_ROLES = 8;
/** Classes without names at most: each gets one. */
const MAX_UNNAMED = 1_000_000;
/** A stage of this width or wider gets the ranks and the head size of the RWKV-7 paper. */
const WIDE = 256;

const positive = z.number().int().positive();
const perStage = z.union([positive, z.array(positive).min(1).readonly()]);
const layoutSchema: z.ZodType<ArchLayout, ArchLayout> = z.lazy(() =>
  z.array(z.union([z.string(), layoutSchema])).min(1),
);
const ranksSchema = z.strictObject({ decay: positive, a: positive, v: positive, gate: positive });

const ngramSchema = z.strictObject({
  /** Rising lengths of the n-grams. */
  sizes: z
    .array(z.int().min(1).max(16))
    .min(1)
    .refine((sizes) => sizes.every((n, i) => i === 0 || n > sizes[i - 1]!), "must rise")
    .default([2, 3, 4, 5, 6]),
  /** Rows of the table that n-grams are hashed into; those that meet in a row share it. */
  buckets: positive.default(65_536),
  /** Channels of a row. */
  width: positive.default(48),
  /** The small letter is read for a capital of ASCII; never for shapes. */
  lowercase: z.boolean().default(false),
  /** n-grams of what bytes look like too: a digit is 9, a capital A, another letter a, a byte of other characters one sign. */
  shapes: z.boolean().default(false),
});

const columnsSchema = z.strictObject({
  /** Heads of the attention. Default: 3, or the most up to 4 that divide the width. */
  heads: positive.optional(),
  /** Places of a table that have a learned embedding each, the last for all behind it; 0: the order of columns changes nothing. */
  positions: z.int().min(0).max(4096).default(0),
});

const backboneShape = {
  /** Geometry to start from; options beside it replace its fields. */
  preset: z.enum(["tiny", "small", "base"]).optional(),
  /** Nested layout, as in ["w2", ["w4"], "w2"], or flat, as in ["w6"]. */
  archLayout: layoutSchema.optional(),
  /** Width of every stage, or one per stage, outermost first; an inner stage is at least as wide as the outer one. */
  dModel: perStage.optional(),
  /** Channels of a head; default 64, for widths under 256: 32. */
  headSize: perStage.optional(),
  /** Ranks of the low-rank maps; default: the paper's rule, for widths under 256: 16, the gate's 32 (see `defaultRanks`). */
  loraRanks: z.union([ranksSchema, z.array(ranksSchema).min(1).readonly()]).optional(),
  /** Hidden width over model width of the RWKV-7 channel mix. */
  channelMixRatio: z.number().positive().default(4),
  /** Hidden width of the feed-forward part, in place of the ratio (default of "W" blocks: 8/3 of the width). */
  dIntermediate: perStage.optional(),
  /** Target downsampling of the routing modules, one per chunking stage or one for all. */
  downsample: z.union([z.number().gt(1), z.array(z.number().gt(1)).readonly()]).default(4),
  /** Initial values: "annotation" learns labels several times faster, "rwkv" is the paper's, for pretraining. */
  init: z.enum(["rwkv", "annotation"]).optional(),
  /** Hashed embeddings of the byte n-grams that end at each token: what short strings mean by themselves. Default: none. */
  ngrams: ngramSchema.optional(),
  vocabSize: positive.default(DEFAULT_VOCABULARY),
  numRoles: positive.default(DEFAULT_ROLES),
  /** Type of the parameters; "f64" is for checking gradients. */
  dtype: z.enum(["f32", "f64"]).default("f32"),
  /**
   * Type of the matrix products inside blocks. "bf16": their factors are rounded to bf16; parameters, gradients, optimiser, recurrent
   * states, norms, heads and losses stay f32, and checkpoints with them.
   */
  precision: z.enum(["f32", "bf16"]).optional(),
};

const causalLMSchema = z.strictObject(backboneShape);
const annotatorSchema = z.strictObject({
  ...backboneShape,
  /** Names of the classes, index = class id. */
  labels: z.array(z.string()).min(1).readonly().optional(),
  /** Number of classes where they have no names. */
  numLabels: positive.max(MAX_UNNAMED).optional(),
  /** What the head reads side by side: "mean" and "max" of the column's own tokens, and "context", the mean of all others. */
  pooling: z
    .array(z.enum(["mean", "max", "context"]))
    .min(1)
    .readonly()
    .default(["mean"]),
  /**
   * Brings each of these to mean 0 and variance 1 over its channels. A mean over many tokens is nearly the same for all columns; normalised, it is
   * learnt from several times faster.
   */
  poolNorm: z.boolean().default(false),
  /**
   * Column-wise: each column of a table is a sequence of its own, encoded once, and attention over the embeddings of the table's
   * other columns stands before the classifier. Default: none.
   */
  columns: columnsSchema.optional(),
  /** Labels such as "Book/name" share the logits of their parts, "Book" and "name", with other labels that have them. */
  factorLabels: z.boolean().default(false),
});

export type ModelPreset = NonNullable<z.input<typeof causalLMSchema>["preset"]>;
export type CausalLMOptions = z.input<typeof causalLMSchema>;
export type AnnotatorOptions = z.input<typeof annotatorSchema>;

/** Every choice spelled out, as checkpoints keep it; valid options for the same model. */
export interface ResolvedBackbone {
  archLayout: ArchLayout;
  dModel: number[];
  headSize: number[];
  loraRanks: LoraRanks[];
  channelMixRatio: number;
  dIntermediate?: number[];
  downsample: number[];
  init: "rwkv" | "annotation";
  ngrams?: NgramConfig;
  vocabSize: number;
  numRoles: number;
  dtype: "f32" | "f64";
  precision?: "bf16";
}

export interface ResolvedAnnotator extends ResolvedBackbone {
  labels: string[];
  pooling: Pooling[];
  poolNorm?: true;
  columns?: ColumnsConfig;
  factorLabels?: true;
}

interface PresetShape {
  archLayout: ArchLayout;
  dModel: number[];
  headSize: number;
}

const presets: Record<ModelPreset, PresetShape> = {
  tiny: { archLayout: ["w1", ["w2"], "w1"], dModel: [64, 96], headSize: 32 },
  small: { archLayout: ["w2", ["w4"], "w2"], dModel: [128, 192], headSize: 64 },
  base: { archLayout: ["w2", ["w2", ["w6"], "w2"], "w2"], dModel: [256, 384, 512], headSize: 64 },
};

/** Checks and completes the options of a causal language model. @throws AegirError ERR_CONFIG */
export function resolveCausalLM(options: CausalLMOptions): ResolvedBackbone {
  const resolved = resolveBackbone(parseOptions("model options", causalLMSchema, options), "rwkv");
  if (hasReversedBlocks(resolved.archLayout)) {
    throw new AegirError(
      "ERR_CONFIG",
      `model options.archLayout: ${JSON.stringify(resolved.archLayout)} has reversed blocks ("<"), which read what a causal language model predicts; they are for annotation models`,
    );
  }
  return resolved;
}

/** Checks and completes the options of an annotation model. @throws AegirError ERR_CONFIG */
export function resolveAnnotator(options: AnnotatorOptions): ResolvedAnnotator {
  const parsed = parseOptions("model options", annotatorSchema, options);
  const { labels, numLabels, pooling, poolNorm, columns, factorLabels, ...given } = parsed;
  if (labels && numLabels !== undefined && labels.length !== numLabels) {
    throw new AegirError(
      "ERR_CONFIG",
      `model options: numLabels is ${numLabels}, but labels has ${labels.length} names`,
    );
  }
  const names =
    labels ?? (numLabels === undefined ? [] : Array.from({ length: numLabels }, (_, i) => `label${i}`));
  if (names.length === 0) {
    throw new AegirError(
      "ERR_CONFIG",
      "model options: an annotation model needs labels (names) or numLabels",
    );
  }
  const repeated = names.find((name, i) => names.indexOf(name) !== i);
  if (repeated !== undefined)
    throw new AegirError("ERR_CONFIG", `model options.labels: '${repeated}' occurs twice`);
  const backbone = resolveBackbone(given, "annotation");
  const width = backbone.dModel[0]!;
  const heads = columns?.heads ?? [3, 4, 2, 1].find((count) => width % count === 0)!;
  if (columns && width % heads !== 0) {
    throw new AegirError(
      "ERR_CONFIG",
      `model options.columns.heads (--column-heads): ${heads} does not divide dModel ${width}; give a number that does, or none`,
    );
  }
  if (columns && pooling.includes("context")) {
    throw new AegirError(
      "ERR_CONFIG",
      'model options.pooling: "context" is of models that read the context in the target\'s own sequence; with columns, attention reads it',
    );
  }
  return {
    ...backbone,
    labels: [...names],
    pooling: [...pooling],
    // Absent where off, as in runs that were saved before there was the option.
    ...(poolNorm ? { poolNorm } : {}),
    ...(columns ? { columns: { ...columns, heads } } : {}),
    ...(factorLabels ? { factorLabels } : {}),
  };
}

/**
 * Default ranks of the low-rank maps for a width. From 256 up: the rule of the RWKV-7 reference code,
 * max(32, 32 round(c sqrt(D) / 32)), c = 2.5 (decay, a), 1.7 (v), 5 (gate). Below, that rule's floor of 32 would make the
 * maps as large as the full matrices: decay, a and v get 16 (8 under 64), the gate twice that.
 */
export function defaultRanks(dModel: number): LoraRanks {
  if (dModel < WIDE) {
    const rank = dModel < 64 ? 8 : 16;
    return { decay: rank, a: rank, v: rank, gate: 2 * rank };
  }
  const rank = (c: number) => Math.max(32, 32 * roundHalfEven((c * Math.sqrt(dModel)) / 32));
  return { decay: rank(2.5), a: rank(2.5), v: rank(1.7), gate: rank(5) };
}

/** As Python rounds, in which the rule is written: widths 256 and 1024 meet ties. */
function roundHalfEven(x: number): number {
  return x % 1 === 0.5 ? 2 * Math.round(x / 2) : Math.round(x);
}

function resolveBackbone(
  parsed: z.output<typeof causalLMSchema>,
  init: "rwkv" | "annotation",
): ResolvedBackbone {
  const { preset, ...given } = parsed;
  const base: Partial<PresetShape> = preset ? presets[preset] : {};
  const archLayout = given.archLayout ?? base.archLayout;
  const width = given.dModel ?? base.dModel;
  if (!archLayout || !width) {
    throw new AegirError(
      "ERR_CONFIG",
      `model options: give archLayout and dModel, or a preset (${Object.keys(presets).join(", ")})`,
    );
  }
  if (given.precision && given.dtype !== "f32") {
    throw new AegirError(
      "ERR_CONFIG",
      `model options.precision: "${given.precision}" needs dtype "f32", which is "${given.dtype}"`,
    );
  }
  const depth = parseLayout(archLayout).length;
  const dModel = spread("dModel", width, depth);
  checkWidths(dModel);
  const preferred = given.headSize ?? (given.dModel ? undefined : base.headSize);
  const headSize = preferred ? spread("headSize", preferred, depth) : dModel.map((d) => (d < WIDE ? 32 : 64));
  headSize.forEach((n, i) => {
    if (dModel[i]! % n !== 0) {
      throw new AegirError(
        "ERR_CONFIG",
        `model options.headSize: ${n} does not divide dModel ${dModel[i]} of stage ${i}`,
      );
    }
  });
  return {
    archLayout,
    dModel,
    headSize,
    loraRanks: given.loraRanks ? spread("loraRanks", given.loraRanks, depth) : dModel.map(defaultRanks),
    channelMixRatio: given.channelMixRatio,
    ...(given.dIntermediate ? { dIntermediate: spread("dIntermediate", given.dIntermediate, depth) } : {}),
    downsample: depth === 1 ? [] : spread("downsample", given.downsample, depth - 1),
    init: given.init ?? init,
    ...(given.ngrams ? { ngrams: resolvedNgrams(given.ngrams) } : {}),
    vocabSize: given.vocabSize,
    numRoles: given.numRoles,
    dtype: given.dtype,
    ...(given.precision === "bf16" ? { precision: given.precision } : {}),
  };
}

/** What is off is left out, as in runs of versions that did not know it. */
function resolvedNgrams({ lowercase, shapes, ...table }: z.output<typeof ngramSchema>): NgramConfig {
  return { ...table, ...(lowercase ? { lowercase } : {}), ...(shapes ? { shapes } : {}) };
}

function checkWidths(dModel: number[]): void {
  dModel.forEach((d, i) => {
    if (i > 0 && d < dModel[i - 1]!) {
      throw new AegirError(
        "ERR_CONFIG",
        `model options.dModel: stage ${i} is ${d} wide, narrower than the stage around it (${dModel[i - 1]})`,
      );
    }
  });
}

function spread<T extends object | number>(name: string, value: T | readonly T[], count: number): T[] {
  if (!isList(value)) return Array.from({ length: count }, () => value);
  if (value.length !== count) {
    throw new AegirError(
      "ERR_CONFIG",
      `model options.${name}: has ${value.length} entries, expected ${count} for this layout`,
    );
  }
  return [...value];
}

function isList<T>(value: T | readonly T[]): value is readonly T[] {
  return Array.isArray(value);
}

/** The native configuration of a resolved backbone. */
export function nativeBackbone(model: ResolvedBackbone): BackboneConfig {
  const layout = parseLayout(model.archLayout);
  const stage = (i: number): StageConfig => {
    const { encoder, decoder } = layout[i]!;
    const blocks = (specs: LayoutBlock[]) =>
      specs.map(({ code, reversed }) => ({ code, reversed, dIntermediate: hidden(model, i, code) }));
    const own = { dModel: model.dModel[i]!, headSize: model.headSize[i]!, encoder: blocks(encoder) };
    return decoder
      ? { ...own, decoder: blocks(decoder), inner: stage(i + 1), downsample: model.downsample[i]! }
      : own;
  };
  const { vocabSize, numRoles, init, loraRanks, ngrams, dtype, precision } = model;
  return { stages: stage(0), vocabSize, numRoles, init, loraRanks, ngrams, dtype, precision };
}

export function nativeAnnotator(model: ResolvedAnnotator): AnnotatorConfig {
  const { labels, pooling, poolNorm, columns, factorLabels } = model;
  const factors = factorLabels ? labelFactors(labels) : undefined;
  const head = { numLabels: labels.length, pooling, poolNorm, columns, labelFactors: factors };
  return { ...nativeBackbone(model), ...head };
}

function hidden(model: ResolvedBackbone, stage: number, code: BlockSpec["code"]): number {
  const given = model.dIntermediate?.[stage];
  if (given !== undefined) return given;
  const width = model.dModel[stage]!;
  return code === "w" ? Math.round(model.channelMixRatio * width) : 8 * Math.round((8 / 3) * (width / 8));
}
