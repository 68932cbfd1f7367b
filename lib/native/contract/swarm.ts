/** What agents exchange: states and outputs, and the modules that align, route and fuse them. Conventions: ../contract.ts. */

import type { NativeModule } from "./model.js";
import type { NativeTensor } from "./tensor.js";

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
