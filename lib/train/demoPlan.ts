import { FAMILIES, labelFamilies } from "../data/families.js";
import { DOMAIN_NAMES, type GeneratorOptions } from "../data/generator.js";
import type { Dataset } from "../data/types.js";
import type { DemoPlan, SpecialistGroup } from "./demo.js";

/** One specialist a domain of the generated tables. */
export function domainGroups(): SpecialistGroup[] {
  return DOMAIN_NAMES.map((id) => ({ id, keep: (column) => column.domain === id }));
}

/** One specialist a family of labels, of the families that the data has training columns of. */
export function familyGroups(dataset: Dataset): SpecialistGroup[] {
  const families = labelFamilies(dataset);
  const present = new Set(dataset.splits.train.map(({ label }) => families.get(label)));
  return FAMILIES.filter((family) => present.has(family)).map((id) => ({
    id,
    keep: ({ label }) => families.get(label) === id,
  }));
}

/** Tables of the demo: enough test columns that a point of macro F1 means something. */
export function demoTables(quick: boolean, seed: number): GeneratorOptions {
  return { seed, tables: quick ? 320 : 900, rows: 10, validation: 0.08, test: 0.32 };
}

/** Generated tables. Small and flat: on short columns it learns faster than a chunked model of the same size. */
export const GENERATED = {
  model: { archLayout: ["w4"], dModel: 64 },
  serialise: { maxTokens: 64, maxContext: 1, targetCells: 6 },
} satisfies Pick<DemoPlan, "model" | "serialise">;

/** Real tables. Their columns repeat words that n-grams know after a few steps. */
export const REAL = {
  model: {
    archLayout: ["w3"],
    dModel: 64,
    ngrams: { buckets: 32_768, width: 32 },
    pooling: ["mean", "max", "context"],
  },
  serialise: { maxTokens: 96, maxContext: 2, targetCells: 6 },
} satisfies Pick<DemoPlan, "model" | "serialise">;

/** Sizes for generated tables: within eight minutes on two cores, `quick` within ninety seconds. */
export function demoPlan(quick: boolean): DemoPlan {
  const steps = quick ? 24 : 60;
  const batchRows = quick ? 48 : 64;
  return {
    ...GENERATED,
    specialist: { steps: quick ? 40 : 300, batchRows, lr: 3e-3, validateEvery: 60, saveEvery: 60 },
    primary: { steps, batchRows, lr: 3e-3 },
    parl: { cost: 0.25, phaseSteps: quick ? 4 : 8, validateEvery: Math.round(steps / 4), saveEvery: steps },
    testColumns: quick ? 400 : 1000,
  };
}

/** Sizes for real tables: longer columns, many more labels, rarer each. */
export function realPlan(quick: boolean): DemoPlan {
  const steps = quick ? 24 : 150;
  return {
    ...REAL,
    specialist: { steps: quick ? 40 : 200, batchRows: 48, lr: 3e-3, validateEvery: 100, saveEvery: 100 },
    primary: { steps, batchRows: 48, lr: 3e-3 },
    parl: { cost: 0.2, phaseSteps: quick ? 4 : 10, validateEvery: Math.round(steps / 3), saveEvery: steps },
    testColumns: quick ? 400 : 1000,
  };
}
