import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { writeDataset } from "../../lib/data/csvFolder.js";
import { selectColumns } from "../../lib/data/dataset.js";
import { Random } from "../../lib/data/random.js";
import { rewardSvg, rewardText, writeRewardReport } from "../../lib/report/rewardReport.js";
import { evaluationSet } from "../../lib/train/evaluate.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { type SpecialistSource, trainParl } from "../../lib/train/parl.js";
import { checkRewards, type RewardReport } from "../../lib/train/rewardChecks.js";
import { routingTable, type SwarmTable } from "../../lib/train/routingTable.js";
import { cosine, spearman, standardDeviation } from "../../lib/train/statistics.js";
import { trainSupervised } from "../../lib/train/supervised.js";
import { aegir } from "../cli/support.js";
import { useLane } from "../rl/nativeSupport.js";
import { folder, shortColumns, tinyDataset, tinyModel } from "./support.js";

const t = useLane();
const n = 2;
const dModel = 8;

/**
 * 300 columns of which each specialist helps the half that its feature points to; calls to the first fail for a tenth of them.
 * "silent": no specialist changes anything; "helpful": each helps every column.
 */
function madeTable(kind: "apt" | "silent" | "helpful" = "apt"): SwarmTable {
  const rows = 300;
  const random = new Random(7, "checks");
  const features = Array.from({ length: rows * dModel }, () => random.gaussian());
  const logp = Float64Array.from({ length: 4 * rows }, (_, i) => {
    const [code, row] = [Math.floor(i / rows), i % rows];
    let value = -1.2;
    for (let s = 0; s < n && kind !== "silent"; s++)
      if ((code >> s) & 1) value += kind === "helpful" ? 0.5 : features[row * dModel + s]! > 0 ? 0.9 : -1.5;
    return Math.min(value, -0.01);
  });
  const finished = Uint8Array.from(logp, (_, i) =>
    (Math.floor(i / rows) & 1) === 1 && i % 10 === 0 ? 0 : 1,
  );
  const hidden = t.tensor(features, [rows, dModel], "f32");
  return {
    rows,
    numSpecialists: n,
    hidden,
    labels: new Int32Array(rows),
    outcome: { logp, correct: finished, finished },
    intact: new Float64Array(rows).fill(-0.3),
    corrupted: new Float64Array(rows).fill(-3),
    [Symbol.dispose]: () => {},
  };
}

const of = (report: RewardReport, kind: string) => report.checks.filter((each) => each.kind === kind);

describe("reward checks", () => {
  it("rewards that can teach pass gradient and polarity, and every contrast of two", async () => {
    const report = await checkRewards(madeTable(), dModel, t.lane, { samples: 60_000 });
    for (const kind of ["gradient", "polarity"])
      for (const each of of(report, kind))
        expect(each, `${each.of}: ${each.what}`).toMatchObject({ passed: true });
    expect(of(report, "gradient").map(({ of: term }) => term)).toEqual(
      "perf perf perf perf parallel parallel finish finish".split(" "),
    );
    for (const each of of(report, "independence").filter(({ what }) => what.includes("difference")))
      expect(each.passed, each.what).toBe(true);
    expect(report.ladders.length).toBe(7);
    expect(rewardText(report)).toContain("cosine of sampled and exact");
    const again = await checkRewards(madeTable(), dModel, t.lane, { samples: 60_000 });
    expect(again).toEqual(report);
  });

  it("where every specialist always helps, r_perf and r_parallel are at odds, and the report says so", async () => {
    const report = await checkRewards(madeTable("helpful"), dModel, t.lane, { samples: 2000 });
    const between = report.checks.find((each) => each.of === "perf, parallel" && each.most !== undefined)!;
    expect(between.what).toBe("|Spearman| over random routers, negative");
    expect(between.value).toBeGreaterThan(0.5);
  });

  it("specialists that change nothing fail: no gradient, no informative column", async () => {
    const report = await checkRewards(madeTable("silent"), dModel, t.lane, { samples: 2000, routers: 20 });
    expect(report.passed).toBe(false);
    const failed = report.checks.filter((each) => !each.passed).map((each) => `${each.of}: ${each.what}`);
    expect(failed).toContain("perf: share of columns with a range > .05");
    expect(failed).toContain("perf: norm of the gradient");
    expect(rewardSvg(report)).toContain("failed");
    expect(rewardText(report)).toContain("FAILED");
  });
});

it("a trained swarm's table holds what its forward says, and its report is written", async () => {
  await using dir = await folder();
  const dataset = await tinyDataset();
  const specialists: SpecialistSource[] = [];
  for (const id of ["people", "technical"]) {
    const own = selectColumns(dataset, id, (column) => column.domain === id);
    const training = { model: tinyModel, serialise: shortColumns, steps: 8, batchRows: 16, seed: 5 };
    const { model, serialiser } = await trainSupervised({ dataset: own, ...training });
    specialists.push({ id, model, serialiser });
    t.keep(model);
  }
  const out = join(dir.path, "run");
  const training = { steps: 6, batchRows: 12, phaseSteps: 2, validateEvery: 6, seed: 2 };
  (await trainParl({ dataset, specialists, out, ...training }))[Symbol.dispose]();
  using run = await loadRun(out);
  const set = await evaluationSet(dataset, "validation", run.labels, run.serialiser, { limit: 40 });
  using table = await routingTable(run.swarm!, set);
  expect(table.rows).toBe(set.examples.length);
  expect(Math.max(...Array.from(table.outcome.logp))).toBeLessThanOrEqual(0);
  // Its own routing is one of all.
  for (let row = 0; row < table.rows; row++) {
    const all = Array.from({ length: 4 }, (_, g) => table.outcome.logp[g * table.rows + row]!);
    expect(Math.min(...all.map((logp) => Math.abs(logp - table.intact[row]!)))).toBeLessThan(1e-4);
  }
  const report = await checkRewards(table, run.swarm!.router.dModel, t.lane, { samples: 4000, routers: 20 });
  await writeRewardReport(join(dir.path, "checks"), report);
  expect(JSON.parse(await readFile(join(dir.path, "checks", "report.json"), "utf8"))).toEqual(report);
  expect(await readFile(join(dir.path, "checks", "checks.svg"), "utf8")).toContain("ladders");
  const { hidden } = table;
  await expect(
    routingTable(run.swarm!, { ...set, examples: Array(70_000).fill(set.examples[0]) }),
  ).rejects.toThrow(/limit: expected at most 65536 columns/);
  expect(hidden.shape).toEqual([table.rows, 32]);

  await writeDataset(join(dir.path, "tables"), dataset);
  const command = ["rewards", "check", "run", "--data", "tables", "--limit", "40", "--json"];
  const { code, stdout, stderr } = await aegir(command, dir.path);
  expect(stderr).not.toContain("error");
  const printed = JSON.parse(stdout) as RewardReport;
  expect(code).toBe(printed.passed ? 0 : 1);
  expect(printed.columns).toBe(40);
  expect(await readFile(join(out, "rewards-check", "report.md"), "utf8")).toContain("| gradient |");
  const none = await aegir(["rewards", "check", "run/specialists/people", "--data", "tables"], dir.path);
  expect(none).toMatchObject({ code: 1, stderr: expect.stringContaining("has no router") });
});

it("statistics: ranks with ties, directions, deviation", () => {
  expect(spearman([1, 2, 3], [10, 20, 15])).toBeCloseTo(0.5, 12);
  expect(spearman([1, 2, 3, 4], [4, 3, 3, 1])).toBeCloseTo(-0.9487, 4);
  expect(spearman([1, 2], [5, 5])).toBe(0);
  expect(cosine([1, 0], [0, 0])).toBe(0);
  expect(standardDeviation([1, 3])).toBeCloseTo(Math.SQRT2, 12);
});
