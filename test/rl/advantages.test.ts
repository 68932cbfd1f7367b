import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type Baseline,
  batchAdvantages,
  gae,
  gdpoAdvantages,
  groupAdvantages,
  whiten,
} from "../../lib/rl/advantages.js";
import { expectClose, vector } from "./support.js";

const reward = fc.double({ min: -10, max: 10, noNaN: true });
const group = fc.array(reward, { minLength: 2, maxLength: 12 });

describe("group advantages", () => {
  const v8 = vector<{
    inputs: { r: number[] };
    mean_baseline: number[];
    rloo: number[];
    grpo_sample_std_eps1e4: number[];
  }>("V8_advantages");

  it("agrees with the golden values", () => {
    expectClose(groupAdvantages(v8.inputs.r, "mean"), v8.mean_baseline);
    expectClose(groupAdvantages(v8.inputs.r, "rloo"), v8.rloo);
    expectClose(groupAdvantages(v8.inputs.r, "grpo"), v8.grpo_sample_std_eps1e4);
    expectClose(groupAdvantages(v8.inputs.r, "none"), v8.inputs.r, 0);
  });

  it.each(["mean", "rloo", "grpo"] as Baseline[])(
    "%s: one rollout or equal rewards give exact zeros",
    (kind) => {
      expect([...groupAdvantages([0.7], kind)]).toEqual([0]);
      expect([...groupAdvantages([], kind)]).toEqual([]);
      // 0.1 summed six times is not 0.6: a computed mean would leave a residue.
      expect([...groupAdvantages(Array(6).fill(0.1), kind)]).toEqual(Array(6).fill(0));
    },
  );

  it.each(["mean", "rloo", "grpo"] as Baseline[])(
    "%s: sums to zero and ignores a shift of the rewards",
    (kind) => {
      fc.assert(
        fc.property(group, reward, (rewards, shift) => {
          fc.pre(Math.max(...rewards) - Math.min(...rewards) > 1e-3);
          const advantages = groupAdvantages(rewards, kind);
          const shifted = groupAdvantages(
            rewards.map((r) => r + shift),
            kind,
          );
          expect(Math.abs(advantages.reduce((sum, a) => sum + a, 0))).toBeLessThan(1e-9);
          expectClose(shifted, advantages, 1e-8);
        }),
      );
    },
  );

  it("rloo is the reward against the mean of the others", () => {
    fc.assert(
      fc.property(group, (rewards) => {
        const advantages = groupAdvantages(rewards, "rloo");
        rewards.forEach((r, i) => {
          const others = rewards.filter((_, j) => j !== i);
          const baseline = others.reduce((sum, x) => sum + x, 0) / others.length;
          expect(Math.abs(advantages[i]! - (r - baseline))).toBeLessThan(1e-9);
        });
      }),
    );
  });

  it("takes each row's draws as a group", () => {
    // (G,R) = (2,3): rows (1,0), (5,5), (2,4)
    expectClose(batchAdvantages([1, 5, 2, 0, 5, 4], 3, "mean"), [0.5, 0, -1, -0.5, 0, 1], 0);
  });

  it("refuses NaN and a length that is no multiple of the rows", () => {
    expect(() => groupAdvantages([1, Number.NaN], "rloo")).toThrow(/rewards\[1\]/);
    expect(() => batchAdvantages([1, 2, 3], 2, "rloo")).toThrow(/\(G,R\)/);
  });
});

describe("every component by itself", () => {
  // Two rows of three draws: (G,R) = (3,2).
  const small = [0.01, 0.01, 0.02, 0.03, 0.03, 0.02];
  const large = [100, -100, 300, 50, 200, 70];

  it("a component's unit does not matter", () => {
    const of = (unit: number) =>
      gdpoAdvantages(
        [
          { values: small.map((v) => v * unit), weight: 1 },
          { values: large, weight: 0.5 },
        ],
        2,
      );
    // 1e-4 beside the standard deviation: it shows for the small unit alone.
    expectClose(of(1000), of(100_000), 1e-4);
    const plain = batchAdvantages(
      small.map((v, i) => v + 0.5 * large[i]!),
      2,
      "grpo",
    );
    const alone = batchAdvantages(large, 2, "grpo");
    expectClose(plain, alone, 1e-3);
    expect(Math.max(...of(1000).map((a, i) => Math.abs(a - alone[i]!)))).toBeGreaterThan(0.1);
  });

  it("has mean 0 and variance 1 over the batch; what does not vary within a row adds nothing", () => {
    const varied = { values: large, weight: 1 };
    const constant = { values: [5, 7, 5, 7, 5, 7], weight: 10 };
    const both = gdpoAdvantages([varied, constant], 2);
    expectClose(both, gdpoAdvantages([varied], 2), 0);
    expect(Math.abs(both.reduce((sum, a) => sum + a, 0))).toBeLessThan(1e-9);
    expect(both.reduce((sum, a) => sum + a * a, 0) / 5).toBeCloseTo(1, 6);
  });

  it("refuses components of unequal length, and none", () => {
    expect(() => gdpoAdvantages([], 2)).toThrow(/at least 1 component/);
    const components = [
      { values: [1, 2], weight: 1 },
      { values: [1], weight: 1 },
    ];
    expect(() => gdpoAdvantages(components, 1)).toThrow(/2 values/);
  });
});

describe("gae", () => {
  const v8 = vector<{
    inputs: { rewards: number[]; values: number[]; gamma: number; lam: number };
    adv: number[];
    returns: number[];
  }>("V8_gae");

  it("agrees with the golden values", () => {
    const { rewards, values, gamma, lam } = v8.inputs;
    const { advantages, returns } = gae(rewards, values, { gamma, lambda: lam });
    expectClose(advantages, v8.adv);
    expectClose(returns, v8.returns);
  });

  it("lambda = 1 gives discounted returns, lambda = 0 one-step errors", () => {
    const rewards = [1, -2, 0.5];
    const values = [0.3, 0.1, -0.4];
    const { returns } = gae(rewards, values, { gamma: 0.9, lambda: 1, bootstrap: 2 });
    expectClose(returns, [1 + 0.9 * (-2 + 0.9 * (0.5 + 0.9 * 2)), -2 + 0.9 * (0.5 + 1.8), 0.5 + 1.8], 1e-12);
    const { advantages } = gae(rewards, values, { gamma: 0.9, lambda: 0 });
    expectClose(advantages, [1 + 0.09 - 0.3, -2 - 0.36 - 0.1, 0.5 + 0.4], 1e-12);
  });

  it("refuses values of another length", () => {
    expect(() => gae([1, 2], [1])).toThrow(/one value per reward/);
  });
});

describe("whiten", () => {
  it("gives mean 0 and variance 1 over valid entries and ignores NaN in masked ones", () => {
    const out = whiten([1, Number.NaN, 4, 7, 9], [1, 0, 1, 1, 1]);
    expect(out[1]).toBe(0);
    const valid = [out[0]!, out[2]!, out[3]!, out[4]!];
    expect(Math.abs(valid.reduce((sum, a) => sum + a, 0))).toBeLessThan(1e-12);
    expect(valid.reduce((sum, a) => sum + a * a, 0) / 3).toBeCloseTo(1, 7);
  });

  it("gives zeros where there is nothing to compare", () => {
    expect([...whiten([3])]).toEqual([0]);
    expect([...whiten([2, 2, 2])]).toEqual([0, 0, 0]);
    expect([...whiten([1, 2], [0, 0])]).toEqual([0, 0]);
  });
});
