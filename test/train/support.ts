import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generateDataset } from "../../lib/data/generator.js";
import type { Dataset } from "../../lib/data/types.js";
import { type MetricRecord, readMetrics } from "../../lib/train/metricsLog.js";
import type { SupervisedRun } from "../../lib/train/supervised.js";

export const tinyModel = { archLayout: ["w1", ["w1"], "w1"] as const, dModel: 32, headSize: 16 };
export const shortColumns = { maxTokens: 32, maxContext: 1, targetCells: 3 };

/** A few generated tables; every label occurs in training. */
export async function tinyDataset(): Promise<Dataset> {
  return generateDataset({ seed: 3, tables: 90, rows: 6, validation: 0.2, test: 0.2 });
}

/** A folder that is removed when the test's block ends: `await using dir = await folder()`. */
export async function folder(): Promise<{ path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), "aegir-train-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** Every record of a run, which holds no clock times: equal runs have equal records. */
export function metricsOf(dir: string): Promise<MetricRecord[]> {
  return readMetrics(join(dir, "metrics.jsonl"));
}

/** A signal that is aborted once `step` steps of a task are done. */
export function abortAt(task: string, step: number): Pick<SupervisedRun, "signal" | "onProgress"> {
  const controller = new AbortController();
  return {
    signal: controller.signal,
    onProgress: (progress) => {
      if (progress.task === task && progress.step >= step) controller.abort();
    },
  };
}
