import type { Interval, ModelInput, NativePrefix, NativeState, NativeTensor } from "../native/contract.js";
import type { Lane } from "../tensor/lane.js";

/** Tokens of a batch. Tensors are read when the job runs and stay the caller's. */
export type ModelInputs = Omit<ModelInput, "dropout" | "grad" | "recompute" | "threads">;

export interface RunOptions {
  /** Build the autograd graph; default false. A frozen model has nothing to differentiate and builds none. */
  grad?: boolean;
  /**
   * With `grad`: keep only the inputs of blocks for the backward pass, which runs each block once more. Losses are the
   * same bit for bit, gradients but for the order in which they are added where a value has several uses; a step takes about a
   * forward pass longer, and keeps one block's intermediate values instead of all blocks'.
   * Default: where a stack of blocks would keep more than an eighth of the machine's memory (on a GPU: never).
   */
  recompute?: boolean;
  /**
   * Of training, default none: values of the embeddings (K,D) and of the pooled embedding (B,D) are zeroed with chance `rate`
   * in [0, 1), the others divided by 1 - rate. The masks follow from `seed` (a whole number) alone.
   */
  dropout?: { rate: number; seed: number };
  /** Cancels the job between two layers: the promise rejects with ERR_ABORTED. */
  signal?: AbortSignal;
}

export interface ForwardOptions extends RunOptions {
  /** Where to run, in place of the model's own lane: several lanes may read one model while nothing changes its parameters. */
  lane?: Lane;
  /** Intra-op threads of this forward; default: the lane's. */
  threads?: number;
}

export interface RestOptions extends RunOptions {
  /**
   * attKv (B,H,N,N) for each layer of the innermost stage (flat layouts of several blocks: of the layers after the first),
   * in place of the initial state; `model.geometry` gives the sizes. A record holds them by stage, from 1 on (flat layouts:
   * 0), for each layer of the stage before its routing.
   */
  innerKv?: NativeTensor[] | Readonly<Record<number, NativeTensor[]>>;
  /** (B,D) added to the pooled embedding before the classifier; annotation models. */
  headResidual?: NativeTensor;
  /** (B,C) added to the logits; annotation models. */
  logitResidual?: NativeTensor;
  /** (B,1) that the logits are multiplied by before; annotation models. */
  logitScale?: NativeTensor;
}

interface OutputCommon {
  state: NativeState;
  /** (B,D) mean of the first stage's encoder output over poolMask. */
  routingHidden: NativeTensor;
  /** Scalar, sum of the routing modules' ratio losses; 0 for a flat layout. */
  ratioLoss: NativeTensor;
  /** Share of boundaries among valid tokens, per chunking stage. */
  boundaryRates: number[];
  interval: Interval;
  /** Frees every tensor of the output. */
  dispose(): void;
  [Symbol.dispose](): void;
}

export interface AnnotatorOutput extends OutputCommon {
  /** (B,C), with `logitScale` and `logitResidual`. */
  logits: NativeTensor;
  /** (B,D) embedding after the tanh pooler, without `headResidual`. */
  pooled: NativeTensor;
  /** Models with `columns`: (B,C) from the target columns alone, for an auxiliary loss; else null. */
  ownLogits: NativeTensor | null;
}

export interface CausalLMOutput extends OutputCommon {
  /** (B,T,V), zero at padded positions. */
  logits: NativeTensor;
}

/** One token of each sequence. Tensors are read when the job runs and stay the caller's. */
export interface StepInputs {
  /** (B) i64 */
  inputIds: NativeTensor;
  /** (B) i64; absent: role 0. */
  roleIds?: NativeTensor;
  /** Continues the sequences from here; absent: they start. */
  state?: NativeState;
}

export interface StepOutput {
  /** (B,V) */
  logits: NativeTensor;
  /** After the token. */
  state: NativeState;
  /** By the decoding kernels; false: by `forward` (on a GPU, at the start of sequences, for odd head sizes). */
  decoded: boolean;
  interval: Interval;
  /** Frees every tensor of the output. */
  dispose(): void;
  [Symbol.dispose](): void;
}

/** The computation up to the first stage's encoder; `rest` completes it, as often as wanted. */
export interface Prefix {
  readonly native: NativePrefix;
  /** Sequences. */
  readonly rows: number;
  /** (B,D) */
  readonly routingHidden: NativeTensor;
  interval: Interval;
  dispose(): void;
  [Symbol.dispose](): void;
}

/** Layers of a stage before its routing (flat layouts of several blocks: all but the first), their heads and head size. */
export interface StageGeometry {
  layers: number;
  dModel: number;
  heads: number;
  headSize: number;
}

/** Sizes that alignment and fusion need. */
export interface ModelGeometry {
  /** Width of the outermost stage: of routingHidden, pooled and headResidual. */
  dModel: number;
  /** Of the innermost stage: the last of `encoders`. */
  inner: StageGeometry;
  /** Per stage, outermost first. */
  encoders: StageGeometry[];
  stages: number;
}
