import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { demoText, writeDemoReport } from "../../lib/report/demoReport.js";
import { annotateTable } from "../../lib/train/annotate.js";
import { runDemo } from "../../lib/train/demo.js";
import { domainGroups } from "../../lib/train/demoPlan.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { folder, metricsOf, shortColumns, tinyDataset, tinyModel } from "./support.js";

test("the demo trains, compares, annotates and leaves runs that load", async () => {
  await using dir = await folder();
  const dataset = await tinyDataset();
  const example = [...dataset.tables.values()].find((table) => table.columns.length >= 3)!;
  const result = await runDemo({
    dataset,
    groups: domainGroups(),
    plan: {
      model: tinyModel,
      serialise: shortColumns,
      specialist: { steps: 3, batchRows: 8 },
      primary: { steps: 4, batchRows: 8, lr: 3e-3 },
      parl: { phaseSteps: 1, validateEvery: 4, saveEvery: 4 },
      testColumns: 40,
    },
    example,
    out: dir.path,
    seed: 0,
  });
  const activation = Object.fromEntries(result.rows.map((row) => [row.name, row.activation]));
  expect(Object.keys(activation)).toHaveLength(8);
  expect(activation["primary alone, same steps"]).toBeNull();
  expect(activation["swarm, states, all specialists on"]).toBe(1);
  expect(activation["swarm, states, all off"]).toBe(0);
  expect(activation["swarm, states, same rates shuffled over columns"]).toBeCloseTo(
    activation["swarm, states fused"]!,
    12,
  );
  for (const { macroF1, microF1 } of result.rows) {
    expect(macroF1).toBeGreaterThanOrEqual(0);
    expect(microF1).toBeLessThanOrEqual(1);
  }
  expect(result.specialists.map(({ id }) => id)).toEqual(["people", "commerce", "technical"]);

  // The primary alone and every swarm take the same number of steps over the same batches.
  for (const name of ["primary-alone", "swarm-states", "swarm-outputs", "swarm-both", "swarm-random"]) {
    const steps = (await metricsOf(join(dir.path, name))).filter((record) => record.kind === "train");
    expect(steps, name).toHaveLength(4);
  }
  using swarm = await loadRun(join(dir.path, "swarm-both"));
  expect(swarm.swarm!.specialists.map(({ id }) => id)).toEqual(["people", "commerce", "technical"]);
  // The demo shows what `annotate` says by the run that it leaves.
  expect(result.annotations).toEqual(await annotateTable(swarm, example));

  await writeDemoReport(dir.path, result);
  expect(JSON.parse(await readFile(join(dir.path, "demo.json"), "utf8")).rows).toEqual(result.rows);
  expect(await readFile(join(dir.path, "summary.md"), "utf8")).toContain("| primary alone, same steps |");
  expect(await readFile(join(dir.path, "curves.svg"), "utf8")).toContain("<polyline");
  expect(demoText(result)).toContain("Critical path");
});
