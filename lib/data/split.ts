import { Random } from "./random.js";
import { siteOf } from "./sotab.js";
import type { Dataset, LabelledColumn, Split } from "./types.js";

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

/**
 * The validation columns in two halves, no site of SOTAB's and no table in both: one to learn on, in place of the training columns, and one
 * to judge by. For what stands on models that know the training columns by heart.
 * @param rest the halves change places
 */
export function learnFromValidation(dataset: Dataset, seed: number, rest = false): Dataset {
  const { validation, test } = dataset.splits;
  const sites = [...new Set(validation.map(({ table }) => siteOf(table)))].sort();
  new Random(seed, "halves").shuffle(sites);
  const learnt = new Set(sites.slice(0, Math.ceil(sites.length / 2)));
  const half = (first: boolean) => validation.filter(({ table }) => learnt.has(siteOf(table)) === first);
  return { ...dataset, splits: { train: half(!rest), validation: half(rest), test } };
}
