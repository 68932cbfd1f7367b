/** Operators, losses and the optimiser. Conventions: ../contract.ts. */

import type { NativeModule } from "./model.js";
import type { NativeTensor } from "./tensor.js";

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
  /** On a GPU, for bf16 and N = 32 or 64: in chunks on tensor cores. Absent: as the variable AEGIR_WKV7_CUDA says. */
  chunked?: boolean;
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

/** Hashed byte n-grams that end at each token (native/kernels/ngram_embedding.h). */
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

/** A piece of RWKV-7's mixing layers (native/kernels/time_mix.h), for tests: models call them in C++. */
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
