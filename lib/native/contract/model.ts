/** Modules and models: configurations, inputs and outputs. Conventions: ../contract.ts. */

import type { DeviceName, GraphReport, NativeTensor, Timed } from "./tensor.js";

export type ModuleKind = "annotator" | "causalLM" | "router" | "stateFusion" | "alignment" | "outputFusion";

export interface ParameterInfo {
  name: string;
  shape: number[];
  /** Decides the optimiser group (docs/model.md): weight decay only on "matrix". */
  group: "matrix" | "vector" | "lowRank" | "decayBase";
}

/** A torch::nn module: parameters with dotted names. */
export interface NativeModule {
  readonly kind: ModuleKind;
  readonly frozen: boolean;
  readonly numParameters: number;
  readonly disposed: boolean;
  parameters(): ParameterInfo[];
  /** Handles sharing storage with the parameters (and persistent buffers). */
  stateDict(): Record<string, NativeTensor>;
  /** Copies values in; every name and shape must agree, or ERR_CHECKPOINT and nothing is changed. */
  loadStateDict(tensors: Record<string, NativeTensor>): void;
  /** Copies of the accumulated gradients, of the parameters that have one. */
  gradients(): Record<string, NativeTensor>;
  /** requires_grad off for good. `graphs`: forwards of a model on a GPU replay CUDA graphs where they can. */
  freeze(graphs?: boolean): void;
  /** Null where graphs were not asked for. */
  readonly graphs: GraphReport | null;
  readonly device: DeviceName;
  /** Moves the parameters; handles on them stay where they were. No call may be running on the module. */
  to(device: DeviceName): void;
  dispose(): void;
}

/** One stage of a backbone, outermost first; only the innermost has no `inner`. */
export interface StageConfig {
  dModel: number;
  headSize: number;
  /** Blocks before routing (or the only blocks, innermost). */
  encoder: BlockSpec[];
  inner?: StageConfig;
  decoder?: BlockSpec[];
  /** Target downsampling M > 1 of the routing module's ratio loss; wherever `inner` is. */
  downsample?: number;
}

export interface BlockSpec {
  /** "w": RWKV-7 time mix + RWKV-7 channel mix; "W": time mix + SwiGLU. */
  code: "w" | "W";
  /** Hidden width of the channel mix or SwiGLU. */
  dIntermediate: number;
  /** Runs over each sequence from its end to its start. */
  reversed?: boolean;
}

export interface LoraRanks {
  decay: number;
  a: number;
  v: number;
  gate: number;
}

export interface NgramConfig {
  /** Rising lengths of the n-grams. */
  sizes: number[];
  /** Rows of the table. */
  buckets: number;
  /** Width of the table. */
  width: number;
  /** Capitals of ASCII are read as small letters; absent: false. */
  lowercase?: boolean;
  /** n-grams of what bytes look like too; absent: false. */
  shapes?: boolean;
}

export interface BackboneConfig {
  stages: StageConfig;
  vocabSize: number;
  numRoles: number;
  init: "rwkv" | "annotation";
  /** Per stage, outermost first. */
  loraRanks: LoraRanks[];
  /** Hashed byte n-gram embeddings; absent: none. */
  ngrams?: NgramConfig;
  /** Type of the parameters; default f32. */
  dtype?: "f32" | "f64";
  /** Of the matrix products inside blocks; absent: dtype. */
  precision?: "f32" | "bf16";
}

export type Pooling = "mean" | "max" | "context";

export interface AnnotatorConfig extends BackboneConfig {
  /** What the head reads side by side: mean or max over poolMask, "context": the mean over the other tokens. */
  pooling: Pooling[];
  /** Each of these is brought to mean 0 and variance 1 over its channels; absent: false. */
  poolNorm?: boolean;
  numLabels: number;
  /** Attention over a table's columns, each encoded as one sequence; absent: none. */
  columns?: ColumnsConfig;
  /** Per label the ids of the factors that it shares with others; absent: labels share nothing. */
  labelFactors?: number[][];
}

export interface ColumnsConfig {
  heads: number;
  /** Rows of the table of learned positions, the last for all places behind it; 0: none. */
  positions: number;
}

/** The recurrent state of a backbone. Names: `stage0.encoder.0.attKv`, `stage0.routing.lastHidden`, … */
export interface NativeState {
  readonly disposed: boolean;
  tensors(): Record<string, NativeTensor>;
  /**
   * attKv (B,H,N,N) of a stage's layers before its routing, in order; flat layouts of several blocks: of the layers after
   * the first, which belongs to the prefix. Absent: the innermost stage.
   */
  innerKv(stage?: number): NativeTensor[];
  /** attXPrev and ffnXPrev (B,D) of the same layers, interleaved per layer. */
  innerShift(stage?: number): NativeTensor[];
  selectRows(rows: NativeTensor): NativeState;
  dispose(): void;
}

/** Tensors are read when the job runs and stay the caller's. */
export interface ModelInput {
  /** (B,T) i64; packed: (1,T) with `cuSeqlens`. */
  inputIds: NativeTensor;
  /** (B,T) i64; absent: role 0. */
  roleIds?: NativeTensor;
  /** (B) i64 in 1..T, valid tokens of right-padded rows; absent: all valid. */
  lengths?: NativeTensor;
  /** (S+1) i64 from 0 to T, starts of packed sequences. */
  cuSeqlens?: NativeTensor;
  /** (B,T) bool, the tokens that are averaged; absent: all valid tokens. */
  poolMask?: NativeTensor;
  /** Models with `columns`: (R) i64, the sequences to label; absent: all, each without context. Row r of the output is target r. */
  targets?: NativeTensor;
  /** (R,k) i64, the sequences that are other columns of a target's table, in any order; -1: none. */
  context?: NativeTensor;
  /** (S) i64, the place of each sequence's column in its table; read where `columns.positions` is not 0. */
  positions?: NativeTensor;
  /** Continues the sequences from here; absent: they start. */
  state?: NativeState;
  /** Of training: zeroes embeddings, and the pooled embedding, with chance `rate` in 0..1; masks follow from `seed` alone. */
  dropout?: { rate: number; seed: number };
  /** Build the autograd graph. */
  grad: boolean;
  /** Keep the inputs of blocks alone for the backward pass; absent: where a stack would keep more than an eighth of the memory. */
  recompute?: boolean;
  /** Intra-op threads of this forward; absent: the lane's. */
  threads?: number;
}

export interface ModelOutput extends Timed {
  /** annotator: (B,C), column-wise (R,C); causal LM: (B,T,V). */
  logits: NativeTensor;
  /** Column-wise annotator: (R,C) from the target columns alone; else null. */
  ownLogits: NativeTensor | null;
  /** annotator: embedding after the tanh pooler (B,D); null for a causal LM. */
  pooled: NativeTensor | null;
  state: NativeState;
  /** (B,D) mean of the first stage's encoder output over poolMask (absent: over all valid tokens). */
  routingHidden: NativeTensor;
  /** Scalar, sum of the ratio losses of all routing modules; 0 for a flat layout. */
  ratioLoss: NativeTensor;
  /** Share of boundaries among valid tokens, per chunking stage. */
  boundaryRates: number[];
}

export interface StepInput {
  /** (B) i64, one token of each sequence. */
  inputIds: NativeTensor;
  /** (B) i64, absent: role 0. */
  roleIds?: NativeTensor;
  state?: NativeState;
}

export interface StepOutput extends Timed {
  /** (B,V) */
  logits: NativeTensor;
  state: NativeState;
  /** By the decoding kernels; false: by the model's forward (on a GPU, at the start of sequences, for odd head sizes). */
  decoded: boolean;
}

export interface GenerateInput {
  /** (V) after the last token of `state`, of one sequence. */
  logits: NativeTensor;
  state: NativeState;
  /** Tokens to draw. */
  count: number;
  /** 0: the most probable token. */
  temperature: number;
  /** 0: all. */
  topK: number;
  topP: number;
  /** Ids that end the sequence. */
  stop: number[];
  role: number;
}

export interface GenerateOutput extends Timed {
  ids: number[];
  /** At a stop id, which is not among `ids`. */
  stopped: boolean;
  /** (V) after the last of `ids`. */
  logits: NativeTensor;
  state: NativeState;
}

/** The primary's computation up to the first stage's encoder output (flat layouts: the first block). */
export interface NativePrefix {
  readonly disposed: boolean;
  readonly rows: number;
  dispose(): void;
}

export interface PrefixOutput extends Timed {
  prefix: NativePrefix;
  routingHidden: NativeTensor;
}

export interface RestInput {
  /**
   * attKv (B,H,N,N) per layer of NativeState.innerKv(stage), replacing the initial state; stages that the prefix leaves out:
   * from 1 on, of flat layouts 0.
   */
  innerKv?: { stage: number; layers: NativeTensor[] }[];
  /** (B,D) added to the pooled embedding before the classifier. */
  headResidual?: NativeTensor;
  /** (B,C) added to the logits. */
  logitResidual?: NativeTensor;
  /** (B,1) that the logits are multiplied by before. */
  logitScale?: NativeTensor;
  grad: boolean;
  /** As of ModelInput. */
  recompute?: boolean;
}
