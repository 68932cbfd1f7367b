import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Dataset } from "../../lib/data/types.js";
import { writeRunSummary } from "../../lib/report/runSummary.js";
import { readAbstention } from "../../lib/train/abstention.js";
import { evaluateRun } from "../../lib/train/evaluateRun.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { type ParlRun, type SpecialistSource, trainParl } from "../../lib/train/parl.js";
import { readRunConfig } from "../../lib/train/runFolder.js";
import { abortAt, folder, metricsOf, type TinySwarm, tinySwarm } from "./support.js";

describe("PARL runs", () => {
  let swarm: TinySwarm;
  let dataset: Dataset;
  let specialists: SpecialistSource[];
  let run: ParlRun;
  beforeAll(async () => {
    swarm = await tinySwarm();
    ({ dataset, specialists, run } = swarm);
  });
  afterAll(() => swarm.dispose());

  test("Muon, K2.5's objective and a cache of some of the rows: interrupted in mid-phase, it continues to the numbers of an unbroken run", async () => {
    await using dir = await folder();
    const [whole, broken] = [join(dir.path, "whole"), join(dir.path, "broken")];
    const options = {
      fuse: "outputs" as const,
      estimator: "sample" as const,
      rollouts: 4,
      objective: "k25" as const,
      minibatches: 3,
      accumulate: 2,
      entropyTarget: 0.7,
      klTarget: 1e-4,
      cacheBytes: 33_000 * specialists.length,
      optimizer: "muon" as const,
    };
    using _ = await trainParl({ ...run, ...options, out: whole });
    // The router learns from step 4 on, in phases of 3: one step of the second phase is done.
    const part = trainParl({ ...run, ...options, out: broken, ...abortAt("tiny", 8) });
    await expect(part).rejects.toMatchObject({ code: "ERR_ABORTED" });
    using __ = await trainParl({ dataset, specialists, out: broken, resume: true, task: "tiny" });
    const metrics = await metricsOf(whole);
    expect(await metricsOf(broken)).toEqual(metrics);
    const hits = metrics.flatMap(({ kind, cacheHits }) => (kind === "train" ? [cacheHits as number] : []));
    expect(Math.max(...hits)).toBeGreaterThan(0);
    expect(Math.min(...hits)).toBeLessThan(1);
    for (const name of ["model", "optimizer", "routerOptimizer", "generator"]) {
      const file = join("checkpoint", `${name}.safetensors`);
      expect((await readFile(join(broken, file))).equals(await readFile(join(whole, file)))).toBe(true);
    }
  });

  test("prices of time are measured once, kept beside the run, and hold when it is resumed", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    const part = trainParl({ ...run, prices: "time", out, ...abortAt("tiny", 8) });
    await expect(part).rejects.toMatchObject({ code: "ERR_ABORTED" });
    const file = join(out, "prices.json");
    const measured = JSON.parse(await readFile(file, "utf8"));
    expect(Object.keys(measured)).toEqual(specialists.map(({ id }) => id));
    for (const price of Object.values(measured)) expect(price).toBeGreaterThan(0);
    await writeFile(file, "{}");
    const again = () => trainParl({ dataset, specialists, out, resume: true, task: "tiny" });
    await expect(again()).rejects.toThrow(/prices\.json is damaged: remove it/);
    await writeFile(file, "{");
    await expect(again()).rejects.toThrow(/prices\.json is damaged: remove it/);
    await writeFile(file, JSON.stringify(measured));
    using resumed = await again();
    expect(JSON.parse(await readFile(file, "utf8"))).toEqual(measured);
    await writeRunSummary(out, resumed.outcome);
    const price = (measured[specialists[0]!.id] as number).toPrecision(3);
    expect(await readFile(join(out, "summary.md"), "utf8")).toMatch(
      new RegExp(`what asking costs *\\| ${specialists[0]!.id} ${price}, `),
    );
    expect((await readRunConfig(out)).options).toMatchObject({ prices: "time" });
  });

  test("the log tells how far a step's updates went, and what was run again", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    using _ = await trainParl({ ...run, out, epochs: 1 });
    const routed = (await metricsOf(out)).filter(({ kind, step }) => kind === "train" && step > 4);
    expect(routed.length).toBe(8);
    for (const record of routed) {
      expect(record.klOld).toBeGreaterThan(0);
      expect(record.maxLogRatio).toBeGreaterThan(0);
      expect(record.routerGradNorm).toBeGreaterThan(0);
      expect(record).toMatchObject({ routerUpdates: 1, routerSkipped: false, cacheHits: 1, failedCalls: 0 });
    }
  });

  test("gradients of several batches add up to those of one", async () => {
    await using dir = await folder();
    const [out, once, thrice] = ["primary", "once", "thrice"].map((name) => join(dir.path, name));
    using _ = await trainParl({ ...run, out, keep: "last" });
    // Every batch holds every row, every routing is enumerated, and no term depends on a draw: three batches are one.
    const whole = {
      ...run,
      init: out,
      freezePrimary: true,
      batchRows: 1000,
      steps: 2,
      lambdaParallel: 0,
      lambdaFinish: 0,
      validateEvery: 2,
    };
    using first = await trainParl({ ...whole, out: once });
    using second = await trainParl({ ...whole, accumulate: 3, out: thrice });
    const [one, three] = [(await metricsOf(once!))[0]!, (await metricsOf(thrice!))[0]!];
    for (const name of ["reward", "policyLoss", "routerGradNorm", "klOld"])
      expect(three[name], name).toBeCloseTo(one[name] as number, 4);
    expect(one.routerGradNorm).toBeGreaterThan(1e-3);
    expect(first.outcome.steps + second.outcome.steps).toBe(4);
  });

  test("a router that collapses stops the run with the reason, or is only told of, and a broken run stops at the same step", async () => {
    await using dir = await folder();
    const [stopped, broken] = [join(dir.path, "stopped"), join(dir.path, "broken")];
    // Of such a cost nothing pays: the router turns everything off.
    const ruinous = { ...run, steps: 60, routingWarmup: 0, cost: 50, routerLr: 0.5, collapsePatience: 16 };
    const warnings: string[] = [];
    using trained = await trainParl({ ...ruinous, out: stopped, onWarning: (text) => warnings.push(text) });
    const { outcome } = trained;
    expect(outcome.stoppedEarly).toBe(true);
    expect(outcome.stopReason).toMatch(/^always-off: for 16 steps .*\(pOff .*lower the cost/);
    expect(outcome.steps).toBeLessThan(60);
    expect(outcome.best).not.toBeNull();
    expect(warnings.at(-1)).toMatch(/^step \d+: (?:always-off|constant|no-entropy)/);
    expect(warnings[0]).toMatch(/^step \d+: always-off/);
    const last = (await metricsOf(stopped)).filter(({ kind }) => kind === "train").at(-1)!;
    expect(last.stop).toBe(outcome.stopReason);
    expect(last.collapse).toContainEqual(
      expect.objectContaining({ kind: "always-off", metric: "pOff", steps: 16, stop: true }),
    );

    const part = trainParl({ ...ruinous, out: broken, ...abortAt("tiny", outcome.steps - 3) });
    await expect(part).rejects.toMatchObject({ code: "ERR_ABORTED" });
    using resumed = await trainParl({ dataset, specialists, out: broken, resume: true });
    expect(resumed.outcome.stopReason).toBe(outcome.stopReason);
    expect(await metricsOf(broken)).toEqual(await metricsOf(stopped));

    using warned = await trainParl({ ...ruinous, steps: 30, collapsePatience: 0 });
    expect(warned.outcome).toMatchObject({ steps: 30, stoppedEarly: false, stopReason: null });
  });

  test("a target of selective accuracy sets the threshold at every validation, and the run keeps that of its weights", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    using _ = await trainParl({
      ...run,
      out,
      steps: 60,
      batchRows: 24,
      lr: 1e-2,
      validateEvery: 10,
      abstainAccuracy: 0.3,
    });
    const records = await metricsOf(out);
    const calibrated = records.filter(({ abstainBelow }) => abstainBelow !== undefined);
    expect(calibrated.length).toBeGreaterThan(0);
    for (const { selectiveAccuracy } of calibrated) expect(selectiveAccuracy).toBeGreaterThanOrEqual(0.3);
    const from = calibrated[0]!.step;
    const routed = records.filter(({ kind, step }) => kind === "train" && step > from);
    expect(routed.some(({ coverage }) => (coverage as number) < 1)).toBe(true);
    using loaded = await loadRun(out);
    const { abstention } = await evaluateRun(loaded, dataset, { split: "validation", controls: false });
    expect(abstention).toMatchObject({ threshold: (await readAbstention(out))!.threshold });
    expect(abstention!.selectiveAccuracy).toBeGreaterThanOrEqual(0.3);
  });
});
