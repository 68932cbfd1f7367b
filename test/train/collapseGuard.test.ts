import { describe, expect, test } from "vitest";
import { CappedBernoulli } from "../../lib/rl/policy.js";
import { CollapseGuard, type RouterHealth } from "../../lib/train/collapseGuard.js";

const healthy: RouterHealth = {
  phase: "standard",
  pOn: 0,
  pOff: 0,
  pConst: 0,
  entropy: 1,
  maxLogRatio: 0.1,
  reward: -1,
};

/** Kinds found in each of `n` steps of the same health. */
function kinds(guard: CollapseGuard, n: number, health: Partial<RouterHealth>): string[] {
  return Array.from({ length: n }, () =>
    guard.update({ ...healthy, ...health }).map(({ kind, stop }) => (stop ? `${kind}!` : kind)),
  ).flat();
}

describe("collapse guard", () => {
  test.each([
    ["always-on", { pOn: 1 }, /pOn 1\.00, over 0\.5.*--cost/],
    ["always-off", { pOff: 0.8 }, /pOff.*lower the cost/],
    ["constant", { pConst: 1 }, /pConst.*--router-lr/],
    ["no-entropy", { entropy: 0.06 }, /entropy per specialist 0\.0200, under 0\.03.*--entropy-bonus/],
    ["ratio-explosion", { maxLogRatio: 4 }, /maxLogRatio 4\.00, over 3.*--epochs/],
    ["ratio-explosion", { maxLogRatio: Number.NaN }, /maxLogRatio NaN, over 3.*--epochs/],
  ])("%s names itself, its metric and its cure, once an onset", (kind, health, message) => {
    const guard = new CollapseGuard(3, 0, 4);
    expect(kinds(guard, 3, health)).toEqual([]);
    const [found] = guard.update({ ...healthy, ...health });
    expect(found).toMatchObject({ kind, steps: 4, stop: false });
    expect(found!.message).toContain(found!.metric);
    expect(found!.message).toMatch(message);
    expect(kinds(guard, 5, health)).toEqual([]);
    expect(kinds(guard, 1, {})).toEqual([]);
    expect(kinds(guard, 4, health)).toEqual([kind]);
  });

  test("the logits' bounds leave less entropy than the limit, so that a router can be seen to have lost it", () => {
    const certain = new CappedBernoulli([6, -6, -6], 3).entropy();
    expect(certain / 3).toBeGreaterThan(0.017);
    expect(kinds(new CollapseGuard(3, 0, 4), 4, { entropy: certain })).toEqual(["no-entropy"]);
    const decided = new CappedBernoulli([4, -4, -4], 3).entropy();
    expect(kinds(new CollapseGuard(3, 0, 4), 4, { entropy: decided })).toEqual([]);
  });

  test("after its patience it stops", () => {
    const guard = new CollapseGuard(3, 8, 4);
    expect(kinds(guard, 20, { pOff: 1 })).toEqual(["always-off", "always-off!"]);
  });

  test("a reward that falls far below its best is a collapse, one that wavers is none", () => {
    const guard = new CollapseGuard(3, 0, 4);
    for (let step = 0; step < 200; step++)
      expect(kinds(guard, 1, { reward: -1 + (step % 2 ? 0.3 : -0.3) })).toEqual([]);
    expect(kinds(guard, 60, { reward: -2 })).toEqual(["reward-collapse"]);
  });

  test("a router that uses its whole budget is not always on; what it was in standard phases still counts", () => {
    const guard = new CollapseGuard(3, 0, 4);
    expect(kinds(guard, 20, { phase: "budget", pOn: 1 })).toEqual([]);
    expect(kinds(guard, 2, { pOn: 1 })).toEqual([]);
    expect(kinds(guard, 3, { phase: "budget", pOn: 1 })).toEqual([]);
    expect(kinds(guard, 2, { pOn: 1 })).toEqual(["always-on"]);
  });

  test("continues from a saved state", () => {
    const guard = new CollapseGuard(3, 0, 4);
    kinds(guard, 3, { pOff: 1 });
    const resumed = new CollapseGuard(3, 0, 4);
    resumed.state = JSON.parse(JSON.stringify(guard.state));
    expect(kinds(resumed, 1, { pOff: 1 })).toEqual(kinds(guard, 1, { pOff: 1 }));
  });
});
