import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { generateDataset } from "../../lib/data/generator.js";
import { siteOf } from "../../lib/data/sotab.js";
import type { LabelledColumn } from "../../lib/data/types.js";
import { Datasets } from "../../lib/experiment/datasets.js";
import { hardLabels } from "../../lib/experiment/hardLabels.js";
import type { SystemResult } from "../../lib/experiment/learn/answers.js";
import { type LearnExperiment, runLearnExperiment } from "../../lib/experiment/learn/experiment.js";
import { curveCounts } from "../../lib/experiment/learn/learnCells.js";
import { type LearnPlan, learnPlan } from "../../lib/experiment/learn/plan.js";
import { withTrainingColumns } from "../../lib/experiment/learn/subset.js";
import { type LearnReport, summarise } from "../../lib/experiment/learn/summary.js";
import { confusionChartSvg } from "../../lib/report/confusionChart.js";
import { learnText, writeLearnReport } from "../../lib/report/learnReport.js";
import { withoutHeldOutSites } from "../../lib/specialists/index.js";
import { folderSource, generatedSource, openDataSource } from "../../lib/train/dataSource.js";
import { unlabelledColumns } from "../../lib/train/distill.js";
import { readRunConfig } from "../../lib/train/runFolder.js";
import { SHARED_ABSENT, sharedData } from "../data/shared.js";
import { folder } from "../train/support.js";

function tiny(out: string, change: Partial<LearnExperiment> = {}): LearnExperiment {
  const plan: LearnPlan = { ...learnPlan(true), curve: [80, 100_000] };
  const source = generatedSource({ seed: 3, tables: 90, rows: 6, validation: 0.2, test: 0.2 });
  // Every column of generated tables has a label, and tables are told apart by name: those from the 90th on are new.
  const unlabelled = [generatedSource({ seed: 4, tables: 150, rows: 6 })];
  return { source, unlabelled, seeds: 2, split: "validation", plan, out, ...change };
}

/** Its data, and which training columns have no cell to read. */
async function tinyTraining() {
  const dataset = await new Datasets().get(tiny("").source);
  const emptied = ({ table, column }: LabelledColumn) =>
    dataset.tables.get(table)!.columns[column]!.cells.every((cell) => cell.trim() === "");
  return { dataset, emptied };
}

async function report(experiment: LearnExperiment): Promise<LearnReport> {
  const summary = summarise(experiment, await runLearnExperiment(experiment), "tiny");
  // Times are the only figures that differ between equal runs.
  const systems = summary.systems.map((row) => ({ ...row, cpuMinutes: 0 }));
  const routings = summary.routings.map((row) => ({ ...row, work: { mean: 1, half: null, values: [1] } }));
  return { ...summary, systems, routings, cpuMinutes: 0 };
}

describe("the parts of the learning curve", () => {
  test("are nested, have every label, and leave validation and test alone", async () => {
    const dataset = await generateDataset({ seed: 5, tables: 80, rows: 4 });
    const { train } = dataset.splits;
    const labels = new Set(train.map(({ label }) => label));
    const sizes = [labels.size, labels.size + 10, train.length - 1, train.length];
    const parts = sizes.map((size) => withTrainingColumns(dataset, size, 7));
    for (const [i, { splits }] of parts.entries()) {
      expect(splits.train).toHaveLength(sizes[i]!);
      expect(new Set(splits.train.map(({ label }) => label))).toEqual(labels);
      expect(splits.validation).toBe(dataset.splits.validation);
      expect(splits.test).toBe(dataset.splits.test);
      const within = new Set(parts[i + 1]?.splits.train ?? train);
      expect(splits.train.every((column) => within.has(column))).toBe(true);
    }
    const again = withTrainingColumns(dataset, sizes[1]!, 7).splits.train;
    expect(again).toEqual(parts[1]!.splits.train);
    expect(withTrainingColumns(dataset, sizes[1]!, 8).splits.train).not.toEqual(again);
    for (const size of [labels.size - 1, train.length + 1, sizes[1]! + 0.5])
      expect(() => withTrainingColumns(dataset, size, 7)).toThrow(
        new RegExp(`curve: expected ${labels.size} columns .* to ${train.length}, got ${size}`),
      );
  });
});

test("the whole experiment, and that an interruption changes nothing of its report", async () => {
  await using dir = await folder();
  const out = join(dir.path, "whole");
  const whole = await report(tiny(out));
  expect(whole.systems.map(({ system }) => system)).toEqual([
    "TF-IDF, own",
    "TF-IDF, context",
    "TF-IDF, context, τ",
    "stacked specialist",
    "net, labels alone",
    "net, labels alone, 2 together",
    "net, distilled",
    "net, distilled, 2 together",
    "swarm",
    "swarm that pays for time",
  ]);
  const row = (system: string) => whole.systems.find((each) => each.system === system)!;
  expect(row("net, distilled").macro.values).toHaveLength(2);
  expect(row("net, distilled, 2 together").macro.values).toHaveLength(1);
  expect(row("net, distilled, 2 together").parameters).toBe(2 * row("net, distilled").parameters);
  expect(row("TF-IDF, context, τ").macro.mean).toBeGreaterThan(0.3);
  for (const { micro, macro, hard } of whole.systems)
    for (const value of [...micro.values, ...macro.values, ...hard.values]) {
      expect(value).toBeGreaterThanOrEqual(0);
      expect(value).toBeLessThanOrEqual(1);
    }
  // The router's line is the swarm's, whose columns are in the order of the data set.
  const { dataset: data } = await tinyTraining();
  const records = await runLearnExperiment(tiny(out));
  const judged = records.records.get("seed-1/swarm")!.result as SystemResult;
  expect(judged.truth).toEqual(data.splits.validation.map(({ label }) => data.labels.indexOf(label)));
  expect(row("swarm").tau).not.toBeNull();
  // Whatever answers while the swarm learns, and its primary, held out the same sites.
  const { holdOut } = tiny(out).plan.standIn;
  for (const run of ["stand-ins/ngram", "stand-ins/stacked", "seed-1/stand-in", "seed-1/primary"])
    expect((await readRunConfig(join(out, "runs", run))).options.holdOut, run).toBe(holdOut);
  const { options, standIns } = await readRunConfig(join(out, "runs", "seed-1/swarm"));
  expect(options).toMatchObject({ learnFrom: "held-out", holdOut });
  expect(standIns!.map(({ id }) => id)).toEqual(["ngram", "stacked", "net"]);
  const routing = (name: string) => whole.routings.find((each) => each.routing === name)!;
  expect(whole.routings).toHaveLength(10);
  const { options: priced } = await readRunConfig(join(out, "runs", "seed-1/swarm-by-time"));
  expect(priced).toMatchObject({ ...options, ...tiny(out).plan.swarm.byTime });
  expect(options).not.toHaveProperty("prices");
  expect(routing("the router's").macro).toEqual(row("swarm").macro);
  const work = (name: string) => judged.routings![name]!.work;
  expect([work("all on"), work("all off")]).toEqual([expect.closeTo(1, 9), 0]);
  expect(routing("all on").rates).toEqual({ ngram: 1, stacked: 1, net: 1 });
  expect(row("stacked specialist").macro.mean).toBeGreaterThan(0.3);
  expect(row("stacked specialist").macro.values[0]).toBe(row("stacked specialist").macro.values[1]);
  const { rates } = routing("the router's, of other columns");
  for (const [id, rate] of Object.entries(routing("the router's").rates))
    expect(rates[id]).toBeCloseTo(rate, 9);
  // The linear specialists know more than a net of twelve steps.
  expect(routing("all on").macro.mean).toBeGreaterThan(routing("all off").macro.mean + 0.1);
  const [ablation] = whole.ablations as [LearnReport["ablations"][number]];
  expect(ablation.difference).toBeCloseTo(
    ablation.scores.macro.mean - row("net, labels alone").macro.values[0]!,
    12,
  );
  expect((await readRunConfig(join(out, "runs/ablations/contrastive-pretraining-before/labels"))).init).toBe(
    join(out, "runs/ablations/contrastive-pretraining-before/pretrained"),
  );
  // A count of more columns than there are is no point of its own; the last point is the main table's first seed.
  expect([...new Set(whole.curve.map(({ columns }) => columns))]).toEqual([80, whole.trainColumns]);
  const last = whole.curve.find((p) => p.columns === whole.trainColumns && p.system === "net, distilled")!;
  expect(last.macro).toBe(row("net, distilled").macro.values[0]);

  // The columns of the curve that lose their labels are read without them.
  const columnsOf = async (run: string) =>
    (await readRunConfig(join(out, "runs", run))).distill!.columns as number;
  const { dataset, emptied } = await tinyTraining();
  const fewer = withTrainingColumns(dataset, 80, 0).splits.train;
  const lost = dataset.splits.train.filter((column) => !fewer.includes(column) && !emptied(column));
  expect(await columnsOf("curve-80/distilled")).toBe((await columnsOf("seed-0/distilled")) + lost.length);

  const broken = tiny(join(dir.path, "broken"), { seeds: 1 });
  const one = await report({ ...broken, out: join(dir.path, "one") });
  for (const key of [
    "baselines",
    "specialists",
    "seed-0/labels",
    "seed-0/distilled",
    "seed-0/stand-in",
    "seed-0/primary",
    "seed-0/swarm",
    "seed-0/swarm-by-time",
    "curve-80/distilled",
  ]) {
    const controller = new AbortController();
    const interrupted = report({
      ...broken,
      signal: controller.signal,
      onNote: (text) => text === `${key} …` && controller.abort(),
    });
    await expect(interrupted, key).rejects.toMatchObject({ code: "ERR_ABORTED" });
  }
  expect(await report(broken)).toEqual(one);
  // More seeds and the test split are added to what is there.
  const more = await report({ ...broken, seeds: 2 });
  expect(more).toEqual(whole);
  const started: string[] = [];
  const tested = await report({ ...broken, seeds: 2, split: "test", onNote: (text) => started.push(text) });
  expect(started.filter((text) => text.endsWith("…")).every((text) => text.startsWith("test/"))).toBe(true);
  expect(tested.systems.map(({ system }) => system)).toEqual(whole.systems.map(({ system }) => system));
  expect(tested.systems).not.toEqual(whole.systems);
  expect(tested.ablations).toEqual(whole.ablations);

  await writeLearnReport(broken.out, whole);
  expect(JSON.parse(await readFile(join(broken.out, "report.json"), "utf8"))).toEqual(whole);
  const markdown = await readFile(join(broken.out, "report.md"), "utf8");
  for (const part of ["| net, distilled, 2 together |", "| no context columns |", "![confusions-2]"])
    expect(markdown).toContain(part);
  for (const name of ["learning-curve", "confusions-1", "confusions-2"])
    expect(await readFile(join(broken.out, `${name}.svg`), "utf8")).toContain("</svg>");
  expect(learnText(whole)).toContain("Most frequent confusions");
}, 240_000);

test("points of the curve come once each and rise, however they are given", () => {
  expect(curveCounts({ curve: [500, 1000, 250, 500, 4000, 3303] }, 3303)).toEqual([250, 500, 1000]);
});

test("bad input is refused before anything is made", async () => {
  await using dir = await folder();
  const out = join(dir.path, "experiment");
  const cases: [change: Partial<LearnExperiment>, message: RegExp][] = [
    [{ seeds: 1.5 }, /seeds: expected a whole number from 1, got 1\.5/],
    [{ source: folderSource(join(dir.path, "no-data")) }, /no-data: no such folder/],
    [
      { plan: { ...tiny(out).plan, curve: [3] } },
      /curve: expected \d+ columns \(one a label\) to \d+, got 3/,
    ],
  ];
  for (const [change, message] of cases)
    await expect(runLearnExperiment(tiny(out, change))).rejects.toThrow(message);
  expect(existsSync(out)).toBe(false);
});

test("hard labels: the known ones that occur, else the quarter with the lowest F1", () => {
  const of = (labels: string[], truth: number[], predicted: number[]) =>
    hardLabels({ labels, truth, predicted });
  expect(of(["Brand", "Date"], [0, 1], [0, 1])).toEqual(["Brand"]);
  expect(of(["a", "b", "c", "d"], [0, 1, 2, 3, 3], [0, 1, 1, 3, 3])).toEqual(["c"]);
});

test("a confusion picture shows the classes with the most errors, and counts them", () => {
  const labels = ["a", "b & c", "d", "never"];
  const svg = confusionChartSvg({
    title: "t",
    labels,
    truth: [0, 1, 1, 2],
    predicted: [0, 0, 1, 2],
    most: 2,
  });
  expect(svg).toContain("b &amp; c taken for a: 1 of 2");
  expect(svg).toContain("a taken for a: 1 of 1");
  expect(svg).not.toContain("d taken for d");
  expect(svg).not.toContain("never");
});

/** Of the real tables, where they lie beside the repository. */
test("no held-out table or site of SOTAB teaches, or is read without labels", async ({ skip }) => {
  const shared = sharedData("sotab_v2") ?? skip(SHARED_ABSENT);
  const dataset = await openDataSource(folderSource(shared, "cta"));
  const cpa = await openDataSource(folderSource(shared, "cpa"));
  const { train, validation, test: tested } = dataset.splits;
  const held = new Set([...validation, ...tested].flatMap(({ table }) => [table, siteOf(table)]));
  const heldOut = (name: string) => held.has(name) || held.has(siteOf(name));
  const columns = unlabelledColumns(dataset, [...dataset.tables.values(), ...cpa.tables.values()]);
  expect(columns.length).toBeGreaterThan(1000);
  expect(columns.filter(({ table }) => heldOut(table.name))).toEqual([]);
  const taught = withoutHeldOutSites(cpa, dataset);
  expect(taught.length).toBeGreaterThan(1000);
  expect(taught.filter(({ table }) => heldOut(table.name))).toEqual([]);
  expect(train.filter(({ table }) => held.has(table))).toEqual([]);
}, 60_000);
