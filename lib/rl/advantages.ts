/**
 * Advantages of rollouts (docs/rl.md §3): baselines over the group of rollouts of one row, and GAE for step rewards.
 * All functions are pure, in float64.
 */
import { AegirError } from "../errors.js";

/**
 * - `mean`: r − r̄ (Kimi K2.5, arXiv:2602.02276)
 * - `rloo`: r − mean of the others (leave one out, unbiased)
 * - `grpo`: (r − r̄) / (sample std + 1e-4) (GRPO, arXiv:2402.03300)
 * - `none`: the reward itself
 */
export type Baseline = "mean" | "rloo" | "grpo" | "none";

const GRPO_EPS = 1e-4;
const WHITEN_EPS = 1e-8;

/**
 * Advantages of the rollouts of ONE row. A group of one rollout, or whose rewards are all equal, gets exact zeros:
 * it says nothing about which rollout was better, and rounding in the mean must not become a signal.
 * @param rewards (G) finite rewards
 * @throws AegirError ERR_NON_FINITE where a reward is NaN or infinite
 */
export function groupAdvantages(rewards: ArrayLike<number>, baseline: Baseline): Float64Array {
  const size = rewards.length;
  const out = Float64Array.from(rewards);
  requireFinite("rewards", out);
  if (baseline === "none") return out;
  if (isConstant(out)) return out.fill(0);
  const mean = out.reduce((sum, r) => sum + r, 0) / size;
  let scale = 1;
  if (baseline === "rloo") scale = size / (size - 1);
  if (baseline === "grpo") scale = 1 / (Math.sqrt(squaredDeviation(out, mean) / (size - 1)) + GRPO_EPS);
  return out.map((r) => (r - mean) * scale);
}

/**
 * Advantages of G rollouts of each of R rows, laid out as the sampler lays out its draws.
 * @param rewards (G,R) row-major: the rewards of draw g of row r at g·R + r
 * @returns (G,R) advantages, each row's G rollouts being one group
 */
export function batchAdvantages(rewards: ArrayLike<number>, rows: number, baseline: Baseline): Float64Array {
  if (!Number.isInteger(rows) || rows < 1 || rewards.length % rows !== 0)
    throw new AegirError(
      "ERR_SHAPE",
      `batchAdvantages: expected rewards of (G,R) with R = rows, got ${rewards.length} rewards and rows = ${rows}`,
    );
  const draws = rewards.length / rows;
  const out = new Float64Array(rewards.length);
  for (let row = 0; row < rows; row++) {
    const group = Float64Array.from({ length: draws }, (_, g) => rewards[g * rows + row]!);
    const advantages = groupAdvantages(group, baseline);
    for (let g = 0; g < draws; g++) out[g * rows + row] = advantages[g]!;
  }
  return out;
}

/** One component of a reward. */
export interface RewardComponent {
  /** (G,R) as in `batchAdvantages`. */
  values: ArrayLike<number>;
  weight: number;
}

/**
 * Advantages with every component normalised by itself (GDPO): (r − r̄)/(std + 1e-4) within each row's group and component, then
 * their weighted sum, whitened over the batch. A component of small range is not drowned by one of large range; a component that
 * does not vary within a group adds nothing to it.
 * @param components each (G,R)
 * @returns (G,R)
 */
export function gdpoAdvantages(components: readonly RewardComponent[], rows: number): Float64Array {
  if (components.length === 0)
    throw new AegirError("ERR_ARGUMENT", "gdpoAdvantages: expected at least 1 component, got 0");
  const sum = new Float64Array(components[0]!.values.length);
  for (const { values, weight } of components) {
    if (values.length !== sum.length)
      throw new AegirError(
        "ERR_SHAPE",
        `gdpoAdvantages: expected ${sum.length} values of every component, got ${values.length}`,
      );
    const normalised = batchAdvantages(values, rows, "grpo");
    for (let i = 0; i < sum.length; i++) sum[i]! += weight * normalised[i]!;
  }
  return whiten(sum);
}

export interface GaeOptions {
  gamma?: number;
  lambda?: number;
  /** Value after the last step; 0 for an episode that ended. */
  bootstrap?: number;
}

/**
 * Generalised advantage estimation (arXiv:1506.02438) over one episode.
 * @param rewards (T)
 * @param values (T) value estimates before each step
 * @returns advantages (T) and returns = advantages + values (T)
 */
export function gae(
  rewards: ArrayLike<number>,
  values: ArrayLike<number>,
  { gamma = 0.99, lambda = 0.95, bootstrap = 0 }: GaeOptions = {},
): { advantages: Float64Array; returns: Float64Array } {
  const steps = rewards.length;
  if (values.length !== steps)
    throw new AegirError(
      "ERR_SHAPE",
      `gae: expected one value per reward (${steps}), got ${values.length} values`,
    );
  const advantages = new Float64Array(steps);
  let next = bootstrap;
  let running = 0;
  for (let t = steps - 1; t >= 0; t--) {
    running = rewards[t]! + gamma * next - values[t]! + gamma * lambda * running;
    advantages[t] = running;
    next = values[t]!;
  }
  return { advantages, returns: advantages.map((a, t) => a + values[t]!) };
}

/**
 * (a − mean) / (std + 1e-8) over the valid entries, sample std; masked entries become 0, and so does everything where
 * fewer than two entries are valid or all are equal.
 */
export function whiten(advantages: ArrayLike<number>, mask?: ArrayLike<number>): Float64Array {
  const valid = Float64Array.from(advantages).filter((_, i) => !mask || mask[i]);
  requireFinite("advantages", valid);
  const out = new Float64Array(advantages.length);
  if (isConstant(valid)) return out;
  const mean = valid.reduce((sum, a) => sum + a, 0) / valid.length;
  const std = Math.sqrt(squaredDeviation(valid, mean) / (valid.length - 1));
  for (let i = 0; i < out.length; i++) {
    if (!mask || mask[i]) out[i] = (advantages[i]! - mean) / (std + WHITEN_EPS);
  }
  return out;
}

/** True for empty and one-element groups too. */
function isConstant(values: Float64Array): boolean {
  return values.every((v) => v === values[0]);
}

function squaredDeviation(values: Float64Array, mean: number): number {
  return values.reduce((sum, v) => sum + (v - mean) ** 2, 0);
}

function requireFinite(name: string, values: Float64Array): void {
  const at = values.findIndex((v) => !Number.isFinite(v));
  if (at >= 0)
    throw new AegirError("ERR_NON_FINITE", `${name}[${at}]: expected a finite number, got ${values[at]}`);
}
