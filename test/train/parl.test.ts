import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Dataset } from "../../lib/data/types.js";
import { FrozenSpecialist } from "../../lib/swarm/index.js";
import { evaluateRun } from "../../lib/train/evaluateRun.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { type ParlRun, type SpecialistSource, trainParl } from "../../lib/train/parl.js";
import { abortAt, folder, metricsOf, type TinySwarm, tinySwarm } from "./support.js";

describe("PARL training", () => {
  let swarm: TinySwarm;
  let dataset: Dataset;
  let specialists: SpecialistSource[];
  let run: ParlRun;
  beforeAll(async () => {
    swarm = await tinySwarm();
    ({ dataset, specialists, run } = swarm);
  });
  afterAll(() => swarm.dispose());

  test.each([
    ["states, enumerated routings", { fuse: "states" as const }],
    [
      "states and outputs, drawn routings, held rate",
      {
        fuse: "states+outputs" as const,
        estimator: "sample" as const,
        rollouts: 4,
        targetRate: 0.4,
      },
    ],
    [
      "K2.5's objective, several updates a step, everything that adapts",
      {
        objective: "k25" as const,
        minibatches: 2,
        accumulate: 2,
        klTarget: 0.01,
        entropyTarget: 0.6,
        toggle: -3,
        stepsBudget: 4,
      },
    ],
  ])(
    "%s: interrupted and resumed, it continues to the very numbers of an unbroken run",
    async (_, options) => {
      await using dir = await folder();
      const [whole, broken] = [join(dir.path, "whole"), join(dir.path, "broken")];
      const hashes = specialists.map(({ model }) => model.weightsHash());
      const reference = await trainParl({ ...run, ...options, out: whole });
      const part = trainParl({ ...run, ...options, out: broken, ...abortAt("tiny", 7) });
      await expect(part).rejects.toMatchObject({ code: "ERR_ABORTED" });
      const resumed = await trainParl({ dataset, specialists, out: broken, resume: true, task: "tiny" });
      expect(await metricsOf(broken)).toEqual(await metricsOf(whole));
      for (const name of ["model", "optimizer", "routerOptimizer", "generator"]) {
        const file = join("checkpoint", `${name}.safetensors`);
        expect((await readFile(join(broken, file))).equals(await readFile(join(whole, file)))).toBe(true);
      }
      expect(specialists.map(({ model }) => model.weightsHash())).toEqual(hashes);
      reference[Symbol.dispose]();
      resumed[Symbol.dispose]();
    },
  );

  test("every component of the reward and of the loss is logged, in its range", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    using trained = await trainParl({ ...run, out });
    const records = (await metricsOf(out)).filter((record) => record.kind === "train");
    const warm = records.filter((record) => record.step <= 4);
    const routed = records.filter((record) => record.step > 4);
    expect(warm.every((record) => record.reward === undefined)).toBe(true);
    expect(routed.map((record) => record.phase)).toEqual(
      ["budget", "standard", "budget"].flatMap((phase) => [phase, phase, phase]).slice(0, 8),
    );
    for (const record of routed) {
      const value = (name: string) => record[name] as number;
      for (const name of [
        "loss",
        "ratioLoss",
        "policyLoss",
        "reward",
        "batchTerms",
        "entropy",
        "klOld",
        "entropyBonus",
        "costCoefficient",
        "maxLogRatio",
        "epsilon",
        "lambdaParallel",
      ]) {
        expect(Number.isFinite(value(name)), name).toBe(true);
      }
      // The floor, with the rounding of f32 probabilities that sum to 1.
      expect(value("rPerf")).toBeGreaterThanOrEqual(-3 - 1e-6);
      expect(value("rPerf")).toBeLessThanOrEqual(0);
      expect(value("reward")).toBeCloseTo(value("rPerf") - value("cost") - value("stepsPenalty"), 6);
      const weighed = value("lambdaParallel") * value("rParallel") + value("lambdaFinish") * value("rFinish");
      expect(value("rTotal")).toBeCloseTo(value("reward") + weighed, 6);
      for (const name of [
        "rParallel",
        "rFinish",
        "activation",
        "pOn",
        "pOff",
        "pConst",
        "informative",
        "coverage",
        "accuracy",
        "clipped",
        "ess",
      ]) {
        expect(value(name), name).toBeGreaterThanOrEqual(0);
        expect(value(name), name).toBeLessThanOrEqual(1);
      }
    }
    using loaded = await loadRun(out);
    const inMemory = await evaluateRun({ ...loaded, swarm: trained.swarm }, dataset, { split: "validation" });
    const passes = new Set<string>();
    const fromDisk = await evaluateRun(loaded, dataset, {
      split: "validation",
      onProgress: ({ task }) => passes.add(task),
    });
    const controls = ["shuffled 1 of 3", "shuffled 2 of 3", "shuffled 3 of 3"];
    controls.push("only people", "only technical", "all on", "all off");
    expect([...passes]).toEqual(["evaluation", ...controls.map((control) => `evaluation, ${control}`)]);
    expect({ ...fromDisk, columnsPerSecond: 0, swarm: null }).toEqual({
      ...inMemory,
      columnsPerSecond: 0,
      swarm: null,
    });
    expect(Object.keys(fromDisk.swarm!.activationRate)).toEqual(["people", "technical"]);
    expect(fromDisk.swarm!.controls["all-off"]!.activation).toBe(0);
    expect(fromDisk.swarm!.controls["all-on"]!.activation).toBe(1);
    expect(fromDisk.swarm!.controls["only technical"]!.activation).toBe(0.5);
    const { ideal, work } = fromDisk.swarm!.criticalPath;
    expect(ideal).toBeLessThanOrEqual(work);
  });

  test("a frozen primary stays as it was; only the router learns", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    using first = await trainParl({ ...run, out, keep: "last" });
    using second = await trainParl({ ...run, freezePrimary: true, init: out, keep: "last" });
    expect(second.swarm.primary.weightsHash()).toBe(first.swarm.primary.weightsHash());
    const difference = (name: string) =>
      second.swarm.router.stateDict()[name]!.maxAbsDiff(first.swarm.router.stateDict()[name]!);
    const names = Object.keys(first.swarm.router.stateDict());
    expect(Math.max(...names.map(difference))).toBeGreaterThan(1e-4);
    await expect(trainParl({ ...run, freezePrimary: true })).rejects.toMatchObject({ code: "ERR_CONFIG" });
  });

  test.each([
    ["throws", () => Promise.reject(new Error("the disk is gone"))],
    ["stalls", () => new Promise<never>(() => {})],
  ])(
    "a specialist that %s: training goes on without it, r_finish falls and the run says so",
    async (_, answer) => {
      await using dir = await folder();
      const out = join(dir.path, "run");
      const forward = FrozenSpecialist.prototype.forward;
      const spy = vi.spyOn(FrozenSpecialist.prototype, "forward").mockImplementation(function (
        this: FrozenSpecialist,
        ...given
      ) {
        return this.id === "technical" ? answer() : forward.apply(this, given);
      });
      const warnings: string[] = [];
      try {
        using trained = await trainParl({
          ...run,
          out,
          specialistTimeout: 0.3,
          onWarning: (message) => warnings.push(message),
        });
        expect(trained.outcome.steps).toBe(12);
      } finally {
        spy.mockRestore();
      }
      const said = warnings.filter((message) => message.includes("specialist 'technical' failed"));
      expect(said.length).toBeGreaterThan(0);
      const last = (await metricsOf(out)).filter((record) => record.kind === "train").at(-1)!;
      expect(last.failedCalls).toBeGreaterThan(0);
      expect(last.coverage).toBeLessThan(0.95);
      expect(last.rFinish).toBeLessThan(0.98);
    },
  );

  test("where every specialist fails there is nothing to train over", async () => {
    const spy = vi.spyOn(FrozenSpecialist.prototype, "forward").mockRejectedValue(new Error("no weights"));
    await expect(trainParl(run)).rejects.toThrow(/no weights/);
    spy.mockImplementation(() => new Promise<never>(() => {}));
    await expect(trainParl({ ...run, specialistTimeout: 0.1 })).rejects.toMatchObject({
      code: "ERR_CONFIG",
      message: expect.stringMatching(
        /--specialist-timeout\): was 0\.1 s, within which neither '.*' nor any other/,
      ),
    });
    spy.mockRestore();
  });

  test("a collapse that lasts ends the training and says why", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    const options = {
      cost: 50,
      routerLr: 0.5,
      routingWarmup: 0,
      steps: 80,
      collapsePatience: 15,
      lambdaFinish: 0,
    };
    using trained = await trainParl({ ...run, ...options, out, freezePrimary: false });
    expect(trained.outcome.steps).toBeLessThan(80);
    expect(trained.outcome.stoppedEarly).toBe(true);
    expect(trained.outcome.stopReason).toMatch(/^always-off: .* \(pOff .*over 0\.5\); lower the cost/);
  });

  test("drawn-only options and too many specialists for an enumeration are refused", async () => {
    await expect(trainParl({ ...run, estimator: "enumerate", normalise: "gdpo" })).rejects.toThrow(
      /gdpo.*sample/,
    );
  });

  test.each([
    [{ tau: 0.2 }, "tau: was 0.2, which nothing reads without objective k25"],
    [{ objective: "k25", dualClip: 3 }, "dualClip: was 3, which nothing reads without objective ppo"],
    [{ togglePercentile: 20 }, "togglePercentile: was 20, which nothing reads without toggle"],
    [{ stepsPenalty: 2 }, "stepsPenalty: was 2, which nothing reads without stepsBudget"],
    [
      { fuse: "outputs", fusionMode: "gated" },
      "fusionMode: was gated, which nothing reads without fuse states",
    ],
    [{ fuse: "states", poolOnly: true }, "poolOnly: was true, which nothing reads without fuse outputs"],
    [
      { fuse: "outputs", fuseLabels: false, poolOnly: true },
      "poolOnly: was true, which nothing reads without fuse outputs, and fuseLabels",
    ],
    [
      { fuse: "outputs", alignmentLrScale: 9 },
      "alignmentLrScale: was 9, which nothing reads without fuse states",
    ],
    [{ baseline: "grpo" }, "baseline: was grpo, which nothing reads without drawn routings"],
    [{ cost: 0, prices: "time" }, "prices: was time, which nothing reads without a cost"],
  ] as const)("an option that nothing reads is refused: %j", async (given, message) => {
    await expect(trainParl({ ...run, ...given })).rejects.toThrow(`trainParl.${message}`);
  });

  test("what another option would have to be for is accepted at its default, as recorded options have it", async () => {
    const unread = { objective: "ppo", tau: 0.1, stepsPenalty: 1, fuse: "states", poolOnly: false } as const;
    const trained = await trainParl({ ...run, ...unread, steps: 1, validateEvery: 1 });
    expect(trained.outcome.steps).toBe(1);
    trained[Symbol.dispose]();
  });

  test("no specialists, two of one name", async () => {
    await expect(trainParl({ ...run, specialists: [] })).rejects.toMatchObject({ code: "ERR_CONFIG" });
    await expect(trainParl({ ...run, specialists: [specialists[0]!, specialists[0]!] })).rejects.toThrow(
      /two have the id/,
    );
  });
});
