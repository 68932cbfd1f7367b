import { AegirError } from "../errors.js";
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

/** Data of which some training sites are kept back from a training. */
export interface HeldOut {
  /** The other sites' columns to train on, the held-out ones to judge by; validation and test tables are its test split. */
  seen: Dataset;
  /** The held-out columns to train on; validation and test as they are. */
  held: Dataset;
}

/**
 * Keeps back a share of the training sites of SOTAB's, of other data the tables: always the same ones of the same data. A site that has the
 * last columns of a label stays.
 * @param share of the sites, within (0, 1)
 * @throws AegirError ERR_CONFIG where nothing would be held out or left
 */
export function holdOutSites(dataset: Dataset, share: number): HeldOut {
  const { train, validation, test } = dataset.splits;
  const labelsOf = new Map<string, string[]>();
  const left = new Map<string, number>();
  for (const { table, label } of train) {
    const site = siteOf(table);
    labelsOf.set(site, [...(labelsOf.get(site) ?? []), label]);
    left.set(label, (left.get(label) ?? 0) + 1);
  }
  const sites = new Random(0, "held-out sites").shuffle([...labelsOf.keys()].sort());
  const wanted = Math.round(share * sites.length);
  const out = new Set<string>();
  for (const site of sites) {
    if (out.size >= wanted) break;
    const own = labelsOf.get(site)!;
    for (const label of own) left.set(label, left.get(label)! - 1);
    if (own.every((label) => left.get(label)! > 0)) out.add(site);
    else for (const label of own) left.set(label, left.get(label)! + 1);
  }
  if (out.size === 0 || out.size === sites.length)
    throw new AegirError(
      "ERR_CONFIG",
      `holdOut: ${share} of ${sites.length} training sites holds out ${out.size}; expected some held out and some left`,
    );
  const part = (held: boolean) => train.filter(({ table }) => out.has(siteOf(table)) === held);
  const seen = { train: part(false), validation: part(true), test: [...validation, ...test] };
  return {
    seen: { ...dataset, splits: seen },
    held: { ...dataset, splits: { train: part(true), validation, test } },
  };
}

/** What a training sees that holds a share of the sites out; all of it where it holds out none. @throws AegirError as holdOutSites */
export function withoutHeldOut(dataset: Dataset, share: number | undefined): Dataset {
  return share === undefined ? dataset : holdOutSites(dataset, share).seen;
}

/**
 * The validation columns in two halves, no site of SOTAB's and no table in both: one to learn on, in place of the training columns, and one
 * to judge by. For what stands on models that know the training columns by heart and cannot be trained again.
 */
export function learnFromValidation(dataset: Dataset, seed: number): Dataset {
  const { validation, test } = dataset.splits;
  const sites = [...new Set(validation.map(({ table }) => siteOf(table)))].sort();
  new Random(seed, "halves").shuffle(sites);
  const learnt = new Set(sites.slice(0, Math.ceil(sites.length / 2)));
  const half = (first: boolean) => validation.filter(({ table }) => learnt.has(siteOf(table)) === first);
  return { ...dataset, splits: { train: half(true), validation: half(false), test } };
}
