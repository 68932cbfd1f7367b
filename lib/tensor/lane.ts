import { z } from "zod";
import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import type { NativeCancelToken, NativeLane, NativeTensor, Timed } from "../native/contract.js";
import { native } from "../native/load.js";

const laneSchema = z.strictObject({
  name: z.string().min(1).default("lane"),
  /** Intra-op threads of the jobs of this lane. */
  threads: z.number().int().min(1).max(1024).default(1),
});

export type LaneOptions = z.input<typeof laneSchema>;

/**
 * One native thread with a FIFO queue: jobs of a lane run in the order in which they were queued, jobs of two lanes side by side.
 *
 *     await using lane = new Lane({ name: "primary", threads: 2 });
 */
export class Lane implements AsyncDisposable {
  readonly native: NativeLane;

  /** @throws AegirError ERR_CONFIG naming the option */
  constructor(options: LaneOptions = {}) {
    this.native = new (native().Lane)(parseOptions("lane options", laneSchema, options));
  }

  get name(): string {
    return this.native.name;
  }

  get threads(): number {
    return this.native.threads;
  }

  /** Jobs queued or running. */
  get pending(): number {
    return this.native.pending;
  }

  /** Resolves when everything queued before it has run. @throws AegirError ERR_DISPOSED where the lane is closed */
  async drain(): Promise<void> {
    await this.native.drain();
  }

  /** Refuses new jobs, lets the queued ones finish, ends the thread. */
  async close(): Promise<void> {
    await this.native.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Runs `start` with a token that the signal cancels: queued jobs reject at once, a running one at its next check between layers.
 * @throws AegirError ERR_ABORTED whose cause is the signal's reason
 */
export async function withSignal<T>(
  signal: AbortSignal | undefined,
  start: (cancel?: NativeCancelToken) => Promise<T>,
): Promise<T> {
  if (!signal) return start();
  if (!(signal instanceof AbortSignal))
    throw new AegirError("ERR_ARGUMENT", "signal: expected an AbortSignal, as an AbortController has");
  if (signal.aborted) throw aborted(signal);
  const token = new (native().CancelToken)();
  const cancel = () => token.cancel();
  signal.addEventListener("abort", cancel, { once: true });
  try {
    return await start(token);
  } catch (error) {
    throw signal.aborted && error instanceof AegirError && error.code === "ERR_ABORTED"
      ? aborted(signal)
      : error;
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}

function aborted(signal: AbortSignal): AegirError {
  return new AegirError("ERR_ABORTED", "the operation was aborted", { cause: signal.reason });
}

/**
 * Backward of sum_i weights[i] * losses[i] on a lane; gradients accumulate in the leaves.
 * @param losses scalars with a graph
 * @param weights one for each loss; default 1
 * @throws AegirError ERR_SHAPE, ERR_ARGUMENT naming the loss; ERR_ABORTED where the signal came before the job began
 */
export async function backward(
  losses: NativeTensor[],
  weights: number[] | undefined,
  { lane, signal }: { lane: Lane | NativeLane; signal?: AbortSignal },
): Promise<Timed> {
  const on = lane instanceof Lane ? lane.native : lane;
  return withSignal(signal, (cancel) =>
    native().backward(on, losses, weights ?? losses.map(() => 1), cancel),
  );
}
