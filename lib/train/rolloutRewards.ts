import { AegirError } from "../errors.js";
import { type Baseline, batchAdvantages, gdpoAdvantages, type RewardComponent } from "../rl/advantages.js";

/** What came of G routings of each of R rows; every array is (G,R), draw g of row r at g·R + r. */
export interface RolloutOutcome {
  /** log p(label) */
  logp: ArrayLike<number>;
  /** 1 where the most probable label is the right one. */
  correct: ArrayLike<number>;
  /** 1 where the head answered and no activated specialist failed. */
  finished: ArrayLike<number>;
}

/** Routings and the parts of their rewards. */
export interface Rollouts {
  rows: number;
  /** By name; the reward of a rollout is Σ weight·value. */
  components: Record<string, RewardComponent>;
  /**
   * (G,R) probability of each routing, rows summing to 1, where the G routings are all that there are; absent: they are
   * independent draws.
   */
  probabilities?: ArrayLike<number>;
}

export interface RolloutRewards {
  /** (G,R) */
  advantages: Float64Array;
  /** Expected reward of the policy, over the rows: the sum of `terms`. */
  reward: number;
  /** Expected weight·value of each component. */
  terms: Record<string, number>;
}

/** How rewards become advantages: a baseline, or every component normalised by itself. */
export type AdvantageKind = Baseline | "gdpo";

/**
 * Rewards of rollouts and their advantages within each row: against the mean of the other draws (RLOO) or another baseline, or,
 * where all routings are enumerated, against their exact expectation. Terms that are equal for all rollouts of a row (r_parallel,
 * r_finish's penalty) cancel here and reach the router as differentiable terms instead.
 */
export function rolloutRewards(
  { rows, components, probabilities }: Rollouts,
  kind: AdvantageKind,
): RolloutRewards {
  const parts = Object.entries(components);
  const rewards = new Float64Array(parts[0]![1].values.length);
  const draws = rewards.length / rows;
  const terms: Record<string, number> = {};
  for (const [name, { values, weight }] of parts) {
    terms[name] = 0;
    for (let i = 0; i < rewards.length; i++) {
      const value = weight * values[i]!;
      rewards[i]! += value;
      terms[name] += ((probabilities ? probabilities[i]! : 1 / draws) * value) / rows;
    }
  }
  return {
    advantages: advantagesOf(rewards, rows, kind, Object.values(components), probabilities),
    reward: Object.values(terms).reduce((sum, term) => sum + term, 0),
    terms,
  };
}

function advantagesOf(
  rewards: Float64Array,
  rows: number,
  kind: AdvantageKind,
  components: RewardComponent[],
  probabilities: ArrayLike<number> | undefined,
): Float64Array {
  if (probabilities) return expectedAdvantages(rewards, probabilities, rows);
  return kind === "gdpo" ? gdpoAdvantages(components, rows) : batchAdvantages(rewards, rows, kind);
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

/** Range of r_perf from which a group of rollouts counts as informative (docs/rl.md §5). */
const INFORMATIVE_RANGE = 0.05;

/** Share of rows whose rollouts differ in r_perf by more than .05: those that teach the router. */
export function informativeShare(perf: ArrayLike<number>, rows: number): number {
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

/**
 * (n) what each specialist costs as a share of what all cost: 1/n where no prices are given.
 * @param prices by name; one each, none below 0, some above
 * @throws AegirError ERR_CONFIG
 */
export function priceShares(names: readonly string[], prices?: Readonly<Record<string, number>>): number[] {
  if (prices === undefined) return names.map(() => 1 / names.length);
  const unknown = Object.keys(prices).find((name) => !names.includes(name));
  const missing = names.find((name) => !Object.hasOwn(prices, name));
  const total = Object.values(prices).reduce((sum, price) => sum + price, 0);
  if (unknown === undefined && missing === undefined && total > 0 && Number.isFinite(total))
    return names.map((name) => prices[name]! / total);
  const what =
    unknown !== undefined
      ? `no specialist is called '${unknown}'`
      : missing !== undefined
        ? `'${missing}' has none`
        : `they sum to ${total}`;
  throw new AegirError(
    "ERR_CONFIG",
    `trainParl.prices: ${what}; expected one for each of ${names.join(", ")}`,
  );
}

/** −Σ s over the activated of every routing (G,R), s their shares: what the cost coefficient is multiplied with. */
export function activationPrices(actions: ArrayLike<number>, shares: readonly number[]): Float64Array {
  const n = shares.length;
  return Float64Array.from({ length: actions.length / n }, (_, i) =>
    shares.reduce((sum, share, k) => sum - (actions[i * n + k] ? share : 0), 0),
  );
}
