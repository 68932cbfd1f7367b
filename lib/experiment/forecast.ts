import type { Progress } from "../train/progress.js";
import type { Cell, CellRecord } from "./cells.js";

interface Times {
  seconds: number;
  cpuSeconds: number;
}

/** How far an experiment is and how long it still takes, told from the seconds that its cells took for their cost. */
export class Forecast {
  private readonly costs: ReadonlyMap<string, number>;
  private readonly done: Map<string, number>;
  private readonly running = new Map<string, { begin: number; earlier: number; cpuSeconds: number }>();
  private cpuMark = cpuSeconds();

  /** @param records of the cells that ran before */
  constructor(
    cells: readonly Cell[],
    records: ReadonlyMap<string, CellRecord>,
    private readonly task: string,
    private readonly jobs: number,
    private readonly now: () => number = () => performance.now() / 1000,
  ) {
    this.costs = new Map(cells.map(({ key, cost }) => [key, cost]));
    this.done = new Map(
      [...records].flatMap(([key, { done, seconds }]) => (done ? [[key, seconds] as const] : [])),
    );
  }

  /** @param earlier seconds that the cell took before it was interrupted */
  begin(key: string, earlier = 0): void {
    this.shareCpu();
    this.running.set(key, { begin: this.now(), earlier, cpuSeconds: 0 });
  }

  /** What the cell took since it began. */
  end(key: string): Times {
    this.shareCpu();
    const { begin, earlier, cpuSeconds } = this.running.get(key)!;
    this.running.delete(key);
    const seconds = this.now() - begin;
    this.done.set(key, earlier + seconds);
    return { seconds, cpuSeconds };
  }

  /** Cost done of all, in hundredths; a running cell counts by the time it has taken, up to its own cost. */
  progress(figures: Record<string, number> = {}): Progress {
    const total = sum(this.costs.values());
    const doneCost = sum([...this.done.keys()].map((key) => this.costs.get(key)!));
    const rate = doneCost > 0 ? sum(this.done.values()) / doneCost : Number.POSITIVE_INFINITY;
    const begun = sum(
      [...this.running].map(([key, { begin, earlier }]) =>
        Math.min(this.costs.get(key)! * 0.98, (this.now() - begin + earlier) / rate),
      ),
    );
    const part = (doneCost + begun) / total;
    return {
      task: this.task,
      step: Math.floor(100 * part),
      total: 100,
      perSecond: 0,
      secondsLeft: (total * (1 - part) * rate) / this.jobs,
      figures,
    };
  }

  /** Gives the processor time since the last change to the cells that ran. */
  private shareCpu(): void {
    const now = cpuSeconds();
    for (const cell of this.running.values()) cell.cpuSeconds += (now - this.cpuMark) / this.running.size;
    this.cpuMark = now;
  }
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
