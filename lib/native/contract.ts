/**
 * The whole native contract in one place: what the addon exports, with shapes and dtypes.
 *
 * Conventions. Every function whose first parameter is a lane queues a job on that lane's thread and returns a Promise;
 * its result object carries `interval`, the job's start and end in milliseconds on the monotonic clock of
 * `performance.now()`. Options are plain objects, already validated in TypeScript. Tensors passed in are read when
 * the job runs: they may be disposed as soon as the call has returned (the job holds its own reference).
 * B batch, T tokens, D model width, H heads, N head size, L layers of a stage before its routing, n specialists.
 */

import type { ErrorCode } from "../errors.js";

export type Dtype = "f32" | "f64" | "bf16" | "i64" | "bool" | "u8";
export type DeviceName = "cpu" | "cuda" | `cuda:${number}`;
export type TensorData = Float32Array | Float64Array | Uint16Array | BigInt64Array | Int32Array | Uint8Array;

export type NestedArray = number | boolean | NestedArray[];
export type UnaryOp = "neg" | "exp" | "log" | "sqrt" | "abs" | "sigmoid" | "tanh" | "relu" | "isfinite";
export type Reduction = "sum" | "mean" | "max" | "min" | "argmax" | "all" | "any";

/** Start and end of one job in milliseconds on the clock of `performance.now()`. */
export interface Interval {
  start: number;
  end: number;
}

export interface Timed {
  interval: Interval;
}

/** What became of the forwards of a model that runs as CUDA graphs. */
export interface GraphReport {
  /** Shapes captured, and forwards that replayed one. */
  captures: number;
  replays: number;
  eager: number;
  /** Why the last eager forward was one; empty: none was. */
  reason: string;
}

/** A handle on a libtorch tensor. Ops here run on the JS thread and are meant for inspection and glue. */
export interface NativeTensor extends Disposable {
  readonly shape: number[];
  readonly dtype: Dtype;
  readonly device: DeviceName;
  readonly numel: number;
  readonly bytes: number;
  readonly disposed: boolean;
  requiresGrad: boolean;
  /** The accumulated gradient, a new handle, or null. */
  grad(): NativeTensor | null;
  /** A copy: f32 Float32Array, f64 Float64Array, bf16 Uint16Array (bit patterns), i64 BigInt64Array, u8 and bool Uint8Array. */
  data(): TensorData;
  /** Nested arrays of numbers, of booleans for bool; a number for a scalar. */
  toArray(): NestedArray;
  item(): number;
  dispose(): void;
  add(other: NativeTensor | number): NativeTensor;
  sub(other: NativeTensor | number): NativeTensor;
  mul(other: NativeTensor | number): NativeTensor;
  div(other: NativeTensor | number): NativeTensor;
  matmul(other: NativeTensor): NativeTensor;
  neg(): NativeTensor;
  exp(): NativeTensor;
  log(): NativeTensor;
  sqrt(): NativeTensor;
  abs(): NativeTensor;
  sigmoid(): NativeTensor;
  tanh(): NativeTensor;
  relu(): NativeTensor;
  isfinite(): NativeTensor;
  /** The operation above of that name. */
  unary(op: UnaryOp): NativeTensor;
  /** Reductions go over every element where dim is absent. */
  sum(dim?: number, keepdim?: boolean): NativeTensor;
  mean(dim?: number, keepdim?: boolean): NativeTensor;
  max(dim?: number, keepdim?: boolean): NativeTensor;
  min(dim?: number, keepdim?: boolean): NativeTensor;
  argmax(dim?: number, keepdim?: boolean): NativeTensor;
  all(dim?: number, keepdim?: boolean): NativeTensor;
  any(dim?: number, keepdim?: boolean): NativeTensor;
  /** The reduction above of that name. */
  reduce(op: Reduction, dim?: number, keepdim?: boolean): NativeTensor;
  softmax(dim: number): NativeTensor;
  logSoftmax(dim: number): NativeTensor;
  /** Views where the layout allows; so are transpose, slice and detach. */
  reshape(shape: number[]): NativeTensor;
  transpose(dim0: number, dim1: number): NativeTensor;
  slice(dim: number, start: number, end: number): NativeTensor;
  indexSelect(dim: number, index: NativeTensor): NativeTensor;
  /** In another dtype, or a copy on another device. */
  to(target: Dtype | DeviceName): NativeTensor;
  clone(): NativeTensor;
  detach(): NativeTensor;
  /** Same shape, dtype and bits (NaN equals NaN of the same bits). */
  equal(other: NativeTensor): boolean;
  /** max |a - b|; shapes must agree. */
  maxAbsDiff(other: NativeTensor): number;
}

export interface NativeTensorStatic {
  /** What `layout` of a tensor last wrote: index of its dtype in `layoutDtypes`, of its CUDA device or -1, its sizes. */
  readonly layoutValues: Float64Array;
  readonly layoutDtypes: readonly Dtype[];
  fromData(data: TensorData | number[], shape: number[], dtype: Dtype): NativeTensor;
  full(shape: number[], value: number, dtype: Dtype): NativeTensor;
  /** Standard normal values. */
  randn(shape: number[], dtype: Dtype, generator: NativeGenerator): NativeTensor;
  /** Uniform in [0, 1). */
  rand(shape: number[], dtype: Dtype, generator: NativeGenerator): NativeTensor;
  cat(tensors: NativeTensor[], dim: number): NativeTensor;
  stack(tensors: NativeTensor[], dim: number): NativeTensor;
}

/** A CPU random generator (mt19937), independent of every other. */
export interface NativeGenerator extends Disposable {
  readonly seed: number;
  getState(): Uint8Array;
  setState(state: Uint8Array): void;
  dispose(): void;
}

export interface LaneOptions {
  name: string;
  /** Intra-op threads of the jobs of this lane, set inside each job. */
  threads: number;
}

/** One native thread with a FIFO queue. */
export interface NativeLane {
  readonly name: string;
  readonly threads: number;
  /** Jobs queued or running. */
  readonly pending: number;
  /** Resolves when everything queued before it has run. */
  drain(): Promise<void>;
  /** Refuses new jobs, lets the queued ones finish, ends the thread. */
  close(): Promise<void>;
}

/** Cancels queued jobs at once and running ones at their next check (between layers). */
export interface NativeCancelToken {
  readonly cancelled: boolean;
  cancel(): void;
}

/** Tensors, states and prefixes made while a scope is current are freed with it, but for those moved out. */
export interface NativeScope {
  /** Takes a handle out of its scope, into `to` where given; false where the value is no such handle. */
  move(handle: unknown, to?: NativeScope): boolean;
  dispose(): void;
}

export interface MemoryInfo {
  liveTensors: number;
  liveBytes: number;
  allocator: { reservedBytes: number; cachedBytes: number; hits: number; misses: number };
  /** Of each GPU that can be used. */
  devices: DeviceMemory[];
}

/** What libtorch's allocator holds on a GPU; peaks since the start or the last `resetPeakMemory()`. */
export interface DeviceMemory {
  device: DeviceName;
  /** In tensors. */
  allocatedBytes: number;
  /** Taken from the device, cached blocks included. */
  reservedBytes: number;
  peakAllocatedBytes: number;
  peakReservedBytes: number;
  /** What the device has. */
  totalBytes: number;
}

export interface CudaInfo {
  available: boolean;
  /** Why not; empty where it is available. */
  reason: string;
  /** Path of the plug-in where it is open. */
  plugin: string | null;
  /** Names, by number. */
  devices: string[];
}

export interface AddonInfo {
  version: string;
  /** torch version that the addon was compiled against, and the one it runs on. */
  torchBuilt: string;
  torchLoaded: string;
  threads: number;
  simd: "sse2" | "avx2" | "avx512";
  cuda: CudaInfo;
}

// ---- modules and models ------------------------------------------------------------------------------------------

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

export interface ModelInput {
  /** (B,T) i64; packed: (1,T) with cuSeqlens. */
  inputIds: NativeTensor;
  /** (B,T) i64, absent: role 0. */
  roleIds?: NativeTensor;
  /** (B) i64, valid tokens of right-padded rows; absent: all valid. */
  lengths?: NativeTensor;
  /** (S+1) i64, starts of packed sequences. */
  cuSeqlens?: NativeTensor;
  /** (B,T) bool, tokens that the annotation head averages; absent: all valid tokens. */
  poolMask?: NativeTensor;
  /** Column-wise annotators: (R) i64, the sequences that are targets; absent: all, without context. */
  targets?: NativeTensor;
  /** (R,k) i64, the sequences that are other columns of a target's table; -1: none. */
  context?: NativeTensor;
  /** (S) i64, the place of each sequence's column in its table. */
  positions?: NativeTensor;
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

// ---- operators, losses, optimiser --------------------------------------------------------------------------------

export interface Wkv7Input {
  /** r, decay, k, v, a (= -kk), b (= kk * gate a): (B,T,H,N), f32, f64 or bf16, one dtype. */
  r: NativeTensor;
  decay: NativeTensor;
  k: NativeTensor;
  v: NativeTensor;
  a: NativeTensor;
  b: NativeTensor;
  /** (B,H,N,N) value rows x key columns; packed: (S,H,N,N). Absent: zeros. f32 (f64 for f64 inputs). */
  initialState?: NativeTensor;
  lengths?: NativeTensor;
  cuSeqlens?: NativeTensor;
  /** Use the plain ATen reference in place of the kernel. */
  reference?: boolean;
}

export interface EmaScanInput {
  /** (B,M,D) */
  x: NativeTensor;
  /** (B,M) in (0,1) */
  p: NativeTensor;
  /** (B,D): y_{-1}; absent: x_0. */
  initial?: NativeTensor;
  lengths?: NativeTensor;
  cuSeqlens?: NativeTensor;
  reference?: boolean;
}

/** A piece of RWKV-7's mixing layers (native/kernels/time_mix.h), for tests: models call them in C++. */
export interface NgramInput {
  /** (V,W) f32 or f64. */
  table: NativeTensor;
  /** (K) i64, sequences one after another. */
  ids: NativeTensor;
  /** (S+1) i64. */
  cuSeqlens: NativeTensor;
  /** (S,max(sizes)-1) i64, the ids before each sequence, -1 where there is none; absent: none. */
  history?: NativeTensor;
  /** Rising lengths of the n-grams. */
  sizes: number[];
  /** Capitals of ASCII are read as small letters; absent: false. */
  lowercase?: boolean;
  /** n-grams of what bytes look like too; absent: false. */
  shapes?: boolean;
  reference?: boolean;
}

/** x (M,K) times weight + addend, (M,N). f32 and f64 of 8 rows and more by the kernel; a row's result depends on it alone. */
export interface MatmulInput {
  x: NativeTensor;
  /** (K,N); (N,K) where `transposed`. */
  weight: NativeTensor;
  /** (M,N) or (N). */
  addend?: NativeTensor;
  transposed?: boolean;
  reference?: boolean;
}

/** Rows of non-zero values (compressed sparse rows): row i has `indices` and `values` from `starts[i]` to `starts[i + 1]`. */
export interface SparseRowArrays {
  columns: number;
  /** (rows + 1) */
  starts: Int32Array;
  /** Columns, ascending within a row. */
  indices: Int32Array;
  values: Float32Array;
}

export interface TimeMixInput {
  operator:
    | "tokenShiftMix"
    | "decayFromLogits"
    | "valueResidual"
    | "squaredRelu"
    | "keyNormalise"
    | "groupNormBonusGate";
  /** In the order of the header: x, mu | z | value, first, z | x | k, aLogits, kK, kA | o, r, k, v, gate, rK, gain, bias. */
  tensors: NativeTensor[];
  /** tokenShiftMix: (S,D) and (S+1) i64. */
  carried?: NativeTensor;
  cuSeqlens?: NativeTensor;
  /** keyNormalise */
  headSize?: number;
  reference?: boolean;
}

export interface CrossEntropyInput {
  /** (R,C) or (B,T,C) */
  logits: NativeTensor;
  /** (R) or (B,T) i64; -100 is left out. */
  labels: NativeTensor;
  labelSmoothing?: number;
  /** (R) weights of rows; the loss is the weighted mean. */
  weights?: NativeTensor;
}

export interface ClipLossOptions {
  kind: "ppo" | "k25";
  epsLow: number;
  epsHigh: number;
  dualClip?: number;
  /** k25: log bounds and penalty. */
  logAlpha?: number;
  logBeta?: number;
  tau?: number;
  maskPenalty?: boolean;
  klCoef?: number;
  klForm?: "k1" | "k2" | "k3";
  aggregation: "token-mean" | "seq-mean-token-mean" | "seq-mean-token-sum" | "seq-mean-token-sum-norm";
  norm?: number;
  /** External global denominator in place of the batch's own. */
  denominator?: number;
}

/** All of one shape: (B,T), or (R) for R decisions of one token each. */
export interface ClipLossInput {
  /** f32, f64 or bf16; the gradient flows into it alone. */
  logp: NativeTensor;
  logpOld: NativeTensor;
  advantages: NativeTensor;
  /** bool; a masked token's other values are never read into a result, NaN or not. */
  mask?: NativeTensor;
  /** Token weights: they enter the sum and its denominator. */
  weights?: NativeTensor;
  /** Behaviour correction (importance weights of a rollout policy that is not pi_old): multiplies the advantage alone. */
  correction?: NativeTensor;
  logpRef?: NativeTensor;
}

export interface ClipLossStats {
  nValid: number;
  clipLow: number;
  clipHigh: number;
  dual: number;
  kl1: number;
  kl3: number;
  /** Mean of -logp: an estimate from samples; the router's exact entropy comes from cappedBernoulliStats. */
  entropy: number;
  /** Before the clamp to 20. */
  maxAbsLogRatio: number;
  /** Effective sample size (sum r)^2 / sum r^2, in tokens. */
  ess: number;
}

export interface AdamWGroup {
  module: NativeModule;
  /** Parameter names of `module`. */
  names: string[];
  /** Multiplies the step's learning rate. */
  lrScale: number;
  weightDecay: number;
  /** Update these by Muon; matrices only. Default false. */
  muon?: boolean;
}

export interface AdamWOptions {
  beta1: number;
  beta2: number;
  eps: number;
  /** Of Muon; default 0.95. */
  momentum?: number;
}

export interface NativeOptimizer {
  /** `step`, and per parameter `exp_avg`, `exp_avg_sq`, or `momentum` of Muon: handles on copies. */
  stateDict(): Record<string, NativeTensor>;
  loadStateDict(tensors: Record<string, NativeTensor>): void;
  dispose(): void;
}

/** Layers before a stage's routing, whose states agents exchange, and their heads and head size. */
export interface StateGeometry {
  layers: number;
  heads: number;
  headSize: number;
}

/** Config of createModule("router"). */
export interface RouterConfig {
  dModel: number;
  numSpecialists: number;
  /** |logit| stays below it (default 6); 0: off. */
  softCap?: number;
  dtype?: "f32" | "f64";
}

/** Config of createModule("stateFusion"). */
export interface StateFusionConfig {
  numHeads: number;
  headSize: number;
  /** Specialists; the primary's own state is one slot more. */
  numAgents: number;
  mode: "weighted_sum" | "gated" | "concat_project";
  /** 1 (default): every layer shares the parameters; else one set for each of so many layers. */
  layers?: number;
  /** concat_project refuses to allocate more (default 64 Mi). */
  maxDenseWeights?: number;
  dtype?: "f32" | "f64";
}

/** Config of createModule("alignment"). */
export interface AlignmentConfig {
  primary: StateGeometry;
  specialist: StateGeometry;
  mode: "identity" | "bilinear" | "dense";
  /** Also map the token-shift vectors (attXPrev, ffnXPrev). */
  vectors?: boolean;
  /** dense refuses to allocate more (default 64 Mi). */
  maxDenseWeights?: number;
  dtype?: "f32" | "f64";
}

/** Config of createModule("outputFusion"). */
export interface OutputFusionConfig {
  /** Width of the primary's pooled embedding. */
  dModel: number;
  /** The primary's. */
  numLabels: number;
  /** Initial share of the primary's own answer where specialists with labels answer; default 1. */
  ownWeight?: number;
  specialists: {
    dModel: number;
    numLabels: number;
    /** Of each of its labels the primary's label of that name, -1: none; absent: no matrix between labels. */
    labels?: number[];
    /** Initial share of the labels of one name. */
    weight?: number;
  }[];
  dtype?: "f32" | "f64";
}

export interface SwarmAgent {
  /** The specialist's number, 0 … numAgents - 1. */
  index: number;
  /** Absent: the identity (geometry must agree). */
  alignment?: NativeModule;
  /** (b) i64, ascending: the batch rows that activated this agent. */
  rows: NativeTensor;
  /** (b) i64: where each of `rows` stands in `states` (repeats allowed); absent: 0 … b-1. */
  take?: NativeTensor;
  /** attKv per layer of the specialist's stage: (b,Hs,Ns,Ns), or (any,Hs,Ns,Ns) with `take`. */
  states: NativeTensor[];
}

/** Copies of the block weights of frozen flat models of one geometry, which run as one. */
export interface NativeEnsemble {
  readonly disposed: boolean;
  /** Models. */
  readonly size: number;
  dispose(): void;
}

/** What one model of an ensemble says of its rows. */
export interface EnsembleOutput {
  /** annotator: (b,C); causal LM: (b,T,V). */
  logits: NativeTensor;
  /** annotator: (b,D); null for a causal LM. */
  pooled: NativeTensor | null;
  /** attKv (b,H,N,N) per layer, as NativeState.innerKv(). */
  states: NativeTensor[];
}

export interface OutputAgent {
  index: number;
  rows: NativeTensor;
  take?: NativeTensor;
  /** (b,Ds) and (b,Cs), or any number of rows with `take`. */
  pooled: NativeTensor;
  logits: NativeTensor;
}

export interface NativeAddon {
  Tensor: NativeTensorStatic;
  Generator: new (seed: number) => NativeGenerator;
  Lane: new (options: LaneOptions) => NativeLane;
  CancelToken: new () => NativeCancelToken;
  Scope: new () => NativeScope;

  info(): AddonInfo;
  /** Does nothing: what a call into the addon costs at least. */
  noop(): void;
  /** Errors thrown and rejected from here on are instances of this class, constructed as (code, message). */
  setErrorClass(errorClass: new (code: ErrorCode, message: string) => Error): void;
  /** Names the current scope when a handle is made or a job is queued; asked only while a scope is open. */
  setScopeProvider(provider: () => NativeScope | undefined): void;
  memory(): MemoryInfo;
  /** Returns cached blocks of the CPU allocator to the system. */
  emptyCache(): void;
  resetPeakMemory(): void;

  createModule(kind: ModuleKind, config: object, generator: NativeGenerator): NativeModule;
  /** A state from named tensors, for a model's geometry. */
  createState(module: NativeModule, tensors: Record<string, NativeTensor>): NativeState;

  modelForward(
    lane: NativeLane,
    module: NativeModule,
    input: ModelInput,
    cancel?: NativeCancelToken,
  ): Promise<ModelOutput>;
  modelPrefix(
    lane: NativeLane,
    module: NativeModule,
    input: ModelInput,
    cancel?: NativeCancelToken,
  ): Promise<PrefixOutput>;
  modelRest(
    lane: NativeLane,
    module: NativeModule,
    prefix: NativePrefix,
    rest: RestInput,
    cancel?: NativeCancelToken,
  ): Promise<ModelOutput>;
  /** One token of each sequence of a causal language model, no graph; the given state stays as it is. */
  modelStep(
    lane: NativeLane,
    module: NativeModule,
    input: StepInput,
    cancel?: NativeCancelToken,
  ): Promise<StepOutput>;
  /** Draws tokens one after another, each fed back; the given state stays as it is. */
  modelGenerate(
    lane: NativeLane,
    module: NativeModule,
    input: GenerateInput,
    generator: NativeGenerator,
    cancel?: NativeCancelToken,
  ): Promise<GenerateOutput>;
  /** A prefix of the chosen rows (repeats allowed): one prefix serves several routings. rows (R) i64. */
  prefixSelectRows(
    lane: NativeLane,
    prefix: NativePrefix,
    rows: NativeTensor,
  ): Promise<{ prefix: NativePrefix } & Timed>;

  wkv7(
    lane: NativeLane,
    input: Wkv7Input,
  ): Promise<{ output: NativeTensor; finalState: NativeTensor } & Timed>;
  emaScan(
    lane: NativeLane,
    input: EmaScanInput,
  ): Promise<{ output: NativeTensor; finalValue: NativeTensor } & Timed>;
  /** history: (S,max(sizes)-1) of what follows. */
  ngramEmbedding(
    lane: NativeLane,
    input: NgramInput,
  ): Promise<{ output: NativeTensor; history: NativeTensor } & Timed>;
  /** (K,sizes), with shapes (K,2 sizes), i64: the row of the table for every n-gram, -1 where fewer ids have been read. */
  ngramBuckets(lane: NativeLane, input: NgramInput): Promise<NativeTensor>;
  matmul(lane: NativeLane, input: MatmulInput): Promise<NativeTensor>;
  timeMix(lane: NativeLane, input: TimeMixInput): Promise<{ outputs: NativeTensor[] } & Timed>;

  // Of sparse rows x (R,F), on this thread; sums in f64, in the order of a row's values. ERR_ARGUMENT, ERR_SHAPE where arrays do not fit.
  /** into (R,width) += x dense (F,width); returns `into`. */
  sparseProduct(
    x: SparseRowArrays,
    dense: Float32Array | Float64Array,
    width: number,
    into: Float64Array,
  ): Float64Array;
  /** into (F,width) += xᵀ dense (R,width); returns `into`. */
  sparseTransposedProduct(
    x: SparseRowArrays,
    dense: Float64Array,
    width: number,
    into: Float64Array,
  ): Float64Array;

  /** loss: scalar; logp: log p(label) per row, no gradient, 0 where the label is -100. */
  crossEntropy(
    lane: NativeLane,
    input: CrossEntropyInput,
  ): Promise<{ loss: NativeTensor; logp: NativeTensor } & Timed>;
  /** loss: scalar, mean over rows of -sum_c q_c log p(c); logits and targets q (R,C). */
  softCrossEntropy(
    lane: NativeLane,
    input: { logits: NativeTensor; targets: NativeTensor },
  ): Promise<{ loss: NativeTensor } & Timed>;
  /** average += (1 - decay) (module's parameters - average), both of one geometry. */
  averageWeights(
    lane: NativeLane,
    average: NativeModule,
    module: NativeModule,
    decay: number,
  ): Promise<Timed>;
  /** Scalar sum of x * coefficients (one shape), a constant: its gradient flows into x alone. Masked by coefficient 0. */
  weightedSum(
    lane: NativeLane,
    x: NativeTensor,
    coefficients: NativeTensor,
  ): Promise<{ loss: NativeTensor } & Timed>;
  /** Backward of sum_i weights[i] * losses[i] (scalars); gradients accumulate in the parameters. */
  backward(
    lane: NativeLane,
    losses: NativeTensor[],
    weights: number[],
    cancel?: NativeCancelToken,
  ): Promise<Timed>;

  /** Newton-Schulz iteration of Muon (native/optim/muon.h), for tests; (R,C) → (R,C). */
  orthogonalise(lane: NativeLane, matrix: NativeTensor): Promise<{ matrix: NativeTensor } & Timed>;
  createAdamW(groups: AdamWGroup[], options: AdamWOptions): NativeOptimizer;
  /** Clips the global norm at clipNorm (0: off), updates, clears gradients; a non-finite norm skips the update. */
  optimizerStep(
    lane: NativeLane,
    optimizer: NativeOptimizer,
    step: { lr: number; clipNorm: number },
  ): Promise<{ gradNorm: number; skipped: boolean } & Timed>;

  /** Router logits (B,n) from routingHidden (B,D); gradient into the router's parameters, and into the input where it has one. */
  routerForward(
    lane: NativeLane,
    router: NativeModule,
    hidden: NativeTensor,
    grad: boolean,
  ): Promise<{ logits: NativeTensor } & Timed>;
  /**
   * One layer of the primary: the source layer's states (B,Hs,Ns,Ns) → (B,Hp,Np,Np); used alone by tests and tools. Vectors:
   * (B,Ds) → (B,Dp), `layer` counting attXPrev and ffnXPrev of the primary's layers, interleaved.
   */
  alignForward(
    lane: NativeLane,
    alignment: NativeModule,
    layer: number,
    states: NativeTensor,
    grad: boolean,
  ): Promise<{ states: NativeTensor } & Timed>;
  /**
   * Closed-form start: ridge regression of paired states, `source` per layer of the specialist (R,Hs,Ns,Ns), `target` per layer of
   * the primary (R,Hp,Np,Np); of vectors (R,D) where they are 2-d, interleaved as in NativeState.innerShift().
   * residual: ||fit(source) - target|| / ||target||. `ridge` is in units of the mean diagonal of the Gram matrix.
   */
  alignFit(
    lane: NativeLane,
    alignment: NativeModule,
    source: NativeTensor[],
    target: NativeTensor[],
    ridge: number,
  ): Promise<{ residual: number } & Timed>;
  /**
   * LatentMAS (arXiv:2511.20639): map W_a (Dout,Din) from wOut (V,Dout) to wIn (V,Din), the mean norm of wIn's rows, and for
   * hidden (R,Dout) its embedding e (R,Din); all f64.
   */
  latentRidge(
    lane: NativeLane,
    input: { wOut: NativeTensor; wIn: NativeTensor; lambda: number; hidden?: NativeTensor },
  ): Promise<{ map: NativeTensor; targetNorm: number; embedding: NativeTensor | null } & Timed>;
  /** Aligned and fused states per layer of a stage of the primary, rows with no active agent bit for bit their own. */
  swarmFuse(
    lane: NativeLane,
    fusion: NativeModule,
    input: {
      batch: number;
      /** Layers of the primary's stage. */
      layers: number;
      /** The primary's own attKv per layer; absent: zeros. */
      own?: NativeTensor[];
      agents: SwarmAgent[];
      grad: boolean;
    },
  ): Promise<
    {
      states: NativeTensor[];
      /** Time spent in the alignment of each agent, in order of `agents`. */
      alignIntervals: Interval[];
      /** Per layer (B,1+numAgents,H), the primary's own first, no gradient; empty for concat_project. */
      weights: NativeTensor[];
    } & Timed
  >;
  /**
   * What the head adds, zero for rows with no active agent: (B,D) to the pooled embedding, zero at the start, and (B,C) to the logits
   * where a specialist has a matrix between labels, after these were multiplied by `scale` (B,1), where one started with a share in the pool.
   */
  outputFuse(
    lane: NativeLane,
    fusion: NativeModule,
    input: { batch: number; agents: OutputAgent[]; grad: boolean },
  ): Promise<{ embedding: NativeTensor; logits?: NativeTensor; scale?: NativeTensor } & Timed>;

  /** Stacks the block weights of frozen flat models of one geometry. @throws AegirError ERR_CONFIG where they differ */
  createEnsemble(lane: NativeLane, modules: NativeModule[]): Promise<{ ensemble: NativeEnsemble } & Timed>;
  /** One forward of all models that have an input, without a graph; `inputs` and `outputs` go by model, null: left out. */
  ensembleForward(
    lane: NativeLane,
    ensemble: NativeEnsemble,
    inputs: (Pick<ModelInput, "inputIds" | "roleIds" | "lengths" | "poolMask"> | null)[],
    threads: number,
    cancel?: NativeCancelToken,
  ): Promise<{ outputs: (EnsembleOutput | null)[] } & Timed>;

  tokenClipLoss(
    lane: NativeLane,
    input: ClipLossInput,
    options: ClipLossOptions,
  ): Promise<{ loss: NativeTensor; stats: ClipLossStats } & Timed>;

  // Capped Bernoulli on logits z (R,n), or (B,T,n) with B,T in place of R below, with cap K; forbidden specialists have z = -inf.
  /** z, and -inf where not allowed (bool, z's shape or (n)) or masked (bool, z's shape without n). */
  restrictLogits(
    lane: NativeLane,
    z: NativeTensor,
    sets: { allowed?: NativeTensor; mask?: NativeTensor },
  ): Promise<{ logits: NativeTensor } & Timed>;
  /** (R) log-probabilities of actions (R,n), or (G,R) of G draws (G,R,n), differentiable in z. */
  cappedBernoulliLogProb(
    lane: NativeLane,
    z: NativeTensor,
    actions: NativeTensor,
    cap: number,
  ): Promise<{ logp: NativeTensor } & Timed>;
  /** (G,R,n) bool, exact samples. */
  cappedBernoulliSample(
    lane: NativeLane,
    z: NativeTensor,
    cap: number,
    draws: number,
    generator: NativeGenerator,
  ): Promise<{ actions: NativeTensor } & Timed>;
  /** Up to `cap` largest z above logit(threshold): (R,n) bool. */
  cappedBernoulliMode(
    lane: NativeLane,
    z: NativeTensor,
    cap: number,
    threshold: number,
  ): Promise<{ actions: NativeTensor } & Timed>;
  /** Marginals (R,n) and entropy (R), differentiable in z; with zOld also KL(z || zOld) (R). */
  cappedBernoulliStats(
    lane: NativeLane,
    z: NativeTensor,
    cap: number,
    zOld?: NativeTensor,
  ): Promise<{ marginals: NativeTensor; entropy: NativeTensor; kl: NativeTensor | null } & Timed>;
}
