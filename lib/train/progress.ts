/** What a long call reports while it runs. */
export interface Progress {
  /** What runs, for people: "specialist people", "router". */
  task: string;
  /** Steps done, of `total`. */
  step: number;
  total: number;
  /** Steps a second over the last steps. */
  perSecond: number;
  /** Estimated seconds left. */
  secondsLeft: number;
  /** The latest figures, for instance { loss, macroF1 }. */
  figures: Record<string, number>;
}

export type ProgressListener = (progress: Progress) => void;

/** Turns step counts into `Progress` with a rate over a sliding window. */
export class Meter {
  private readonly marks: { step: number; at: number }[] = [];
  private figures: Record<string, number> = {};

  constructor(
    private readonly task: string,
    private readonly total: number,
    private readonly listener: ProgressListener | undefined,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Reports that `step` steps are done. */
  report(step: number, figures: Record<string, number> = {}): void {
    this.figures = { ...this.figures, ...figures };
    this.marks.push({ step, at: this.now() });
    if (this.marks.length > 32) this.marks.shift();
    const first = this.marks[0]!;
    const last = this.marks[this.marks.length - 1]!;
    const seconds = (last.at - first.at) / 1000;
    const perSecond = seconds > 0 ? (last.step - first.step) / seconds : 0;
    this.listener?.({
      task: this.task,
      step,
      total: this.total,
      perSecond,
      secondsLeft: perSecond > 0 ? (this.total - step) / perSecond : Number.POSITIVE_INFINITY,
      figures: this.figures,
    });
  }
}
