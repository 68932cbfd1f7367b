/**
 * The native contract: what the addon exports, with shapes and dtypes.
 *
 * Conventions. Every function whose first parameter is a lane queues a job on that lane's thread and returns a Promise;
 * its result object carries `interval`, the job's start and end in milliseconds on the monotonic clock of
 * `performance.now()`. Options are plain objects, already validated in TypeScript. Tensors passed in are read when
 * the job runs: they may be disposed as soon as the call has returned (the job holds its own reference).
 * B batch, T tokens, D model width, H heads, N head size, L layers of a stage before its routing, n specialists.
 */

import type { ErrorCode } from "../errors.js";
import type {
  GenerateInput,
  GenerateOutput,
  ModelInput,
  ModelOutput,
  ModuleKind,
  NativeModule,
  NativePrefix,
  NativeState,
  PrefixOutput,
  RestInput,
  StepInput,
  StepOutput,
} from "./contract/model.js";
import type {
  AdamWGroup,
  AdamWOptions,
  ClipLossInput,
  ClipLossOptions,
  ClipLossStats,
  CrossEntropyInput,
  EmaScanInput,
  MatmulInput,
  NativeOptimizer,
  NgramInput,
  SparseRowArrays,
  TimeMixInput,
  Wkv7Input,
} from "./contract/operators.js";
import type { EnsembleOutput, NativeEnsemble, OutputAgent, SwarmAgent } from "./contract/swarm.js";
import type {
  AddonInfo,
  Interval,
  LaneOptions,
  MemoryInfo,
  NativeCancelToken,
  NativeGenerator,
  NativeLane,
  NativeScope,
  NativeTensor,
  NativeTensorStatic,
  Timed,
} from "./contract/tensor.js";

export type * from "./contract/model.js";
export type * from "./contract/operators.js";
export type * from "./contract/swarm.js";
export type * from "./contract/tensor.js";

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
