import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { AegirError } from "../../lib/errors.js";
import type { Cell } from "../../lib/experiment/cells.js";
import { openExperiment } from "../../lib/experiment/folder.js";
import { Forecast } from "../../lib/experiment/forecast.js";
import { runCells } from "../../lib/experiment/runCells.js";
import type { Progress } from "../../lib/train/progress.js";
import { folder } from "../train/support.js";

/** Three cells in a row and one beside them; `ran` says what ran. */
function cells(ran: string[], run: (key: string) => unknown = (key) => key.length): Cell[] {
  const cell = (key: string, ...needs: string[]): Cell => ({
    key,
    needs,
    cost: 1,
    run: async () => {
      ran.push(key);
      return run(key);
    },
  });
  return [cell("seed-0/c", "seed-0/b"), cell("seed-0/b", "seed-0/a"), cell("seed-0/a"), cell("seed-0/other")];
}

const experiment = { kind: "test", options: { steps: 3, arms: ["a", "b"] } };

test("cells run once, each after those it needs, and a second run finds them done", async () => {
  await using dir = await folder();
  const out = join(dir.path, "experiment");
  for (const jobs of [1, 3]) {
    const ran: string[] = [];
    const { store, close } = await openExperiment(out, experiment);
    const records = await runCells(cells(ran), store, { task: "test", jobs });
    await close();
    if (jobs === 1) {
      expect(ran).toHaveLength(4);
      expect(ran.indexOf("seed-0/a")).toBeLessThan(ran.indexOf("seed-0/b"));
      expect(ran.indexOf("seed-0/b")).toBeLessThan(ran.indexOf("seed-0/c"));
    } else expect(ran).toEqual([]);
    expect(records.get("seed-0/c")).toMatchObject({ done: true, result: 8 });
  }
});

test("an error ends the run, keeps what is done and comes again; an abort says how to go on", async () => {
  await using dir = await folder();
  const { store, close } = await openExperiment(join(dir.path, "experiment"), experiment);
  const ran: string[] = [];
  const broken = cells(ran, (key) => {
    if (key === "seed-0/b") throw new AegirError("ERR_DATA", "no columns");
    return 1;
  });
  await expect(runCells(broken, store, { task: "test" })).rejects.toThrow("no columns");
  expect(await store.read("seed-0/a")).toMatchObject({ done: true });
  expect(await store.read("seed-0/b")).toMatchObject({ done: false, result: null });
  await store.write("seed-0/empty", { done: true, seconds: 1, cpuSeconds: 1, result: null });
  await expect(store.read("seed-0/empty")).rejects.toThrow(/empty\.json is no result of a cell/);

  const controller = new AbortController();
  const interrupting = cells([], () => {
    controller.abort();
    return 0;
  });
  const aborted = runCells(interrupting, store, { task: "test", signal: controller.signal });
  await expect(aborted).rejects.toMatchObject({
    code: "ERR_ABORTED",
    message: expect.stringContaining("the same command continues"),
  });
  const rest: string[] = [];
  await runCells(cells(rest), store, { task: "test" });
  expect(rest).not.toContain("seed-0/a");
  await close();
});

test("progress grows to all and forecasts from what is done", async () => {
  await using dir = await folder();
  const { store, close } = await openExperiment(join(dir.path, "experiment"), experiment);
  const seen: Progress[] = [];
  const waiting = cells([], () => new Promise((resolve) => setTimeout(resolve, 20)));
  await runCells(waiting, store, { task: "test", onProgress: (progress) => seen.push(progress) });
  await close();
  expect(seen[0]).toMatchObject({ task: "test", step: 0, total: 100, secondsLeft: Number.POSITIVE_INFINITY });
  const steps = seen.map(({ step }) => step);
  expect(steps).toEqual([...steps].sort((a, b) => a - b));
  expect(seen.at(-1)).toMatchObject({ step: 100, secondsLeft: 0 });
  const second = seen.find(({ step }) => step === 25)!;
  expect(second.secondsLeft).toBeGreaterThan(0.03);
  expect(second.secondsLeft).toBeLessThan(2);
});

test("an interrupted cell goes on from where its progress stood", () => {
  let now = 0;
  const all = cells([]);
  const done = { done: true, seconds: 10, cpuSeconds: 10, result: 1 };
  const forecast = new Forecast(all, new Map([["seed-0/a", done]]), "test", 1, () => now);
  expect(forecast.progress()).toMatchObject({ step: 25, secondsLeft: 30 });
  forecast.begin("seed-0/b", 6);
  expect(forecast.progress()).toMatchObject({ step: 40, secondsLeft: 24 });
  now = 4;
  expect(forecast.end("seed-0/b")).toMatchObject({ seconds: 4 });
  expect(forecast.progress()).toMatchObject({ step: 50, secondsLeft: 20 });
});

test("a folder with other options, other files or a damaged result is refused by name", async () => {
  await using dir = await folder();
  const out = join(dir.path, "experiment");
  const { store, close } = await openExperiment(out, experiment);
  await expect(openExperiment(out, experiment)).rejects.toMatchObject({ code: "ERR_CONFIG" });
  await store.write("a", { done: true, seconds: 1, cpuSeconds: 1, result: 2 });
  await close();
  const other = { kind: "test", options: { steps: 4, arms: ["a", "b"] } };
  await expect(openExperiment(out, other)).rejects.toThrow(/options\.steps is 3 there, 4 here/);
  await expect(openExperiment(dir.path, experiment)).rejects.toThrow(/already holds files/);
  await expect(openExperiment("", experiment)).rejects.toThrow(/--out/);
  await writeFile(store.path("a"), (await readFile(store.path("a"), "utf8")).slice(0, 10));
  await expect(store.read("a")).rejects.toMatchObject({ code: "ERR_CHECKPOINT" });
  const lost: Cell = { key: "x", needs: ["y"], cost: 1, run: async () => 1 };
  await expect(runCells([lost], store, { task: "test" })).rejects.toThrow(/needs y/);
  await expect(runCells([], store, { task: "test", jobs: 0 })).rejects.toThrow(
    /jobs: expected a whole number from 1, got 0/,
  );
});
