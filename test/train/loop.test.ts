import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadCheckpoint, type TensorMap } from "../../lib/train/checkpoint.js";
import { type Figures, type LoopOptions, runLoop, type Trainee } from "../../lib/train/loop.js";
import type { MetricValue } from "../../lib/train/metricsLog.js";

/** A walk whose position is its only weight; the score falls with its distance from 10. */
class Walk implements Trainee {
  geometry: unknown = { size: 1 };
  x = 0;
  velocity = 1;

  async step(step: number): Promise<Figures> {
    this.velocity = (this.velocity * 7 + step) % 5;
    this.x += this.velocity;
    return { loss: this.x, skipped: false };
  }
  async validate() {
    return { score: -Math.abs(this.x - 10), figures: { macroF1: this.x } };
  }
  weights(): TensorMap {
    return new Map([
      ["x", { dtype: "f64", shape: [1], data: new Uint8Array(new Float64Array([this.x]).buffer) }],
    ]);
  }
  loadWeights(tensors: TensorMap) {
    this.x = new Float64Array(tensors.get("x")!.data.slice().buffer)[0]!;
  }
  resumeGroups() {
    return {};
  }
  resumeState(): MetricValue {
    return { velocity: this.velocity };
  }
  restore(_groups: Record<string, TensorMap>, state: MetricValue) {
    this.velocity = (state as { velocity: number }).velocity;
  }
}

describe("training loop", () => {
  let dir: string;
  let options: LoopOptions;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), "aegir-loop-"));
    options = { task: "walk", totalSteps: 20, dir, validateEvery: 4, saveEvery: 6 };
  });
  afterEach(() => rm(dir, { recursive: true }));

  test("ends with the best weights, which best/ holds too", async () => {
    const walk = new Walk();
    const outcome = await runLoop(walk, options);
    expect(outcome.steps).toBe(20);
    expect(walk.x).toBe(10 - Math.abs(outcome.best!.score) * Math.sign(10 - walk.x));
    const { state, groups } = await loadCheckpoint<{ step: number }>(join(dir, "best"));
    expect(state.step).toBe(outcome.best!.step);
    expect(groups.model!.get("x")!.data).toEqual(walk.weights().get("x")!.data);
  });

  test("interrupted and resumed, the log and the weights are those of an unbroken run", async () => {
    await runLoop(new Walk(), options);
    const unbroken = await readFile(join(dir, "metrics.jsonl"), "utf8");
    const reference = await loadCheckpoint(join(dir, "checkpoint"));
    for (const stopAt of [1, 7, 13]) {
      const controller = new AbortController();
      const onProgress = ({ step }: { step: number }) => step >= stopAt && controller.abort();
      await expect(
        runLoop(new Walk(), { ...options, signal: controller.signal, onProgress }),
      ).rejects.toMatchObject({ code: "ERR_ABORTED", message: expect.stringContaining(`step ${stopAt}`) });
      await runLoop(new Walk(), { ...options, resume: true });
      expect(await readFile(join(dir, "metrics.jsonl"), "utf8")).toBe(unbroken);
      expect(await loadCheckpoint(join(dir, "checkpoint"))).toEqual(reference);
    }
  });

  test("stops after `patience` validations without a better score", async () => {
    const walk = new Walk();
    const outcome = await runLoop(walk, { ...options, patience: 1, totalSteps: 100 });
    expect(outcome.stoppedEarly).toBe(true);
    expect(outcome.steps).toBe(outcome.best!.step + options.validateEvery);
  });

  test("resuming with another geometry is refused", async () => {
    await runLoop(new Walk(), options);
    const other = new Walk();
    other.geometry = { size: 2 };
    await expect(runLoop(other, { ...options, resume: true })).rejects.toMatchObject({
      code: "ERR_CHECKPOINT",
    });
  });

  test("ten steps without a finite gradient end the run with the step named", async () => {
    const walk = new Walk();
    walk.step = async () => ({ loss: Number.NaN, skipped: true });
    await expect(runLoop(walk, options)).rejects.toMatchObject({
      code: "ERR_NON_FINITE",
      message: expect.stringContaining("step 10"),
    });
  });
});
