import type { MemoryInfo } from "../native/contract.js";
import { native } from "../native/load.js";

/**
 * What native memory this thread's handles hold: live tensors, the bytes of their storages (each storage once), and the process's
 * CPU allocator. Counts return to what they were when every handle is disposed.
 */
export function memory(): MemoryInfo {
  return native().memory();
}

/** Returns cached blocks of the CPU allocator to the system. */
export function emptyCache(): void {
  native().emptyCache();
}
