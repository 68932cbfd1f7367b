import type { ColumnRef, Task } from "../data/types.js";
import type { LinearSpecialist } from "../specialists/index.js";
import { encodeTargets } from "./examples.js";
import type { LoadedRun } from "./loadRun.js";
import { allLogits, columnLogits, type PredictOptions } from "./predict.js";
import { columnSerialiser } from "./specialistRun.js";

/** Whatever says of a column how probable each label is: a loaded run, or a specialist that is no run. */
export type Head = Pick<LoadedRun, "task" | "labels" | "serialiser" | "logitsOf"> & {
  /** Of a run. */
  config?: LoadedRun["config"];
  /** Its run folder, or what else it is called in messages and records. */
  dir: string;
};

export function specialistHead(name: string, task: Task, specialist: LinearSpecialist): Head {
  const { labels } = specialist;
  return { dir: name, task, labels, serialiser: columnSerialiser(), logitsOf: columnLogits(specialist) };
}

/** (columns, classes) row-major: the mean over heads of the same labels of softmax(logits / temperature). @throws AegirError ERR_ABORTED */
export async function meanProbabilities(
  heads: readonly Head[],
  columns: readonly ColumnRef[],
  {
    temperature = 1,
    signal,
    onProgress,
  }: Pick<PredictOptions, "signal" | "onProgress"> & { temperature?: number } = {},
): Promise<Float32Array> {
  const classes = heads[0]!.labels.length;
  const mean = new Float32Array(columns.length * classes);
  for (const { dir, serialiser, logitsOf } of heads) {
    const examples = await encodeTargets(serialiser, columns);
    const task = `answers of ${dir}`;
    const logits = await allLogits(logitsOf, examples, classes, { task, signal, onProgress });
    for (let start = 0; start < logits.length; start += classes) {
      const row = logits.subarray(start, start + classes);
      const top = row.reduce((a, b) => Math.max(a, b));
      const weights = row.map((z) => Math.exp((z - top) / temperature));
      const total = weights.reduce((a, b) => a + b);
      for (const [c, weight] of weights.entries()) mean[start + c]! += weight / total / heads.length;
    }
  }
  return mean;
}
