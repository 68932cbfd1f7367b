import { AegirError } from "../errors.js";
import type { ProgressListener } from "../train/progress.js";
import type { Cell, CellRecord, CellStore } from "./cells.js";
import { Forecast } from "./forecast.js";

export interface RunCellsOptions {
  /** What progress calls the whole. */
  task: string;
  /** Cells at a time; default 1. */
  jobs?: number;
  signal?: AbortSignal;
  onProgress?: ProgressListener;
  onNote?: (text: string) => void;
}

/**
 * Runs the cells that are not done yet, each after those it needs, and stores every result as it comes.
 * @returns all records by key
 * @throws AegirError ERR_CONFIG; ERR_ABORTED, with everything done so far stored; the error of a cell, after those under way have ended
 */
export async function runCells(
  cells: readonly Cell[],
  store: CellStore,
  options: RunCellsOptions,
): Promise<Map<string, CellRecord>> {
  const { jobs = 1 } = options;
  if (!(Number.isInteger(jobs) && jobs >= 1))
    throw new AegirError("ERR_CONFIG", `jobs: expected a whole number from 1, got ${jobs}`);
  const records = new Map<string, CellRecord>();
  for (const { key } of cells) {
    const record = await store.read(key);
    if (record) records.set(key, record);
  }
  await new CellRunner(cells, store, records, { ...options, jobs }).run();
  return records;
}

class CellRunner {
  private readonly running = new Map<string, Promise<void>>();
  private readonly forecast: Forecast;
  private failure: { error: unknown } | null = null;

  constructor(
    private readonly cells: readonly Cell[],
    private readonly store: CellStore,
    private readonly records: Map<string, CellRecord>,
    private readonly options: RunCellsOptions & { jobs: number },
  ) {
    this.forecast = new Forecast(cells, records, options.task, options.jobs);
  }

  async run(): Promise<void> {
    const left = this.cells.filter(({ key }) => !this.records.get(key)?.done);
    if (left.length < this.cells.length) {
      this.options.onNote?.(
        `${this.cells.length - left.length} of ${this.cells.length} parts are done already.`,
      );
    }
    while (left.length > 0 && !this.failure && !this.options.signal?.aborted) {
      this.startReady(left);
      await Promise.race(this.running.values());
    }
    await Promise.all(this.running.values());
    const unfinished = left.length > 0 || this.failure !== null;
    if (unfinished && this.options.signal?.aborted) throw this.interrupted();
    if (this.failure) throw this.failure.error;
  }

  private startReady(left: Cell[]): void {
    const ready = left.filter(({ needs }) => needs.every((key) => this.records.get(key)?.done));
    const free = this.options.jobs - this.running.size;
    for (const cell of ready.slice(0, free)) {
      left.splice(left.indexOf(cell), 1);
      this.running.set(
        cell.key,
        this.runOne(cell).finally(() => this.running.delete(cell.key)),
      );
    }
    if (this.running.size > 0) return;
    const [{ key, needs }] = left as [Cell];
    throw new AegirError("ERR_CONFIG", `cell '${key}' needs ${needs.join(", ")}, not all of which are cells`);
  }

  /** Never rejects: a failure ends the run once the cells under way have ended. */
  private async runOne(cell: Cell): Promise<void> {
    const { key } = cell;
    const { signal, onProgress, onNote } = this.options;
    const before = this.records.get(key) ?? { seconds: 0, cpuSeconds: 0 };
    this.forecast.begin(key, before.seconds);
    const report = (figures: Record<string, number> = {}) => onProgress?.(this.forecast.progress(figures));
    onNote?.(`${key} …`);
    report();
    const outcome = await settled(() =>
      cell.run({
        signal,
        onProgress: ({ figures }) => report(figures),
        resultOf: (other) => this.records.get(other)?.result,
      }),
    );
    const { seconds, cpuSeconds } = this.forecast.end(key);
    try {
      await this.keep(key, {
        done: !("error" in outcome),
        seconds: before.seconds + seconds,
        cpuSeconds: before.cpuSeconds + cpuSeconds,
        result: "error" in outcome ? null : (outcome.result ?? null),
      });
      if ("error" in outcome) throw outcome.error;
      onNote?.(`${key}: done in ${(before.seconds + seconds).toFixed(0)} s`);
      report();
    } catch (error) {
      this.failure ??= { error };
    }
  }

  private async keep(key: string, record: CellRecord): Promise<void> {
    await this.store.write(key, record);
    this.records.set(key, record);
  }

  private interrupted(): AegirError {
    const done = this.cells.filter(({ key }) => this.records.get(key)?.done).length;
    return new AegirError(
      "ERR_ABORTED",
      `${this.options.task}: interrupted after ${done} of ${this.cells.length} parts; the same command continues in ${this.store.dir}`,
    );
  }
}

async function settled<T>(work: () => Promise<T>): Promise<{ result: T } | { error: unknown }> {
  try {
    return { result: await work() };
  } catch (error) {
    return { error };
  }
}
