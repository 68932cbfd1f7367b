import { type Baseline, batchAdvantages } from "../rl/advantages.js";
import { activationCost } from "../rl/rewards.js";
import { activated } from "./routingDraws.js";

export interface Rollouts {
  /** (G,R,n): G routings of each of R rows. */
  actions: Uint8Array;
  rows: number;
  numSpecialists: number;
  /** (G,R) r_perf of each. */
  perf: ArrayLike<number>;
  /**
   * (G,R) probability of each routing, rows summing to 1, where the G routings are all that there are; absent: they are
   * independent draws.
   */
  probabilities?: ArrayLike<number>;
}

export interface RolloutRewards {
  /** (G,R) */
  advantages: Float64Array;
  /** Expected r_perf minus cost of the policy, over the rows. */
  reward: number;
  perf: number;
  cost: number;
  /** Share of rows whose rollouts differ in r_perf by more than .05: those that teach the router. */
  informative: number;
}

/** Range of r_perf from which a group of rollouts counts as informative (docs/rl.md §5). */
const INFORMATIVE_RANGE = 0.05;

/**
 * Rewards r_perf − c·|a|/n of rollouts, and their advantages within each row: against the mean of the other draws (RLOO)
 * or another baseline, or, where all routings are enumerated, against their exact expectation. Terms that are equal for
 * all rollouts of a row (r_parallel, r_finish) cancel here and reach the router as differentiable terms instead.
 */
export function rolloutRewards(
  rollouts: Rollouts,
  costCoefficient: number,
  baseline: Baseline,
): RolloutRewards {
  const { actions, rows, numSpecialists: n, perf, probabilities } = rollouts;
  const draws = perf.length / rows;
  const weight = (i: number) => (probabilities ? probabilities[i]! : 1 / draws);
  const rewards = Float64Array.from(
    { length: perf.length },
    (_, i) => perf[i]! - activationCost(activated(actions, i, n), n, costCoefficient),
  );
  let reward = 0;
  let meanPerf = 0;
  for (let i = 0; i < rewards.length; i++) {
    reward += (weight(i) * rewards[i]!) / rows;
    meanPerf += (weight(i) * perf[i]!) / rows;
  }
  return {
    advantages: probabilities
      ? expectedAdvantages(rewards, probabilities, rows)
      : batchAdvantages(rewards, rows, baseline),
    reward,
    perf: meanPerf,
    cost: meanPerf - reward,
    informative: informativeShare(perf, rows),
  };
}

function expectedAdvantages(
  rewards: Float64Array,
  probabilities: ArrayLike<number>,
  rows: number,
): Float64Array {
  const expected = new Float64Array(rows);
  for (let i = 0; i < rewards.length; i++) expected[i % rows]! += probabilities[i]! * rewards[i]!;
  return rewards.map((r, i) => r - expected[i % rows]!);
}

function informativeShare(perf: ArrayLike<number>, rows: number): number {
  let count = 0;
  for (let row = 0; row < rows; row++) {
    let low = perf[row]!;
    let high = low;
    for (let i = row; i < perf.length; i += rows) {
      low = Math.min(low, perf[i]!);
      high = Math.max(high, perf[i]!);
    }
    if (high - low > INFORMATIVE_RANGE) count++;
  }
  return count / rows;
}
