import { setImmediate } from "node:timers/promises";
import { labelsWithoutTraining } from "../data/dataset.js";
import type { Serialiser } from "../data/serialise.js";
import type { ColumnRef, Dataset, EncodedExample, LabelledColumn, Split } from "../data/types.js";
import { AegirError } from "../errors.js";
import type { LabelledRef } from "../specialists/index.js";

/** Columns encoded between two turns of the event loop. */
const CHUNK = 32;

/**
 * Encodes labelled columns with the class ids of `labels`, in their order, without holding the event loop up.
 * @throws AegirError ERR_DATA for a label that is not among `labels`
 */
export async function encodeColumns(
  serialiser: Serialiser,
  dataset: Dataset,
  columns: readonly LabelledColumn[],
  labels: readonly string[],
  epoch = 0,
): Promise<EncodedExample[]> {
  const classOf = new Map(labels.map((label, id) => [label, id]));
  const examples: EncodedExample[] = [];
  for (const [i, column] of columns.entries()) {
    if (i % CHUNK === CHUNK - 1) await setImmediate();
    examples.push(serialiser.encodeLabelled(dataset, column, classOf, epoch));
  }
  return examples;
}

/** The labels that a model of this data set learns: those with a training column. */
export function trainableLabels(dataset: Dataset): string[] {
  const absent = new Set(labelsWithoutTraining(dataset));
  return dataset.labels.filter((label) => !absent.has(label));
}

/**
 * The columns of a split whose labels a model knows.
 * @param unknown "error" (default), or "skip" to leave columns of other labels out
 * @param advice what to do about labels that training had no column of
 * @throws AegirError ERR_DATA naming these labels, or where no column is left
 */
export function knownColumns(
  dataset: Dataset,
  split: Split,
  labels: readonly string[],
  unknown: "error" | "skip" = "error",
  advice = 'skip them (unknownLabels: "skip", --unknown-labels skip) or train with them',
): { columns: LabelledColumn[]; skipped: number } {
  const known = new Set(labels);
  const all = dataset.splits[split];
  const columns = all.filter((column) => known.has(column.label));
  const skipped = all.length - columns.length;
  if (skipped > 0 && unknown === "error") {
    const names = [...new Set(all.map((column) => column.label).filter((label) => !known.has(label)))];
    const shown = names.slice(0, 5).join(", ") + (names.length > 5 ? ` and ${names.length - 5} more` : "");
    throw new AegirError(
      "ERR_DATA",
      `${dataset.name}, ${split}: ${skipped} of ${all.length} columns have labels that were absent from training ` +
        `(${shown}); ${advice}`,
    );
  }
  if (columns.length === 0) {
    const why = all.length === 0 ? "no labelled column" : "no labelled column with a known label";
    const cure = split === "train" ? "" : "; label columns of more tables, or name their split in labels.csv";
    throw new AegirError("ERR_DATA", `${dataset.name}, ${split}: ${why}${cure}`);
  }
  return { columns, skipped };
}

/** The validation columns that a training is judged by. @throws AegirError ERR_DATA as `knownColumns` */
export function validationColumns(
  dataset: Dataset,
  labels: readonly string[],
  limit: number,
): LabelledColumn[] {
  const advice = "label a training column of each, or take these columns out of the validation split";
  return thin(knownColumns(dataset, "validation", labels, "error", advice).columns, limit);
}

/** At most `limit` items, evenly spaced. */
export function thin<T>(items: readonly T[], limit: number): T[] {
  if (!(limit >= 1 && (Number.isInteger(limit) || limit === Number.POSITIVE_INFINITY)))
    throw new AegirError("ERR_CONFIG", `limit: expected a whole number from 1, got ${limit}`);
  if (items.length <= limit) return [...items];
  return Array.from({ length: limit }, (_, i) => items[Math.floor((i * items.length) / limit)]!);
}

/** Encodes columns without labels, without holding the event loop up. */
export async function encodeTargets(
  serialiser: Serialiser,
  targets: readonly ColumnRef[],
  epoch = 0,
): Promise<EncodedExample[]> {
  const examples: EncodedExample[] = [];
  for (const [i, target] of targets.entries()) {
    if (i % CHUNK === CHUNK - 1) await setImmediate();
    examples.push(serialiser.encode(target.table, target, -1, epoch));
  }
  return examples;
}

/** Encodes columns with labels of any table, with the class ids of `labels`. */
export async function encodeRefs(
  serialiser: Serialiser,
  columns: readonly LabelledRef[],
  labels: readonly string[],
  epoch = 0,
): Promise<EncodedExample[]> {
  const classOf = new Map(labels.map((label, id) => [label, id]));
  const examples = await encodeTargets(serialiser, columns, epoch);
  return examples.map((example, i) => ({ ...example, label: classOf.get(columns[i]!.label)! }));
}
