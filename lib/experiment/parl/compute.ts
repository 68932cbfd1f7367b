import type { NativeModule } from "../../native/contract.js";
import { routingPhase } from "../../rl/schedules.js";
import { enumerates, type ParlSettings } from "../../train/parlOptions.js";
import { enumerateActions } from "../../train/routingDraws.js";

/**
 * Computation in forwards of the primary over one column. Backward costs twice a forward, so a training step on a column counts 3.
 * Multiply-adds a token are the entries of a backbone's matrices; columns count alike, for every arm reads the same.
 */
export const TRAINED_COLUMN = 3;

/** Multiply-adds a token: entries of the matrices of the backbone. */
export function multiplyAdds(module: NativeModule): number {
  return module
    .parameters()
    .filter(({ name, shape }) => name.startsWith("backbone.") && shape.length === 2)
    .reduce((sum, { shape }) => sum + shape[0]! * shape[1]!, 0);
}

/**
 * What a PARL training takes, in forwards of its primary: the pathwise steps, the rollouts, and one run of every specialist over the
 * training columns. Validations, which every arm has, router and fusion are left out.
 * @param specialistCosts (n) multiply-adds of each specialist by those of the primary
 */
export function parlCompute(
  options: ParlSettings,
  { specialistCosts, trainColumns }: { specialistCosts: readonly number[]; trainColumns: number },
): number {
  const n = specialistCosts.length;
  const { steps, batchRows, accumulate, freezePrimary, routingWarmup, phaseSteps, keepSingle, maxCap } =
    options;
  const from = freezePrimary ? 0 : Math.round(steps * routingWarmup);
  const all = enumerates(options, n);
  let columns = freezePrimary ? 0 : TRAINED_COLUMN * steps;
  for (let step = 0; step < steps - from; step++) {
    const { cap } = routingPhase(step, {
      period: phaseSteps,
      totalSteps: steps - from,
      numSpecialists: n,
      maxCap,
      keepSingle,
    });
    columns += all ? enumerateActions(n, cap).count : options.rollouts;
  }
  const filled = specialistCosts.reduce((sum, cost) => sum + cost * trainColumns, 0);
  return columns * batchRows * accumulate + filled;
}
