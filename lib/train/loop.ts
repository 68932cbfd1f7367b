import { join } from "node:path";
import { z } from "zod";
import { AegirError } from "../errors.js";
import { hasCheckpoint, loadCheckpoint, saveCheckpoint, type TensorMap } from "./checkpoint.js";
import { monitorLag, type TimerLag } from "./lag.js";
import { MetricsLog, type MetricValue } from "./metricsLog.js";
import { Meter, type ProgressListener } from "./progress.js";
import { lockRun } from "./runLock.js";

/** Figures of one step or one validation, by name. */
export type Figures = Record<string, MetricValue>;

export interface Validation {
  score: number;
  figures: Figures;
  /** False while the weights cannot be the best yet, as during a warm-up; default true. */
  eligible?: boolean;
}

/** What a loop trains: its tensors and every number that the next step depends on besides the step's index. */
export interface Trainee {
  /** Recorded in checkpoints and compared on resume. */
  readonly geometry: unknown;
  /**
   * Runs training step `step` (from 0). A figure named `skipped` that is true marks a step with a non-finite gradient; one named
   * `stop` ends the run after this step and says why.
   */
  step(step: number): Promise<Figures>;
  /** Whole-set validation; `score` chooses the best weights. Absent: no validation, the last weights are kept. */
  validate?(step: number): Promise<Validation>;
  /** The weights alone. */
  weights(): TensorMap;
  /** What `validate` judges and the run ends with, where that is not the weights in training: their average. */
  judgedWeights?(): TensorMap;
  loadWeights(tensors: TensorMap): void;
  /** Optimiser, generators and whatever else, beside the weights. */
  resumeGroups(): Record<string, TensorMap>;
  resumeState(): MetricValue;
  restore(groups: Record<string, TensorMap>, state: MetricValue): void | Promise<void>;
}

export interface LoopOptions {
  /** What progress reports and errors call this run. */
  task: string;
  totalSteps: number;
  /** Run folder; absent: nothing is written. */
  dir?: string;
  /** Continue from the run folder's checkpoint. */
  resume?: boolean;
  /** Steps between validations; the last step always validates. */
  validateEvery: number;
  /** Weights that the trainee ends with, and that best/ holds: the best by validation (default), or the last. */
  keep?: "best" | "last";
  /** Steps between checkpoints; the last step and an abort always save. */
  saveEvery: number;
  /** Stop after this many validations without a better score; absent: never. */
  patience?: number;
  /** Figures of a step that progress shows. */
  show?: string[];
  signal?: AbortSignal;
  onProgress?: ProgressListener;
}

export interface TrainingOutcome {
  /** Steps trained, over all resumed parts. */
  steps: number;
  stoppedEarly: boolean;
  /** Why the trainee asked for the end; null: it did not. */
  stopReason: string | null;
  /** The weights that the model now has; null without validation. */
  best: { step: number; score: number } | null;
  /** Seconds of this call. */
  seconds: number;
  longestStepMs: number;
  lag: TimerLag;
}

interface LoopState {
  step: number;
  stopped: boolean;
  stopReason?: string;
  best: { step: number; score: number } | null;
  /** Validations since the best. */
  stale: number;
  metricsBytes: number;
  trainee: MetricValue;
}

const count = z.int().min(0);
const stateSchema = z.strictObject({
  step: count,
  stopped: z.boolean(),
  stopReason: z.string().optional(),
  best: z.strictObject({ step: count, score: z.number().nullable() }).nullable(),
  stale: count,
  metricsBytes: count,
  trainee: z.json(),
});

/** This many steps in a row without a finite gradient end a run. */
const MAX_SKIPPED = 10;

/**
 * The loop of every training: steps, validation with early stopping, checkpoints, metrics and progress. At the end the
 * trainee has its best weights. An aborted run saves after the step in progress and rejects with ERR_ABORTED.
 * @throws AegirError ERR_ABORTED, ERR_NON_FINITE after ten steps in a row without a finite gradient, ERR_CHECKPOINT,
 *   ERR_CONFIG where another training is in the folder
 */
export async function runLoop(trainee: Trainee, options: LoopOptions): Promise<TrainingOutcome> {
  const loop = new Loop(trainee, options);
  const unlock = options.dir ? await lockRun(options.dir) : undefined;
  const lag = monitorLag();
  const begin = performance.now();
  try {
    await loop.begin();
    await loop.run();
    const { step, stopped, stopReason = null, best } = loop.state;
    const seconds = (performance.now() - begin) / 1000;
    return {
      steps: step,
      stoppedEarly: stopped,
      stopReason,
      best,
      seconds,
      longestStepMs: loop.longestStepMs,
      lag: lag.stop(),
    };
  } finally {
    lag.stop();
    await unlock?.();
  }
}

class Loop {
  state: LoopState = { step: 0, stopped: false, best: null, stale: 0, metricsBytes: 0, trainee: null };
  longestStepMs = 0;
  private bestWeights: TensorMap | null = null;
  private skipped = 0;
  private savedStep = -1;
  private readonly log: MetricsLog | null;
  private readonly meter: Meter;

  constructor(
    private readonly trainee: Trainee,
    private readonly options: LoopOptions,
  ) {
    this.log = options.dir ? new MetricsLog(join(options.dir, "metrics.jsonl")) : null;
    this.meter = new Meter(options.task, options.totalSteps, options.onProgress);
  }

  async begin(): Promise<void> {
    const { dir, resume } = this.options;
    if (resume && dir && (await hasCheckpoint(join(dir, "checkpoint")))) await this.restore(dir);
    else await this.log?.rewind(0);
    this.meter.report(this.state.step);
  }

  async run(): Promise<void> {
    const { totalSteps, validateEvery, saveEvery, signal } = this.options;
    while (this.state.step < totalSteps && !this.state.stopped) {
      await this.abortIfAsked(signal);
      await this.trainStep();
      const { step } = this.state;
      const last = step === totalSteps;
      if (this.trainee.validate && (last || this.state.stopped || step % validateEvery === 0))
        await this.validate();
      if (last || this.state.stopped || step % saveEvery === 0) await this.save();
    }
    if (this.bestWeights && this.keepsBest) this.trainee.loadWeights(this.bestWeights);
    else if (this.trainee.judgedWeights) this.trainee.loadWeights(this.judgedWeights());
  }

  private judgedWeights(): TensorMap {
    return this.trainee.judgedWeights?.() ?? this.trainee.weights();
  }

  private get keepsBest(): boolean {
    return this.trainee.validate !== undefined && this.options.keep !== "last";
  }

  private async trainStep(): Promise<void> {
    const begin = performance.now();
    const figures = await this.trainee.step(this.state.step);
    this.longestStepMs = Math.max(this.longestStepMs, performance.now() - begin);
    this.state.step++;
    const { step } = this.state;
    this.log?.write({ kind: "train", ...figures, step });
    this.meter.report(step, shown(figures, this.options.show ?? ["loss"]));
    if (typeof figures.stop === "string")
      Object.assign(this.state, { stopped: true, stopReason: figures.stop });
    this.skipped = figures.skipped === true ? this.skipped + 1 : 0;
    if (this.skipped >= MAX_SKIPPED) {
      await this.log?.flush();
      throw new AegirError(
        "ERR_NON_FINITE",
        `${this.options.task}: ${MAX_SKIPPED} steps in a row up to step ${step} had no finite gradient; lower the learning rate`,
      );
    }
  }

  private async validate(): Promise<void> {
    const { step } = this.state;
    const { score, figures, eligible = true } = await this.trainee.validate!(step);
    const better = eligible && (this.state.best === null || score > this.state.best.score);
    this.log?.write({ kind: "validation", ...figures, score, best: better, step });
    this.meter.report(step, shown(figures, ["macroF1"]));
    if (better) {
      this.state.best = { step, score };
      this.state.stale = 0;
      this.bestWeights = this.judgedWeights();
      if (this.options.dir && this.keepsBest) await this.saveBest(this.options.dir, this.bestWeights);
    } else if (eligible) {
      this.state.stale++;
      const { patience } = this.options;
      if (patience !== undefined && this.state.stale >= patience) this.state.stopped = true;
    }
  }

  private async abortIfAsked(signal: AbortSignal | undefined): Promise<void> {
    if (!signal?.aborted) return;
    await this.save();
    const { step } = this.state;
    const where = this.options.dir ? `; saved in ${this.options.dir}, --resume continues` : "";
    throw new AegirError("ERR_ABORTED", `${this.options.task}: interrupted at step ${step}${where}`);
  }

  private async save(): Promise<void> {
    const { dir } = this.options;
    if (!dir || !this.log || this.savedStep === this.state.step) return;
    this.state.metricsBytes = await this.log.flush();
    this.state.trainee = this.trainee.resumeState();
    await saveCheckpoint<LoopState>(join(dir, "checkpoint"), {
      geometry: this.trainee.geometry,
      groups: {
        model: this.trainee.weights(),
        ...(this.bestWeights ? { best: this.bestWeights } : {}),
        ...this.trainee.resumeGroups(),
      },
      state: this.state,
    });
    if (!this.keepsBest) await this.saveBest(dir, this.judgedWeights());
    this.savedStep = this.state.step;
  }

  private async saveBest(dir: string, weights: TensorMap): Promise<void> {
    const { step, best } = this.state;
    await saveCheckpoint(join(dir, "best"), {
      geometry: this.trainee.geometry,
      groups: { model: weights },
      state: { step, score: best?.score ?? null },
    });
  }

  private async restore(dir: string): Promise<void> {
    const { geometry } = this.trainee;
    const path = join(dir, "checkpoint");
    const { groups, state: stored } = await loadCheckpoint<LoopState>(path, { geometry });
    const state = checkedState(stored, path, this.options.totalSteps);
    const { model, best, ...rest } = groups;
    this.bestWeights = best ?? null;
    this.trainee.loadWeights(model!);
    try {
      await this.trainee.restore(rest, state.trainee);
    } catch (cause) {
      if (cause instanceof AegirError) throw cause;
      throw new AegirError("ERR_CHECKPOINT", `${path}: is damaged (${(cause as Error).message})`, { cause });
    }
    this.state = state;
    this.savedStep = state.step;
    await this.log!.rewind(state.metricsBytes);
  }
}

function checkedState(state: unknown, path: string, totalSteps: number): LoopState {
  const checked = stateSchema.safeParse(state);
  const issue = checked.error?.issues[0];
  if (issue) {
    throw new AegirError(
      "ERR_CHECKPOINT",
      `${path}: ${["state", ...issue.path].join(".")}: ${issue.message}`,
    );
  }
  const { step } = checked.data!;
  if (step <= totalSteps) return checked.data as LoopState;
  throw new AegirError("ERR_CHECKPOINT", `${path}: is of step ${step}, and the run has ${totalSteps}`);
}

function shown(figures: Figures, names: string[]): Record<string, number> {
  return Object.fromEntries(
    names.flatMap((name) => (typeof figures[name] === "number" ? [[name, figures[name]]] : [])),
  );
}
