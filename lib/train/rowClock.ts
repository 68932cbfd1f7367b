/** What batches that run one after the other take a row. */
export class RowClock {
  private readonly times: number[] = [];
  private rows = 0;
  private at: number;

  constructor(private readonly now: () => number = () => performance.now()) {
    this.at = now();
  }

  /** A batch is done: `rows` of all so far. */
  done(rows: number): void {
    const at = this.now();
    this.times.push((at - this.at) / (rows - this.rows));
    this.rows = rows;
    this.at = at;
  }

  /**
   * Milliseconds: the median of the batches, which leaves out what the first one pays for all and what other work takes now and then.
   * @param first rows of the first batch, which has run where none was done
   */
  perRow(first: number): number {
    const sorted = this.times.toSorted((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)] ?? (this.now() - this.at) / first;
  }
}
