import { expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import { routingPhase } from "../../lib/rl/schedules.js";
import type { ParlOptions } from "../../lib/train/parlOptions.js";
import { useLane } from "../rl/nativeSupport.js";
import { budget, oracleRows, RouterTask, type RoutingRows, standard } from "./routerTask.js";

/** An oracle task: one specialist is right for each row, known to nobody but the reward. */
const t = useLane();
const n = 3;
const dims = 16;
const updates = 100;

const plans = {
  "K = 1": () => budget(n, 1),
  "K = 3": () => standard(n),
  alternating: (step: number) => routingPhase(step, { period: 8, totalSteps: updates, numSpecialists: n }),
};
type Plan = keyof typeof plans;

async function trained(
  plan: Plan,
  seed: number,
  options: ParlOptions = {},
  batch = (random: Random): RoutingRows => oracleRows(random, 64, n, dims),
) {
  const random = new Random(seed, "oracle");
  const held = oracleRows(random, 1000, n, dims);
  using task = new RouterTask(t.lane, dims, n, seed, { cost: 0.05, ...options });
  let shown = 0;
  for (let step = 0; step < updates; step++) {
    const { klOld } = await task.step(batch(random), plans[plan](step), step / (updates - 1));
    shown = Math.max(shown, klOld as number);
  }
  return { ...(await task.deployed(held, plan === "K = 1" ? 1 : n)), ideal: held.ideal!, largestKl: shown };
}

test.each(Object.keys(plans) as Plan[])(
  "%s: within 100 updates the routing earns .70, five seeds of five (random .33)",
  async (plan) => {
    const rewards: number[] = [];
    for (let seed = 0; seed < 5; seed++) {
      const { reward, ideal } = await trained(plan, seed);
      rewards.push(reward);
      expect(reward).toBeGreaterThan(0.7);
      expect(reward).toBeLessThanOrEqual(ideal + 0.02);
    }
    console.log(`oracle ${plan}: ${rewards.map((r) => r.toFixed(3)).join(" ")}`);
  },
);

test.each([
  ["drawn routings, RLOO", { estimator: "sample" }],
  ["drawn routings, components normalised", { estimator: "sample", normalise: "gdpo" }],
  ["drawn routings, difference rewards", { estimator: "sample", parallelCredit: "difference" }],
  ["K2.5's objective", { objective: "k25", epochs: 4, minibatches: 2 }],
  ["four epochs of two minibatches, KL held", { epochs: 4, minibatches: 2, klCoef: 0.1, klTarget: 0.02 }],
] as [string, ParlOptions][])("%s reaches it too", async (_, options) => {
  const { reward, largestKl } = await trained("alternating", 7, options);
  expect(reward).toBeGreaterThan(0.7);
  if (options.klTarget) expect(largestKl).toBeLessThan(8 * options.klTarget);
});

test("control: with the rewards of other rows nothing is learned on the whole; one seed alone may wander", async () => {
  const rewards: number[] = [];
  for (let seed = 0; seed < 8; seed++) {
    // Of another batch altogether: a shuffle leaves some rows their own.
    const { reward } = await trained("K = 1", seed, {}, (random) => ({
      features: oracleRows(random, 64, n, dims).features,
      reward: oracleRows(random, 64, n, dims).reward,
    }));
    rewards.push(reward);
  }
  console.log(`oracle K = 1, rewards of other rows: ${rewards.map((r) => r.toFixed(3)).join(" ")}`);
  expect(rewards.reduce((sum, reward) => sum + reward / rewards.length, 0)).toBeLessThan(0.45);
});
