import type { NativeModule, NativeTensor, ParameterInfo } from "../native/contract.js";
import { native } from "../native/load.js";

/** What the trainable parts of a swarm share: parameters by name, values in and out, dispose. */
export abstract class SwarmModule {
  protected constructor(readonly native: NativeModule) {}

  get numParameters(): number {
    return this.native.numParameters;
  }

  get disposed(): boolean {
    return this.native.disposed;
  }

  parameters(): ParameterInfo[] {
    return this.native.parameters();
  }

  /** Handles that share storage with the parameters: dispose them, and clone what must outlive the next step. */
  stateDict(): Record<string, NativeTensor> {
    return this.native.stateDict();
  }

  /** Copies values in; all names and shapes must agree. @throws AegirError ERR_CHECKPOINT; then nothing is changed */
  loadStateDict(tensors: Record<string, NativeTensor>): void {
    this.native.loadStateDict(tensors);
  }

  dispose(): void {
    if (!this.native.disposed) this.native.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** A native module whose random initial values are drawn from `seed`. */
export function seededModule(kind: NativeModule["kind"], config: object, seed = 0): NativeModule {
  const addon = native();
  const generator = new addon.Generator(seed);
  try {
    return addon.createModule(kind, config, generator);
  } finally {
    generator.dispose();
  }
}

/** (R) i64 tensor of row numbers. */
export function indexTensor(rows: ArrayLike<number>): NativeTensor {
  return native().Tensor.fromData(Int32Array.from(rows), [rows.length], "i64");
}

export function disposeAll(parts: Iterable<{ dispose(): void } | null | undefined>): void {
  for (const part of parts) part?.dispose();
}

/** All values, or the first error once every promise has settled and the other values are freed. */
export async function allOrNone<T extends { dispose(): void }>(promises: Promise<T>[]): Promise<T[]> {
  const settled = await Promise.allSettled(promises);
  const failed = settled.find((one) => one.status === "rejected");
  const values = settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  if (!failed) return values;
  disposeAll(values);
  throw failed.reason;
}
