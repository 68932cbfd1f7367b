import type { GeneratorOptions } from "../../data/generator.js";
import type { DemoPlan } from "../../train/demo.js";
import { GENERATED, REAL } from "../../train/demoPlan.js";
import type { ParlOptions } from "../../train/parlOptions.js";

/** Sizes of an experiment's trainings; every option that is not named here has its default. */
export interface ParlPlan extends Pick<DemoPlan, "model" | "serialise" | "specialist" | "primary"> {
  /** Of primary, fusion and router together. */
  together: ParlOptions;
  /** Of the router alone. */
  router: ParlOptions;
  /**
   * Columns that are scored at most. Those of validation choose the best weights of the primary alone, and the fixed
   * subset and the confidence that swarms are held against.
   */
  columns: Record<"validation" | "test", number>;
}

/** Nothing else learns, so that its own reward is all that it needs; chosen on validation, as docs/parl.md §8 says. */
const ROUTER_ALONE = { epochs: 4, routerLr: 2e-2, lambdaParallel: 0, lambdaFinish: 0 } satisfies ParlOptions;

/** Generated tables: enough held-out columns that a point of macro F1 means something. */
export function generatedTables(quick: boolean, seed: number): GeneratorOptions {
  return { seed, tables: quick ? 320 : 1000, rows: 10, validation: 0.16, test: 0.3 };
}

export function generatedPlan(quick: boolean): ParlPlan {
  const primary = { steps: quick ? 30 : 200, batchRows: 32, lr: 3e-3 };
  const phaseSteps = quick ? 4 : 8;
  return {
    ...GENERATED,
    specialist: { steps: quick ? 40 : 300, batchRows: 32, lr: 3e-3 },
    primary,
    // Rollouts are dear and the router's updates are not: several passes over each.
    together: { fuse: "states", cost: 0.25, epochs: 4, phaseSteps },
    router: { ...ROUTER_ALONE, cost: 0.25, phaseSteps, steps: quick ? 30 : 150, batchRows: 32 },
    columns: quick ? { validation: 400, test: 400 } : { validation: 1200, test: 1200 },
  };
}

/** Real tables: longer columns, many more labels, rarer each. */
export function realPlan(quick: boolean): ParlPlan {
  const primary = { steps: quick ? 24 : 150, batchRows: 48, lr: 3e-3 };
  const phaseSteps = quick ? 4 : 10;
  return {
    ...REAL,
    specialist: { steps: quick ? 40 : 200, batchRows: 48, lr: 3e-3 },
    primary,
    together: { fuse: "states+outputs", cost: 0.2, epochs: 4, phaseSteps },
    router: { ...ROUTER_ALONE, cost: 0.2, phaseSteps, steps: quick ? 24 : 100, batchRows: 48 },
    columns: { validation: 400, test: quick ? 400 : 1000 },
  };
}
