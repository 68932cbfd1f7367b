import type { NativeLane, NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";

/** A loss as a weighted sum of scalars. */
export interface WeightedLosses {
  losses: NativeTensor[];
  weights: number[];
}

/** The ratio loss of the routing modules; nothing for a flat layout, which has none. */
export function ratioTerm(
  output: { ratioLoss: NativeTensor; boundaryRates: number[] },
  weight: number,
): WeightedLosses {
  return output.boundaryRates.length > 0
    ? { losses: [output.ratioLoss], weights: [weight] }
    : { losses: [], weights: [] };
}

/** Backward of the sum of all parts, in one call. */
export async function backward(lane: NativeLane, parts: (WeightedLosses | null)[]): Promise<void> {
  const losses = parts.flatMap((part) => part?.losses ?? []);
  const weights = parts.flatMap((part) => part?.weights ?? []);
  await native().backward(lane, losses, weights);
}
