import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import {
  activated,
  activationRates,
  enumerateActions,
  mixRandomRows,
  randomActions,
  repeatActions,
  shuffleRows,
} from "../../lib/train/routingDraws.js";

describe("routing draws", () => {
  test("the enumeration holds every subset up to the cap once", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), fc.nat({ max: 6 }), (n, cap) => {
        const { actions, count } = enumerateActions(n, cap);
        const seen = new Set<string>();
        for (let g = 0; g < count; g++) {
          expect(activated(actions, g, n)).toBeLessThanOrEqual(cap);
          seen.add(actions.subarray(g * n, (g + 1) * n).join(""));
        }
        let subsets = 0;
        for (let k = 0; k <= Math.min(n, cap); k++) subsets += binomial(n, k);
        expect([seen.size, count]).toEqual([subsets, subsets]);
        expect(activated(actions, 0, n)).toBe(0);
      }),
    );
  });

  test("repeated actions are laid out draw by draw", () => {
    expect([...repeatActions(Uint8Array.of(0, 1, 1, 1), 2, 2)]).toEqual([0, 1, 0, 1, 1, 1, 1, 1]);
  });

  test("shuffling keeps the rates and the rows, and moves them", () => {
    const n = 3;
    const actions = randomActions(200, n, 0.3, new Random(5));
    const shuffled = shuffleRows(actions, n, new Random(6));
    expect(activationRates(shuffled, n)).toEqual(
      activationRates(actions, n).map((r) => expect.closeTo(r, 12)),
    );
    const rows = (a: Uint8Array) =>
      Array.from({ length: 200 }, (_, r) => a.subarray(r * n, (r + 1) * n).join(""));
    expect(rows(shuffled).sort()).toEqual(rows(actions).sort());
    expect([...shuffled]).not.toEqual([...actions]);
  });

  test("mixing changes about the share of the rows, to random activations", () => {
    const off = new Uint8Array(4000 * 2);
    const mixed = mixRandomRows(off, 2, 0.25, new Random(3));
    const changed = Array.from({ length: 4000 }, (_, r) => activated(mixed, r, 2)).filter(
      (a) => a > 0,
    ).length;
    // A quarter of the rows, of which three quarters activate at least one of two: 750, standard deviation 25.
    expect(changed).toBeGreaterThan(650);
    expect(changed).toBeLessThan(850);
    expect(mixRandomRows(off, 2, 0, new Random(3))).toEqual(off);
  });
});

function binomial(n: number, k: number): number {
  return k === 0 ? 1 : (binomial(n - 1, k - 1) * n) / k;
}
