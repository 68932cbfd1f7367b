import { z } from "zod";
import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import type { DeviceName, Dtype, NativeTensor, NestedArray, TensorData } from "../native/contract.js";
import { native } from "../native/load.js";
import { resolveDevice } from "./device.js";
import type { Generator } from "./generator.js";

/**
 * A handle on native values with a shape and a dtype. It holds native memory until `dispose()`, the end of its `using` block or
 * its `tidy`; the garbage collector is the net beneath. Operations on disposed tensors throw ERR_DISPOSED.
 */
export type Tensor = NativeTensor;

/** As many dimensions as libtorch's operators take. */
const MAX_DIMS = 64;

const dtypes = ["f32", "f64", "bf16", "i64", "bool", "u8"] as const satisfies readonly Dtype[];
const device = z
  .custom<DeviceName | "auto">((value) => typeof value === "string", { error: "expected a device name" })
  .optional();
const dtype = z.enum(dtypes);
const fromSchema = z.strictObject({
  dtype: dtype.optional(),
  shape: z.array(z.number().int().nonnegative()).optional(),
  device,
});
const fillSchema = z.strictObject({ dtype: dtype.default("f32"), device });
const randomSchema = z.strictObject({ dtype: z.enum(["f32", "f64", "bf16"]).default("f32"), device });

export type TensorFromOptions = z.input<typeof fromSchema>;
export type TensorFillOptions = z.input<typeof fillSchema>;
export type TensorRandomOptions = z.input<typeof randomSchema>;

/** Makes tensors. Every function throws AegirError: ERR_SHAPE, ERR_DTYPE, ERR_ARGUMENT, ERR_CONFIG or ERR_DEVICE. */
export const Tensor = {
  /**
   * A copy of nested arrays (numbers or booleans), of a number, or of a typed array. Shape: that of the nesting, or [length].
   * Dtype: that of the typed array (a Uint16Array holds bf16 patterns; an Int32Array becomes i64), bool for booleans, else f32.
   */
  from(data: NestedArray | TensorData, options: TensorFromOptions = {}): Tensor {
    const given = parseOptions("Tensor.from options", fromSchema, options);
    return onDevice(given.device, () => {
      if (ArrayBuffer.isView(data)) {
        return native().Tensor.fromData(
          data,
          given.shape ?? [data.length],
          given.dtype ?? dtypeOfArray(data),
        );
      }
      const { values, shape, boolean } = flatten(data);
      return native().Tensor.fromData(
        values,
        given.shape ?? shape,
        given.dtype ?? (boolean ? "bool" : "f32"),
      );
    });
  },

  full(shape: number[], value: number, options: TensorFillOptions = {}): Tensor {
    const given = parseOptions("Tensor.full options", fillSchema, options);
    return onDevice(given.device, () => native().Tensor.full(shape, value, given.dtype));
  },

  zeros(shape: number[], options: TensorFillOptions = {}): Tensor {
    return Tensor.full(shape, 0, options);
  },

  ones(shape: number[], options: TensorFillOptions = {}): Tensor {
    return Tensor.full(shape, 1, options);
  },

  /** Standard normal values. */
  randn(shape: number[], generator: Generator, options: TensorRandomOptions = {}): Tensor {
    const given = parseOptions("Tensor.randn options", randomSchema, options);
    return onDevice(given.device, () => native().Tensor.randn(shape, given.dtype, generator?.native));
  },

  /** Uniform values in [0, 1). */
  rand(shape: number[], generator: Generator, options: TensorRandomOptions = {}): Tensor {
    const given = parseOptions("Tensor.rand options", randomSchema, options);
    return onDevice(given.device, () => native().Tensor.rand(shape, given.dtype, generator?.native));
  },

  cat(tensors: Tensor[], dim = 0): Tensor {
    return native().Tensor.cat(tensors, dim);
  },

  stack(tensors: Tensor[], dim = 0): Tensor {
    return native().Tensor.stack(tensors, dim);
  },

  [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof (native().Tensor as unknown as new () => Tensor);
  },
};

/** @throws AegirError ERR_ARGUMENT where `value` is no tensor */
export function checkTensor(value: unknown, argument: string): void {
  if (value instanceof Tensor) return;
  throw new AegirError("ERR_ARGUMENT", `${argument}: expected a Tensor, got ${describe(value)}`);
}

/** Tensors are made in the CPU's memory and then copied; a device that is not there is an error before anything is made. */
function onDevice(wanted: DeviceName | "auto" | undefined, make: () => Tensor): Tensor {
  const device = resolveDevice(wanted);
  const made = make();
  if (device === "cpu") return made;
  try {
    return made.to(device);
  } finally {
    made.dispose();
  }
}

function dtypeOfArray(data: TensorData): Dtype {
  if (data instanceof Float32Array) return "f32";
  if (data instanceof Float64Array) return "f64";
  if (data instanceof Uint16Array) return "bf16";
  if (data instanceof Uint8Array) return "u8";
  return "i64";
}

function flatten(data: NestedArray): { values: number[]; shape: number[]; boolean: boolean } {
  const shape: number[] = [];
  for (let at: NestedArray | undefined = data; Array.isArray(at); at = at[0]) {
    if (shape.push(at.length) > MAX_DIMS)
      throw new AegirError("ERR_SHAPE", `data: nested deeper than ${MAX_DIMS} arrays, or an array in itself`);
  }
  const values: number[] = [];
  let boolean = false;
  const visit = (part: NestedArray, depth: number, where: string): void => {
    if (Array.isArray(part)) {
      if (part.length !== shape[depth]) {
        const expected = depth < shape.length ? `${shape[depth]} elements` : "a number";
        throw new AegirError("ERR_SHAPE", `${where}: expected ${expected}, got an array of ${part.length}`);
      }
      part.forEach((item, i) => {
        visit(item, depth + 1, `${where}[${i}]`);
      });
      return;
    }
    if (typeof part !== "number" && typeof part !== "boolean") {
      throw new AegirError("ERR_ARGUMENT", `${where}: expected a number or a boolean, got ${describe(part)}`);
    }
    if (depth !== shape.length) {
      throw new AegirError("ERR_SHAPE", `${where}: expected an array of ${shape[depth]}, got ${part}`);
    }
    boolean ||= typeof part === "boolean";
    values.push(Number(part));
  };
  visit(data, 0, "data");
  return { values, shape, boolean };
}

function describe(value: unknown): string {
  return value === null ? "null" : typeof value === "string" ? `'${value}'` : typeof value;
}
