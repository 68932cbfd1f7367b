import type { MemoryInfo } from "../native/contract.js";
import { native } from "../native/load.js";

/**
 * What native memory this thread's handles hold: live tensors, the bytes of their storages (each storage once), and the process's
 * CPU allocator; and what each GPU's allocator holds, with its peaks. Counts return to what they were when every handle is disposed.
 */
export function memory(): MemoryInfo {
  return native().memory();
}

/** Peaks of `memory().devices` start again from what is held now. */
export function resetPeakMemory(): void {
  native().resetPeakMemory();
}

/** Returns cached blocks of the CPU allocator to the system, and those of GPUs to them. */
export function emptyCache(): void {
  native().emptyCache();
}
