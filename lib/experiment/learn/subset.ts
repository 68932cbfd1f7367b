import { Random } from "../../data/random.js";
import type { Dataset, LabelledColumn } from "../../data/types.js";
import { AegirError } from "../../errors.js";

/**
 * The data set with so many of its training columns: one of every label, and then any. A smaller subset of the same seed is part of a
 * larger one; validation and test stay whole.
 * @throws AegirError ERR_CONFIG for fewer columns than labels, or more than there are
 */
export function withTrainingColumns(dataset: Dataset, count: number, seed: number): Dataset {
  const { train } = dataset.splits;
  const labels = new Set(train.map(({ label }) => label));
  if (!(Number.isInteger(count) && count >= labels.size && count <= train.length)) {
    throw new AegirError(
      "ERR_CONFIG",
      `curve: expected ${labels.size} columns (one a label) to ${train.length}, got ${count}`,
    );
  }
  const order = new Random(seed, "learning curve").shuffle([...train]);
  const first: LabelledColumn[] = [];
  const rest: LabelledColumn[] = [];
  for (const column of order) (labels.delete(column.label) ? first : rest).push(column);
  const chosen = new Set([...first, ...rest].slice(0, count));
  // In the order of the data set, as all of them would be.
  const splits = { ...dataset.splits, train: train.filter((column) => chosen.has(column)) };
  return { ...dataset, name: `${dataset.name}, ${count} columns`, splits };
}
