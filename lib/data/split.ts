import { Random } from "./random.js";
import type { LabelledColumn, Split } from "./types.js";

/** Splits labelled columns by table, seeded: a table is in one split only, whatever its columns. */
export function splitTables(
  labelled: readonly LabelledColumn[],
  options: { seed: number; validation: number; test: number },
): Record<Split, LabelledColumn[]> {
  const names = [...new Set(labelled.map((column) => column.table))].sort();
  new Random(options.seed, "splits").shuffle(names);
  const held = (part: number) => Math.round(part * names.length);
  const validation = held(options.validation);
  const test = validation + held(options.test);
  const splitOf = new Map<string, Split>();
  for (const [i, name] of names.entries()) {
    splitOf.set(name, i < validation ? "validation" : i < test ? "test" : "train");
  }
  const splits: Record<Split, LabelledColumn[]> = { train: [], validation: [], test: [] };
  for (const column of labelled) splits[splitOf.get(column.table)!].push(column);
  return splits;
}
