export { resolveDevice } from "./device.js";
export { Generator } from "./generator.js";
export { backward, Lane, type LaneOptions, withSignal } from "./lane.js";
export { emptyCache, memory, resetPeakMemory } from "./memory.js";
export { keep, tidy, untracked } from "./scope.js";
export {
  Tensor,
  type TensorFillOptions,
  type TensorFromOptions,
  type TensorRandomOptions,
} from "./tensor.js";
