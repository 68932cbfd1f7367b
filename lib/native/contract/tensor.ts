/** What there is below models: tensors, generators, lanes, scopes, memory. Conventions: ../contract.ts. */

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
