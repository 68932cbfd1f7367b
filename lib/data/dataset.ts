import { AegirError } from "../errors.js";
import type { Dataset, LabelledColumn, Split } from "./types.js";

export const SPLITS: readonly Split[] = ["train", "validation", "test"];

/**
 * The data set of the labelled columns that pass, for instance one domain or one label family: what a specialist is trained on. Tables
 * are shared with the original; its labels are those that remain, sorted, so class ids differ from the original's.
 * @throws AegirError ERR_DATA where nothing remains to train on
 */
export function selectColumns(
  dataset: Dataset,
  name: string,
  keep: (column: LabelledColumn) => boolean,
): Dataset {
  const splits: Record<Split, LabelledColumn[]> = { train: [], validation: [], test: [] };
  for (const split of SPLITS) splits[split] = dataset.splits[split].filter(keep);
  if (splits.train.length === 0) {
    throw new AegirError("ERR_DATA", `${dataset.name}: no column to train on is left for '${name}'`);
  }
  const labels = new Set(SPLITS.flatMap((split) => splits[split].map((column) => column.label)));
  return { ...dataset, name, labels: [...labels].sort(), splits };
}

/** Labels that the training split has no column of: a model trained on it cannot know them. */
export function labelsWithoutTraining(dataset: Dataset): string[] {
  const trained = new Set(dataset.splits.train.map((column) => column.label));
  return dataset.labels.filter((label) => !trained.has(label));
}
