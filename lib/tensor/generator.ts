import type { NativeGenerator } from "../native/contract.js";
import { native } from "../native/load.js";

/** A CPU random generator (mt19937) with a seed and a state of its own: equal seeds give equal draws. */
export class Generator implements Disposable {
  readonly native: NativeGenerator;

  /** @param seed an integer from 0 to 2^53 - 1. @throws AegirError ERR_ARGUMENT */
  constructor(seed: number) {
    this.native = new (native().Generator)(seed);
  }

  get seed(): number {
    return this.native.seed;
  }

  getState(): Uint8Array {
    return this.native.getState();
  }

  /** @throws AegirError ERR_ARGUMENT where the bytes are not a state that getState() gave */
  setState(state: Uint8Array): void {
    this.native.setState(state);
  }

  dispose(): void {
    this.native.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
