import { MultiBar, type SingleBar } from "cli-progress";
import type { Progress } from "../train/progress.js";

/** Shows the progress of one or several tasks side by side, on stderr. */
export interface ProgressView {
  update(progress: Progress): void;
  /** A line of text between the bars. */
  note(text: string): void;
  /** The same of what is wrong, also where `quiet`. */
  warn(text: string): void;
  stop(): void;
}

/** Seconds between two plain lines of one task at least, and the share of the time that it has run: an hour's job prints some hundred lines. */
const LINE_SECONDS = 5;
const LINE_SHARE = 0.03;

/** Bars on a terminal, plain lines elsewhere, nothing where `quiet`. */
export function progressView({ quiet = false }: { quiet?: boolean } = {}): ProgressView {
  if (quiet) return { update() {}, note() {}, warn: writeLine, stop() {} };
  return process.stderr.isTTY ? new Bars() : new Lines();
}

function writeLine(text: string): void {
  process.stderr.write(`${text}\n`);
}

class Bars implements ProgressView {
  private readonly bars = new Map<string, SingleBar>();
  private readonly multi = new MultiBar({
    format: "{task} {bar} {value}/{total}  {rate}  {left}  {figures}",
    barCompleteChar: "█",
    barIncompleteChar: "░",
    barsize: 24,
    hideCursor: true,
    clearOnComplete: false,
    autopadding: true,
    stream: process.stderr,
    gracefulExit: false,
  });

  update(progress: Progress): void {
    const payload = {
      task: progress.task.padEnd(26),
      rate: rateText(progress),
      left: leftText(progress),
      figures: figuresText(progress),
    };
    const bar = this.bars.get(progress.task);
    if (bar) bar.update(progress.step, payload);
    else this.bars.set(progress.task, this.multi.create(progress.total, progress.step, payload));
  }

  note(text: string): void {
    this.multi.log(`${text}\n`);
  }

  warn(text: string): void {
    this.note(text);
  }

  stop(): void {
    this.multi.stop();
  }
}

class Lines implements ProgressView {
  private readonly tasks = new Map<string, { begun: number; last: number }>();

  update(progress: Progress): void {
    const now = performance.now();
    const { begun, last } = this.tasks.get(progress.task) ?? { begun: now, last: Number.NEGATIVE_INFINITY };
    const between = Math.max(LINE_SECONDS * 1000, LINE_SHARE * (now - begun));
    if (now - last < between && progress.step < progress.total) return;
    this.tasks.set(progress.task, { begun, last: now });
    const { task, step, total } = progress;
    const parts = [
      `${task}: ${step}/${total}`,
      rateText(progress),
      leftText(progress),
      figuresText(progress),
    ];
    this.note(parts.filter((part) => part.length > 0).join("  "));
  }

  note(text: string): void {
    writeLine(text);
  }

  warn(text: string): void {
    writeLine(text);
  }

  stop(): void {}
}

function rateText({ perSecond }: Progress): string {
  if (perSecond <= 0) return "";
  return perSecond >= 1 ? `${perSecond.toFixed(1)}/s` : `${(1 / perSecond).toFixed(1)} s each`;
}

function leftText({ secondsLeft, step, total }: Progress): string {
  if (!Number.isFinite(secondsLeft) || step >= total) return "";
  const seconds = Math.round(secondsLeft);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")} left`;
}

function figuresText({ figures }: Progress): string {
  return Object.entries(figures)
    .map(([name, value]) => `${name} ${Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(3)}`)
    .join(" ");
}
