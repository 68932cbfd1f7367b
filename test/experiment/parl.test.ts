import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Serialiser } from "../../lib/data/serialise.js";
import { Datasets, groupsOf } from "../../lib/experiment/datasets.js";
import { type Outcomes, swarmOutcomes } from "../../lib/experiment/outcomes.js";
import { type ParlExperiment, runParlExperiment } from "../../lib/experiment/parl/experiment.js";
import { type ParlReport, summarise } from "../../lib/experiment/parl/summary.js";
import { allOn, constantRouting, learnedRouting, predictedUnder } from "../../lib/experiment/routings.js";
import type { NativeModule } from "../../lib/native/contract.js";
import { parlText, writeParlReport } from "../../lib/report/parlReport.js";
import { folderSource, generatedSource } from "../../lib/train/dataSource.js";
import { evaluationSet } from "../../lib/train/evaluate.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { folder, metricsOf, shortColumns, tinyModel } from "../train/support.js";

/** Two specialists and a primary of a few steps each: seconds. */
function tiny(out: string): ParlExperiment {
  return {
    source: (seed) => generatedSource({ seed, tables: 60, rows: 4, validation: 0.25, test: 0.25 }),
    groups: "domains",
    specialists: [
      { id: "people", kind: "group" },
      { id: "technical", kind: "group" },
    ],
    seeds: 2,
    split: "test",
    plan: {
      model: tinyModel,
      serialise: shortColumns,
      specialist: { steps: 3, batchRows: 8 },
      primary: { steps: 4, batchRows: 8, lr: 3e-3 },
      together: { phaseSteps: 1 },
      router: { phaseSteps: 1, steps: 3, batchRows: 8 },
      columns: { validation: 20, test: 30 },
    },
    out,
  };
}

async function report(experiment: ParlExperiment): Promise<ParlReport> {
  const results = await runParlExperiment(experiment);
  const summary = summarise(results, { split: experiment.split, data: "tiny", quick: true, generated: true });
  return { ...summary, cpuMinutes: 0 };
}

/** The stored outcomes of an arm, some of which come from another swarm or were left out, beside all of those of its saved swarm. */
async function sameWhenEvaluated(dir: string, arm: string, evaluated: "all" | "decided"): Promise<void> {
  const { source, plan } = tiny(dir);
  const { result } = JSON.parse(await readFile(join(dir, `cells/seed-0/${arm}.json`), "utf8"));
  using run = await loadRun(join(dir, "runs/seed-0", arm));
  const swarm = run.swarm!;
  const dataset = await new Datasets().get(source(0));
  const set = await evaluationSet(dataset, "test", swarm.primary.labels, new Serialiser(plan.serialise), {
    limit: plan.columns.test,
  });
  const all: Outcomes = await swarmOutcomes(swarm, set, set.columns.map(groupsOf(dataset, "domains")));
  const stored: Outcomes = result.test;
  expect(stored.logits, arm).toEqual(all.logits);
  expect(stored.confidence, arm).toEqual(all.confidence);
  for (const routings of [
    learnedRouting(all),
    constantRouting(all, 0),
    constantRouting(all, allOn(all)),
    ...(evaluated === "all" ? [constantRouting(all, 1), constantRouting(all, 2)] : []),
  ])
    expect(predictedUnder(stored, routings), arm).toEqual(predictedUnder(all, routings));
  const missing = stored.predicted.flat().filter((label) => label === null).length;
  if (evaluated === "all") expect(missing).toBe(0);
  else expect(missing).toBeGreaterThan(0);
}

test("the whole experiment, and that an interruption changes nothing of its report", async () => {
  await using dir = await folder();
  const whole = await report(tiny(join(dir.path, "whole")));

  const names = whole.rows.map(({ arm, control }) => `${arm} ${control}`);
  expect(new Set(names).size).toBe(17);
  const row = (name: string) => whole.rows[names.indexOf(name)]!;
  expect(row("together all-on").activation!.mean).toBe(1);
  expect(row("together all-off").activation!.mean).toBe(0);
  expect(row("together shuffled").activation!.mean).toBeCloseTo(row("together learned").activation!.mean, 12);
  expect(row("alone learned").gain.mean).toBe(0);
  expect(row("alone learned").activation).toBeNull();
  // Equal computation: 3·steps·rows forwards in 4 steps of 8 rows, 3 (of 4) routed steps of 2, 4 or 3 routings, and both caches.
  expect(row("alone-own learned").steps.mean).toBeGreaterThan(4);
  expect(row("alone-all learned").steps.mean).toBe(row("alone-own learned").steps.mean + 2 * 3);
  for (const { macroF1, work, criticalSteps } of whole.rows) {
    expect(macroF1.values).toHaveLength(2);
    expect(macroF1.mean).toBeGreaterThanOrEqual(0);
    expect(work.mean).toBeGreaterThanOrEqual(criticalSteps.mean);
  }
  expect(whole.wanted).toHaveLength(7);
  expect(whole.swarms.map(({ arm }) => arm)).toEqual(["together", "router"]);
  const [{ figures }] = whole.swarms as [ParlReport["swarms"][number]];
  expect(Object.keys(figures.activation)).toContain("people");
  expect(figures.curves.lambdaParallel!.length).toBeGreaterThan(0);

  // All arms of a seed take the same steps, and the router alone leaves the primary as it was.
  for (const name of ["alone", "together", "random"]) {
    const steps = (await metricsOf(join(dir.path, "whole/runs/seed-1", name))).filter(
      (r) => r.kind === "train",
    );
    expect(steps, name).toHaveLength(4);
  }
  using before = await loadRun(join(dir.path, "whole/runs/seed-0/together"));
  using after = await loadRun(join(dir.path, "whole/runs/seed-0/router"));
  const weights = ({ native }: { native: NativeModule }) =>
    Object.entries(native.stateDict()).map(([name, tensor]) => [name, tensor.data()]);
  expect(weights(after.model!)).toEqual(weights(before.model!));
  expect(weights(after.swarm!.router)).not.toEqual(weights(before.swarm!.router));
  for (const control of ["all-on", "all-off"])
    expect(row(`router ${control}`).macroF1).toEqual(row(`together ${control}`).macroF1);
  await sameWhenEvaluated(join(dir.path, "whole"), "router", "all");
  await sameWhenEvaluated(join(dir.path, "whole"), "random", "decided");

  const first = { ...tiny(join(dir.path, "whole")), seeds: 1 };
  const one = await report(first);
  expect(one.rows[0]!.macroF1).toEqual({
    mean: whole.rows[0]!.macroF1.values[0],
    half: null,
    values: expect.anything(),
  });
  const broken = { ...first, out: join(dir.path, "broken") };
  for (const key of ["specialist-people", "together", "router", "alone-all"]) {
    const controller = new AbortController();
    const interrupted = report({
      ...broken,
      signal: controller.signal,
      onNote: (text) => text === `seed-0/${key} …` && controller.abort(),
    });
    await expect(interrupted, key).rejects.toMatchObject({ code: "ERR_ABORTED" });
  }
  expect(await report(broken)).toEqual(one);
  // A result that was lost comes again from the weights that are there.
  await rm(join(broken.out, "cells/seed-0/router.json"));
  expect(await report(broken)).toEqual(one);

  await writeParlReport(broken.out, whole);
  expect(JSON.parse(await readFile(join(broken.out, "report.json"), "utf8"))).toEqual(whole);
  expect(await readFile(join(broken.out, "report.md"), "utf8")).toContain("| trained together: learned |");
  for (const name of ["frontier-together-work", "frontier-router-steps", "curves-router"])
    expect(await readFile(join(broken.out, `${name}.svg`), "utf8")).toContain("<polyline");
  expect(parlText(whole)).toContain("At equal work the learned router is");
  const { macroF1, gain } = whole.rows.find(
    ({ arm, control }) => arm === "together" && control === "learned",
  )!;
  const last = parlText(whole).split("\n").at(-1)!;
  expect(last).toContain(`The swarm trained together has macro F1 ${(100 * macroF1.mean).toFixed(1)} where`);
  expect(last).toContain(
    `${(100 * Math.abs(gain.mean)).toFixed(1)} points ${gain.mean < 0 ? "less" : "more"}`,
  );
}, 240_000);

test("bad input is refused before anything is made", async () => {
  await using dir = await folder();
  const out = join(dir.path, "experiment");
  const cases: [change: Partial<ParlExperiment>, message: RegExp][] = [
    [{ seeds: 0 }, /seeds: expected a whole number from 1, got 0/],
    [{ specialists: [] }, /specialists: expected at least one/],
    [{ specialists: [...tiny(out).specialists, { id: "people", kind: "group" }] }, /'people' is given twice/],
    [
      { specialists: Array.from({ length: 9 }, (_, i) => ({ id: `s${i}`, kind: "group" }) as const) },
      /at most 8.*got 9/,
    ],
    [{ specialists: [{ id: "a", kind: "run", run: join(dir.path, "none") }] }, /none: no such run folder/],
    [{ source: () => folderSource(join(dir.path, "no-data")) }, /no-data/],
  ];
  for (const [change, message] of cases) {
    await expect(runParlExperiment({ ...tiny(out), ...change })).rejects.toThrow(message);
  }
  await expect(readFile(join(out, "experiment.json"))).rejects.toThrow(/ENOENT/);
});
