import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { selectColumns } from "../../lib/data/dataset.js";
import { generateDataset } from "../../lib/data/generator.js";
import type { Dataset } from "../../lib/data/types.js";
import { type MetricRecord, readMetrics } from "../../lib/train/metricsLog.js";
import type { ParlRun, SpecialistSource } from "../../lib/train/parl.js";
import { type SupervisedRun, trainSupervised } from "../../lib/train/supervised.js";

export const tinyModel = { archLayout: ["w1", ["w1"], "w1"] as const, dModel: 32, headSize: 16 };
export const shortColumns = { maxTokens: 32, maxContext: 1, targetCells: 3 };

/** A few generated tables; every label occurs in training. */
export async function tinyDataset(): Promise<Dataset> {
  return generateDataset({ seed: 3, tables: 90, rows: 6, validation: 0.2, test: 0.2 });
}

export interface TinySwarm {
  dataset: Dataset;
  specialists: SpecialistSource[];
  /** A short PARL run of theirs; the primary is a new one. */
  run: ParlRun;
  dispose(): void;
}

/** Two specialists, each trained a little on one domain of the tiny data set. */
export async function tinySwarm(): Promise<TinySwarm> {
  const dataset = await tinyDataset();
  const specialists: SpecialistSource[] = [];
  for (const id of ["people", "technical"]) {
    const own = selectColumns(dataset, id, (column) => column.domain === id);
    const { model, serialiser } = await trainSupervised({
      dataset: own,
      model: tinyModel,
      serialise: shortColumns,
      steps: 8,
      batchRows: 16,
      seed: 5,
    });
    specialists.push({ id, model, serialiser });
  }
  const run: ParlRun = {
    dataset,
    specialists,
    steps: 12,
    batchRows: 12,
    phaseSteps: 3,
    validateEvery: 6,
    saveEvery: 5,
    seed: 2,
    epochs: 2,
    task: "tiny",
  };
  const dispose = () => {
    for (const { model } of specialists) model.dispose();
  };
  return { dataset, specialists, run, dispose };
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
