import type { DeviceName, NativeTensor, NativeTensorStatic } from "./contract.js";

/**
 * Gives tensors their properties `shape`, `dtype` and `device`. The addon writes numbers to one array and says how many dimensions there are:
 * an array or a string that it makes itself costs a call into the engine for each element, half a microsecond for a shape.
 */
export function defineLayout(tensors: NativeTensorStatic): void {
  const { layoutValues: values, layoutDtypes: dtypes } = tensors;
  const { prototype } = tensors as unknown as { prototype: NativeTensor };
  const layout = Object.getOwnPropertyDescriptor(prototype, "layout")!.get as (this: NativeTensor) => number;
  const define = (name: "shape" | "dtype" | "device", get: (this: NativeTensor) => unknown) =>
    Object.defineProperty(prototype, name, { get, configurable: true });
  define("shape", function () {
    const dims = layout.call(this);
    const shape: number[] = [];
    for (let i = 0; i < dims; i++) shape.push(values[2 + i]!);
    return shape;
  });
  define("dtype", function () {
    layout.call(this);
    return dtypes[values[0]!];
  });
  define("device", function (): DeviceName {
    layout.call(this);
    return values[1]! < 0 ? "cpu" : `cuda:${values[1]!}`;
  });
}
