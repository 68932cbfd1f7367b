import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { MetricsLog, readMetrics } from "../../lib/train/metricsLog.js";
import { Meter, type Progress } from "../../lib/train/progress.js";

describe("metrics log", () => {
  let dir: string;
  let path: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), "aegir-metrics-"));
    path = join(dir, "metrics.jsonl");
  });
  afterEach(() => rm(dir, { recursive: true }));

  test("rewinding to a checkpoint's size drops what came after it", async () => {
    const log = new MetricsLog(path);
    log.write({ kind: "train", step: 1, loss: 2.5 });
    const size = await log.flush();
    log.write({ kind: "train", step: 2, loss: Number.NaN });
    await log.flush();
    expect((await readMetrics(path))[1]).toEqual({ kind: "train", step: 2, loss: "NaN" });
    const resumed = new MetricsLog(path);
    await resumed.rewind(size);
    resumed.write({ kind: "train", step: 2, loss: 2 });
    await resumed.flush();
    expect(await readFile(path, "utf8")).toBe(
      '{"kind":"train","step":1,"loss":2.5}\n{"kind":"train","step":2,"loss":2}\n',
    );
  });

  test("a log shorter than the checkpoint says, or not JSON, is refused", async () => {
    await expect(new MetricsLog(path).rewind(10)).rejects.toMatchObject({ code: "ERR_CHECKPOINT" });
    await writeFile(path, '{"kind":"a","step":0}\nnot json\n');
    await expect(readMetrics(path)).rejects.toThrow(/line 2 is not JSON/);
  });
});

describe("meter", () => {
  test("rate and time left come from the clock", () => {
    let now = 0;
    const seen: Progress[] = [];
    const meter = new Meter(
      "router",
      10,
      (progress) => seen.push(progress),
      () => now,
    );
    meter.report(0);
    now = 500;
    meter.report(1, { loss: 3 });
    now = 1000;
    meter.report(2);
    expect(seen[2]).toMatchObject({ step: 2, total: 10, perSecond: 2, secondsLeft: 4, figures: { loss: 3 } });
    expect(seen[0]!.secondsLeft).toBe(Number.POSITIVE_INFINITY);
  });
});
