import type { NativeModule, NativeTensor, TensorData } from "../native/contract.js";
import { native } from "../native/load.js";
import type { TensorMap } from "./checkpoint.js";
import type { StoredTensor } from "./safetensors.js";

/** Frees tensors at the end of a block: `using scope = new Scope(); const x = scope.keep(...)`. */
export class Scope {
  private readonly kept: { dispose(): void }[] = [];

  keep<T extends { dispose(): void }>(value: T): T {
    this.kept.push(value);
    return value;
  }

  [Symbol.dispose](): void {
    for (const value of this.kept.splice(0).reverse()) value.dispose();
  }
}

/** Copies of tensors as bytes; the handles are disposed. Names get `prefix`. */
export function storeTensors(tensors: Record<string, NativeTensor>, prefix = ""): TensorMap {
  const stored: TensorMap = new Map();
  for (const [name, tensor] of Object.entries(tensors)) {
    const { buffer, byteOffset, byteLength } = tensor.data();
    const data = new Uint8Array(buffer, byteOffset, byteLength);
    stored.set(prefix + name, { dtype: tensor.dtype, shape: tensor.shape, data });
    tensor.dispose();
  }
  return stored;
}

/** Calls `use` with tensors made of stored bytes, those whose names start with `prefix`, without it; frees them after. */
export function withRestored(
  stored: TensorMap,
  prefix: string,
  use: (tensors: Record<string, NativeTensor>) => void,
): void {
  const { Tensor } = native();
  using scope = new Scope();
  const tensors: Record<string, NativeTensor> = {};
  for (const [name, { dtype, shape, data }] of stored) {
    if (!name.startsWith(prefix)) continue;
    tensors[name.slice(prefix.length)] = scope.keep(
      Tensor.fromData(typedData({ dtype, shape, data }), shape, dtype),
    );
  }
  use(tensors);
}

export function storeModule(module: NativeModule, prefix = ""): TensorMap {
  return storeTensors(module.stateDict(), prefix);
}

export function restoreModule(module: NativeModule, stored: TensorMap, prefix = ""): void {
  withRestored(stored, prefix, (tensors) => module.loadStateDict(tensors));
}

/** Typed views want alignment that a file's bytes may not have: copies. */
export function typedData({ dtype, data }: StoredTensor): TensorData {
  const { buffer } = data.slice();
  switch (dtype) {
    case "f32":
      return new Float32Array(buffer);
    case "f64":
      return new Float64Array(buffer);
    case "bf16":
      return new Uint16Array(buffer);
    case "i64":
      return new BigInt64Array(buffer);
    default:
      return new Uint8Array(buffer);
  }
}
