import { describe, expect, it } from "vitest";
import { AdaptiveEntropy, AdaptiveKl } from "../../lib/rl/controllers.js";

describe("adaptive KL", () => {
  it("doubles above 1.5 times its target, halves below two thirds of it, holds between", () => {
    const kl = new AdaptiveKl(0.1, 0.02);
    kl.update(0.04);
    expect(kl.coefficient).toBeCloseTo(0.2, 12);
    kl.update(0.02);
    expect(kl.coefficient).toBeCloseTo(0.2, 12);
    kl.update(0.001);
    expect(kl.coefficient).toBeCloseTo(0.1, 12);
  });

  it("brings a KL that answers the coefficient to its target, within the factor 1.5", () => {
    const kl = new AdaptiveKl(1e-3, 0.02);
    const answer = () => 0.01 / kl.coefficient;
    for (let step = 0; step < 50; step++) kl.update(answer());
    expect(answer()).toBeGreaterThan(0.02 / 1.5);
    expect(answer()).toBeLessThan(0.02 * 1.5);
  });

  it("without a target stays, and refuses a target that it could never reach", () => {
    const fixed = new AdaptiveKl(0.3);
    fixed.update(10);
    expect(fixed.coefficient).toBe(0.3);
    expect(() => new AdaptiveKl(0, 0.1)).toThrow(/positive/);
    expect(() => new AdaptiveKl(-1)).toThrow(/at least 0/);
  });
});

describe("adaptive entropy", () => {
  it("grows while the entropy is too low, never beyond its bounds, and comes back", () => {
    const bonus = new AdaptiveEntropy(0.005, 0.5, 0.1, 0.01);
    for (let step = 0; step < 5; step++) bonus.update(0);
    expect(bonus.coefficient).toBeCloseTo(0.03, 12);
    for (let step = 0; step < 100; step++) bonus.update(0);
    expect(bonus.coefficient).toBe(0.1);
    for (let step = 0; step < 200; step++) bonus.update(0.69);
    expect(bonus.coefficient).toBe(0.005);
  });

  it("without a target stays", () => {
    const bonus = new AdaptiveEntropy(0.02);
    bonus.update(0);
    expect(bonus.coefficient).toBe(0.02);
  });
});
