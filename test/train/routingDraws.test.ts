import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import { CollapseGuard } from "../../lib/train/collapseGuard.js";
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

describe("collapse guard", () => {
  const healthy = { penalty: 0, pOn: 0, pOff: 0, pConst: 0, mutualInfo: 0.3 };

  test("warns once when a sign has held for the window, and again after it went away", () => {
    const guard = new CollapseGuard(3, 4);
    const kinds = (n: number, penalty: typeof healthy, entropy = 1) =>
      Array.from({ length: n }, () => guard.update(penalty, entropy).map((w) => w.kind)).flat();
    expect(kinds(3, { ...healthy, pOn: 1 })).toEqual([]);
    expect(kinds(5, { ...healthy, pOn: 1 })).toEqual(["always-on"]);
    expect(kinds(1, healthy)).toEqual([]);
    expect(kinds(4, { ...healthy, pOn: 1 })).toEqual(["always-on"]);
    expect(kinds(4, { ...healthy, pConst: 1 }, 0.001)).toEqual(["constant", "no-entropy"]);
    expect(kinds(4, { ...healthy, pOff: 0.8 })).toEqual(["always-off"]);
    const resumed = new CollapseGuard(3, 4);
    resumed.state = guard.state;
    expect(resumed.state).toEqual(guard.state);
  });
});

function binomial(n: number, k: number): number {
  return k === 0 ? 1 : (binomial(n - 1, k - 1) * n) / k;
}
