import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  TOKEN_WEIGHTS,
  type TokenKind,
  tokenWeights,
  typeIndicativeTokens,
} from "../../lib/rl/tokenWeights.js";
import { expectClose } from "./support.js";

describe("token weights", () => {
  it("keeps 2 : 1.5 : 1 : 0 and sums to the number of valid tokens", () => {
    const weights = tokenWeights(["boundary", "other", "padding", "typeIndicative", "other"]);
    expectClose(
      weights.map((w) => w / weights[1]!),
      [2, 1, 0, 1.5, 1],
      1e-12,
    );
    const kinds = fc.array(fc.constantFrom(...(Object.keys(TOKEN_WEIGHTS) as TokenKind[])));
    fc.assert(
      fc.property(kinds, (list) => {
        const valid = list.filter((kind) => kind !== "padding").length;
        expect(tokenWeights(list).reduce((sum, w) => sum + w, 0)).toBeCloseTo(valid, 9);
      }),
    );
  });

  it("gives zeros for padding alone and refuses negative weights", () => {
    expect([...tokenWeights(["padding", "padding"])]).toEqual([0, 0]);
    expect(() => tokenWeights(["other"], { ...TOKEN_WEIGHTS, boundary: -1 })).toThrow(/weights\.boundary/);
  });
});

describe("type-indicative tokens", () => {
  it("are those that leave little of the labels' entropy, seen often enough", () => {
    // Labels in equal numbers. Token 0 says nothing, 1 tells the label, 2 tells it but is rare, 3 halves the choice.
    const counts = [
      [20, 20, 20, 20],
      [20, 0, 0, 0],
      [0, 2, 0, 0],
      [0, 18, 20, 0],
      [0, 0, 0, 20],
    ];
    expect(typeIndicativeTokens(counts)).toEqual([false, true, false, true, true]);
    expect(typeIndicativeTokens(counts, { minGain: 0.6 })).toEqual([false, true, false, false, true]);
    expect(typeIndicativeTokens(counts, { minCount: 1 })[2]).toBe(true);
    expect(typeIndicativeTokens([])).toEqual([]);
  });

  it("refuses counts of other labels", () => {
    expect(() => typeIndicativeTokens([[1, 2], [1]])).toThrow(/token 1/);
  });
});
