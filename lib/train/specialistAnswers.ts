import { evaluationBatches } from "../data/batches.js";
import type { Batch, EncodedExample } from "../data/types.js";
import { AegirError, messageOf } from "../errors.js";
import type { AegirForColumnAnnotation } from "../model/index.js";
import {
  type CacheOptions,
  type Specialist,
  SpecialistCache,
  SpecialistResult,
  type SwarmOrchestrator,
} from "../swarm/index.js";
import { Meter, type ProgressListener } from "./progress.js";
import { RowClock } from "./rowClock.js";
import type { FilledCache, SharedCaches } from "./sharedCaches.js";
import type { Scope } from "./tensors.js";

/** What the specialists say of the rows of a batch. */
export interface Answers {
  /** Of the specialists that answered. */
  results: SpecialistResult[];
  /** (n) true where the specialist failed or was late. */
  failed: boolean[];
}

export interface AnswerOptions extends Pick<CacheOptions, "maxBytes" | "signal"> {
  /** Milliseconds after which a specialist that says nothing of a batch has failed. */
  timeoutMs: number;
  /** Rows of a batch. */
  rows: number;
  task: string;
  onProgress?: ProgressListener;
  onFailure?: (message: string) => void;
}

/** The specialists that answer, and the stages whose states are wanted of each. */
export type Asked = Pick<SwarmOrchestrator, "specialists" | "specialistStages">;

type Inputs = Parameters<AegirForColumnAnnotation["forward"]>[0];

/**
 * The outputs of a swarm's frozen specialists, each computed once and kept (`SpecialistCache`) or run when asked. A specialist that
 * throws or stalls does not end the training: it counts as a failed call wherever it is activated, and the run says so.
 */
export class SpecialistAnswers {
  /** Of the rows asked for since `takeCounts`, one a specialist. */
  private counts = { asked: 0, stored: 0, failed: 0 };
  private readonly reported = new Set<number>();

  private constructor(
    private readonly asked: Asked,
    /** Per specialist; "broken": it failed while its cache was filled. */
    private readonly caches: readonly (FilledCache | "broken")[] | null,
    private readonly options: AnswerOptions,
  ) {}

  /** Runs at every batch: for examples that change. */
  static live(asked: Asked, options: AnswerOptions): SpecialistAnswers {
    return new SpecialistAnswers(asked, null, options);
  }

  /**
   * Computes every specialist over the examples.
   * @param key names the examples in `caches`, which own what is made
   * @param stages whose states are stored, as `swarm.specialistStages`
   * @throws AegirError ERR_ABORTED; the first specialist's error where all fail
   */
  static async cached(
    asked: Asked,
    examples: EncodedExample[],
    caches: SharedCaches,
    key: string,
    stages: readonly (readonly number[])[] | undefined,
    options: AnswerOptions,
  ): Promise<SpecialistAnswers> {
    const { specialists } = asked;
    const batches = [...evaluationBatches(examples, { rows: options.rows })];
    const meter = new Meter(options.task, examples.length * specialists.length, options.onProgress);
    const filled: (FilledCache | "broken")[] = [];
    const errors: unknown[] = [];
    const answers = new SpecialistAnswers(asked, filled, options);
    for (const [n, specialist] of specialists.entries()) {
      const fill = () =>
        fillCache(specialist, batches, stages?.[n], options, (done) => {
          meter.report(n * examples.length + done);
        });
      try {
        filled.push(await caches.get(`${key}: ${n}`, fill));
      } catch (error) {
        if (isAbort(error)) throw error;
        errors.push(error);
        filled.push("broken");
        answers.report(n, error);
      }
    }
    if (errors.length === specialists.length)
      throw allFailed(specialists[0]!.id, errors[0], options.timeoutMs);
    return answers;
  }

  /**
   * What became of the rows asked for since the last call: the share that needed no run (null where nothing is cached), and the
   * calls that failed.
   */
  takeCounts(): { cacheHits: number | null; failedCalls: number } {
    const { asked, stored, failed } = this.counts;
    this.counts = { asked: 0, stored: 0, failed: 0 };
    return { cacheHits: this.caches && asked > 0 ? stored / asked : null, failedCalls: failed };
  }

  /** (n) milliseconds that a specialist took for a row; of one that failed, and where nothing is cached, null. */
  get times(): (number | null)[] {
    return this.asked.specialists.map((_, n) => {
      const filled = this.caches?.[n];
      return filled === undefined || filled === "broken" ? null : filled.time;
    });
  }

  /** @param scope frees what had to be run */
  async of(batch: Batch, inputs: Inputs, scope: Scope): Promise<Answers> {
    const { specialists } = this.asked;
    const found = await Promise.all(
      specialists.map((specialist, n) => this.one(specialist, n, batch, inputs, scope)),
    );
    return {
      results: found.flatMap((result) => result ?? []),
      failed: found.map((result) => result === null),
    };
  }

  private async one(
    specialist: Specialist,
    index: number,
    batch: Batch,
    inputs: Inputs,
    scope: Scope,
  ): Promise<SpecialistResult | null> {
    this.counts.asked += batch.size;
    const filled = this.caches?.[index];
    if (filled === "broken") {
      this.counts.failed += batch.size;
      return null;
    }
    const stored = filled?.cache.select(batch.rows)?.[0];
    if (stored) {
      this.counts.stored += batch.size;
      return numbered(stored, index);
    }
    const { signal, timeoutMs } = this.options;
    try {
      const output = await answered(timeoutMs, () =>
        specialist.forward(inputs, { signal, stages: this.asked.specialistStages[index] }),
      );
      const positions = Int32Array.from({ length: batch.size }, (_, row) => row);
      const { dispose } = output;
      return scope.keep(
        new SpecialistResult({ index, positions, output, interval: output.interval, dispose }),
      );
    } catch (error) {
      if (isAbort(error)) throw error;
      this.counts.failed += batch.size;
      this.report(index, error);
      return null;
    }
  }

  private report(index: number, error: unknown): void {
    if (this.reported.has(index)) return;
    this.reported.add(index);
    const { id } = this.asked.specialists[index]!;
    this.options.onFailure?.(
      `specialist '${id}' failed (${messageOf(error)}); rows that activate it count as unfinished and go on without it`,
    );
  }
}

/** Routings without the specialists that have nothing to say, (…,n). */
export function withoutFailed(actions: Uint8Array, failed: readonly boolean[]): Uint8Array {
  return failed.includes(true) ? actions.map((on, i) => (failed[i % failed.length] ? 0 : on)) : actions;
}

function numbered(result: SpecialistResult, index: number): SpecialistResult {
  const { id, positions, output, states } = result;
  return new SpecialistResult({ index, positions, output: { id, output, states }, interval: null });
}

async function fillCache(
  specialist: Specialist,
  batches: Batch[],
  stages: readonly number[] | undefined,
  { maxBytes, signal, timeoutMs }: AnswerOptions,
  onProgress: (done: number) => void,
): Promise<FilledCache> {
  const clock = new RowClock();
  const give = new AbortController();
  let alive = () => {};
  const build = SpecialistCache.build([specialist], batches, {
    stages: stages && [stages],
    overflow: "partial",
    ...(maxBytes === undefined ? {} : { maxBytes }),
    signal: signal ? AbortSignal.any([signal, give.signal]) : give.signal,
    onProgress: (done) => {
      clock.done(done);
      alive();
      onProgress(done);
    },
  });
  try {
    const cache = await answered(
      timeoutMs,
      () => build,
      (again) => {
        alive = again;
      },
    );
    return { cache, time: clock.perRow(batches[0]!.size) };
  } catch (error) {
    give.abort();
    throw error;
  }
}

/** `run`, unless nothing is heard of it for `timeoutMs`; a late answer is freed. @param onAlive gets what restarts the clock */
function answered<T extends { dispose(): void }>(
  timeoutMs: number,
  run: () => Promise<T>,
  onAlive?: (restart: () => void) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let late = false;
    const expire = () => {
      late = true;
      reject(new LateAnswer("ERR_ABORTED", `no answer within ${timeoutMs} ms`));
    };
    let timer = setTimeout(expire, timeoutMs);
    onAlive?.(() => {
      clearTimeout(timer);
      if (!late) timer = setTimeout(expire, timeoutMs);
    });
    run().then(
      (value) => {
        clearTimeout(timer);
        if (late) value.dispose();
        else resolve(value);
      },
      (error) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/** A call that was given up, and not because the caller aborted. */
class LateAnswer extends AegirError {}

/** A late answer is no interruption by the user. */
function allFailed(first: string, error: unknown, timeoutMs: number): unknown {
  if (!(error instanceof LateAnswer)) return error;
  return new AegirError(
    "ERR_CONFIG",
    `specialistTimeout (--specialist-timeout): was ${timeoutMs / 1000} s, within which neither '${first}' nor any other specialist answered; give more`,
  );
}

function isAbort(error: unknown): boolean {
  return error instanceof AegirError && error.code === "ERR_ABORTED" && !(error instanceof LateAnswer);
}
