import { BatchIterator, type BatchOptions, type BatchPosition } from "../data/batches.js";
import type { Batch, EncodedExample } from "../data/types.js";

/**
 * Endless training batches whose examples may be encoded anew each epoch (other cells, another order of cells), ahead of
 * the epoch and without holding the event loop up. The order depends on (seed, epoch) alone.
 */
export class TrainingBatches {
  private constructor(
    private readonly iterator: BatchIterator,
    private readonly encode: (epoch: number) => Promise<EncodedExample[]>,
    private readonly encoded: Map<number, EncodedExample[]>,
  ) {}

  /** @param encode the examples of an epoch, always as many and in the same order */
  static async create(
    encode: (epoch: number) => Promise<EncodedExample[]>,
    options: BatchOptions,
  ): Promise<TrainingBatches> {
    const encoded = new Map([[0, await encode(0)]]);
    return new TrainingBatches(new BatchIterator((epoch) => encoded.get(epoch)!, options), encode, encoded);
  }

  async next(): Promise<Batch> {
    const { epoch, position } = this.iterator.state;
    if (position === this.iterator.batchesInEpoch) await this.prepare(epoch + 1);
    return this.iterator.next();
  }

  get state(): BatchPosition {
    return this.iterator.state;
  }

  async restore(state: BatchPosition): Promise<void> {
    await this.prepare(state.epoch);
    this.iterator.state = state;
  }

  private async prepare(epoch: number): Promise<void> {
    if (this.encoded.has(epoch)) return;
    const examples = await this.encode(epoch);
    this.encoded.clear();
    this.encoded.set(epoch, examples);
  }
}
