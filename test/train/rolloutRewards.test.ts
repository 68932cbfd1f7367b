import { describe, expect, test } from "vitest";
import { CappedBernoulli } from "../../lib/rl/policy.js";
import {
  activationPrices,
  informativeShare,
  priceShares,
  rolloutRewards,
} from "../../lib/train/rolloutRewards.js";
import { enumerateActions, repeatActions } from "../../lib/train/routingDraws.js";

describe("rollout rewards", () => {
  test("the cost is c times the share of activated specialists, and advantages compare within a row", () => {
    // Two draws of two rows, two specialists: row 0 draws 00 and 11, row 1 draws 10 and 10.
    const actions = Uint8Array.of(0, 0, 1, 0, 1, 1, 1, 0);
    const perf = [-1, -2, -0.5, -2];
    const result = rolloutRewards(
      {
        rows: 2,
        components: {
          perf: { values: perf, weight: 1 },
          cost: { values: activationPrices(actions, priceShares(["a", "b"])), weight: 0.2 },
        },
      },
      "rloo",
    );
    // Row 0: rewards -1 and -0.7; row 1: -2.1 twice.
    expect([...result.advantages]).toEqual([expect.closeTo(-0.3), 0, expect.closeTo(0.3), 0]);
    expect(result.reward).toBeCloseTo((-1 - 0.7 - 2.1 - 2.1) / 4, 12);
    expect(result.terms.perf).toBeCloseTo(-5.5 / 4, 12);
    expect(result.terms.cost).toBeCloseTo(-0.1, 12);
    expect(informativeShare(perf, 2)).toBe(0.5);
  });

  test("specialists of a price of their own cost their share of what all cost", () => {
    const shares = priceShares(["net", "ngram"], { ngram: 1, net: 3 });
    expect(shares).toEqual([0.75, 0.25]);
    const actions = Uint8Array.of(0, 0, 1, 0, 0, 1, 1, 1);
    expect([...activationPrices(actions, shares)]).toEqual([0, -0.75, -0.25, -1]);
    expect(priceShares(["net", "ngram"])).toEqual([0.5, 0.5]);
  });

  test.each([
    [{ net: 1 }, "'ngram' has none"],
    [{ net: 1, ngram: 1, nett: 2 }, "no specialist is called 'nett'"],
    [{ net: 0, ngram: 0 }, "they sum to 0"],
    [{ net: 1e308, ngram: 1e308 }, "they sum to Infinity"],
  ])("prices %j are refused", (prices, why) => {
    expect(() => priceShares(["net", "ngram"], prices)).toThrow(
      `prices: ${why}; expected one for each of net, ngram`,
    );
  });

  test("enumerated, the weighted score-function gradient is that of the expected reward", () => {
    const n = 3;
    const cost = 0.25;
    const policy = new CappedBernoulli([0.3, -1.1, 0.8], n);
    const { actions, count } = enumerateActions(n, n);
    const perfOf = (a: ArrayLike<number>) => -1 + 0.6 * a[0]! * a[2]! - 0.2 * a[1]!;
    const each = Array.from({ length: count }, (_, g) => actions.subarray(g * n, (g + 1) * n));
    const probabilities = each.map((a) => Math.exp(policy.logProb(a)));
    const { advantages, reward } = rolloutRewards(
      {
        rows: 1,
        components: {
          perf: { values: each.map(perfOf), weight: 1 },
          cost: {
            values: activationPrices(repeatActions(actions, n, 1), [1 / 3, 1 / 3, 1 / 3]),
            weight: cost,
          },
        },
        probabilities,
      },
      "rloo",
    );
    const exact = policy.expectedReward((a) => perfOf(a) - (cost * (a[0]! + a[1]! + a[2]!)) / n);
    expect(reward).toBeCloseTo(exact.value, 12);
    const gradient = [0, 0, 0];
    each.forEach((a, g) => {
      const score = policy.logProbGradient(a);
      for (let i = 0; i < n; i++) gradient[i]! += probabilities[g]! * advantages[g]! * score[i]!;
    });
    for (let i = 0; i < n; i++) expect(gradient[i]).toBeCloseTo(exact.gradient[i]!, 12);
  });
});
