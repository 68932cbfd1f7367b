import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CappedBernoulli } from "../../lib/rl/policy.js";
import { chiSquare, chiSquareQuantile, expectClose, randomOf, testSeed, vector } from "./support.js";

const logits = (maxLength: number) =>
  fc.array(fc.double({ min: -8, max: 8, noNaN: true }), { minLength: 1, maxLength });

/** Central differences of f at z. */
function numericalGradient(f: (z: number[]) => number, z: number[], h = 1e-5): number[] {
  return z.map((_, n) => {
    const at = (delta: number) => f(z.map((x, i) => (i === n ? x + delta : x)));
    return (at(h) - at(-h)) / (2 * h);
  });
}

interface V6Row {
  K: number;
  action: number[];
  logZ: number;
  logp: number;
  marginals_mu: number[];
  grad_logp_z: number[];
  entropy: number;
  grad_entropy_z: number[];
  z_old: number[];
  kl_new_old: number;
  grad_kl_z: number[];
  mode: number[];
}
const v6 = vector<{ inputs: { z: number[] }; expected: V6Row[] }>("V6_capped_bernoulli");

describe("capped Bernoulli: golden values", () => {
  it.each(v6.expected)("K = $K", (row) => {
    const { z } = v6.inputs;
    const policy = new CappedBernoulli(z, row.K);
    expectClose([policy.logZ, policy.logProb(row.action)], [row.logZ, row.logp]);
    expectClose(policy.marginals(), row.marginals_mu);
    expectClose(policy.logProbGradient(row.action), row.grad_logp_z);
    expectClose([policy.entropy()], [row.entropy]);
    expectClose([policy.kl(new CappedBernoulli(row.z_old, row.K))], [row.kl_new_old]);
    expect([...policy.mode()]).toEqual(row.mode);
    const entropyOf = (x: number[]) => new CappedBernoulli(x, row.K).entropy();
    const klOf = (x: number[]) => new CappedBernoulli(x, row.K).kl(new CappedBernoulli(row.z_old, row.K));
    expectClose(numericalGradient(entropyOf, z), row.grad_entropy_z);
    expectClose(numericalGradient(klOf, z), row.grad_kl_z);
  });

  it("K = N gives the independent log-probabilities", () => {
    const { inputs, expected } = vector<{
      inputs: { z: number[][][]; a: number[][][] };
      expected: { logp: number[][] };
    }>("V5_bernoulli_router");
    inputs.z.forEach((row, b) => {
      row.forEach((z, t) => {
        const logp = new CappedBernoulli(z, z.length).logProb(inputs.a[b]![t]!);
        expectClose([logp], [expected.logp[b]![t]!]);
      });
    });
  });

  it("enumeration gives the exact expected reward and its gradient", () => {
    const { inputs, expected } = vector<{
      inputs: { z: number[]; subsets: number[][]; reward: number[] };
      expected: { K: number; J: number; grad_z: number[]; probs: number[] }[];
    }>("V12_exact_gradient_oracle");
    for (const row of expected) {
      const policy = new CappedBernoulli(inputs.z, row.K);
      const rewardOf = (action: Uint8Array) =>
        inputs.reward[inputs.subsets.findIndex((s) => s.join() === action.join())]!;
      const { value, gradient } = policy.expectedReward(rewardOf);
      expectClose([value], [row.J]);
      expectClose(gradient, row.grad_z);
      expectClose(
        inputs.subsets.map((s) => Math.exp(policy.logProb(s))),
        row.probs,
      );
    }
  });
});

describe("capped Bernoulli: laws", () => {
  it("probabilities sum to 1; marginals, entropy and KL are those of the enumeration", () => {
    fc.assert(
      fc.property(logits(7), fc.integer({ min: 0, max: 7 }), fc.integer(), (z, cap, seed) => {
        const policy = new CappedBernoulli(z, cap);
        const random = randomOf(seed);
        const old = new CappedBernoulli(
          z.map((x) => x + random() - 0.5),
          cap,
        );
        const all = policy.enumerate();
        const mean = (f: (action: Uint8Array) => number) =>
          all.reduce((sum, { action, probability }) => sum + probability * f(action), 0);
        expect(mean(() => 1)).toBeCloseTo(1, 9);
        expectClose(
          policy.marginals(),
          z.map((_, n) => mean((a) => a[n]!)),
          1e-9,
        );
        expect(policy.entropy()).toBeCloseTo(
          mean((a) => -policy.logProb(a)),
          8,
        );
        expect(policy.kl(old)).toBeCloseTo(
          mean((a) => policy.logProb(a) - old.logProb(a)),
          8,
        );
      }),
    );
  });

  it("is permuted with its specialists", () => {
    fc.assert(
      fc.property(logits(12), fc.integer({ min: 1, max: 12 }), fc.integer(), (z, cap, seed) => {
        const random = randomOf(seed);
        const order = z.map((_, n) => [random(), n] as const).sort(([a], [b]) => a - b);
        const permute = <T>(x: ArrayLike<T>): T[] => order.map(([, n]) => x[n]!);
        const policy = new CappedBernoulli(z, cap);
        const permuted = new CappedBernoulli(permute(z), cap);
        const action = policy.sample(random);
        expect(permuted.logProb(permute(action))).toBeCloseTo(policy.logProb(action), 9);
        expectClose(permuted.marginals(), permute(policy.marginals()), 1e-9);
      }),
    );
  });

  it("K = N is independent Bernoulli with p = sigmoid(z)", () => {
    fc.assert(
      fc.property(logits(20), (z) => {
        const policy = new CappedBernoulli(z, z.length);
        expectClose(
          policy.marginals(),
          z.map((x) => 1 / (1 + Math.exp(-x))),
          1e-9,
        );
        expect(policy.logZ).toBeCloseTo(
          z.reduce((sum, x) => sum + Math.log1p(Math.exp(x)), 0),
          9,
        );
      }),
    );
  });

  it("a forbidden specialist is as if it were not there", () => {
    const { z } = v6.inputs;
    const policy = new CappedBernoulli([z[0]!, -Infinity, ...z.slice(1)], 2);
    const without = new CappedBernoulli(z, 2);
    const mu = without.marginals();
    expectClose(policy.marginals(), [mu[0]!, 0, ...mu.slice(1)], 1e-12);
    expect(policy.entropy()).toBeCloseTo(without.entropy(), 12);
    expect(policy.kl(new CappedBernoulli(policy.logits, 2))).toBeCloseTo(0, 12);
    expect(policy.logProb([0, 1, 0, 0, 0])).toBe(-Infinity);
    expect(new CappedBernoulli([-Infinity, -Infinity], 2).logProb([0, 0])).toBe(0);
    expect(without.kl(new CappedBernoulli([-Infinity, ...z.slice(1)], 2))).toBe(Infinity);
  });

  it("stays finite and normalised at extreme logits", () => {
    const policy = new CappedBernoulli([800, -800, 750, 0], 2);
    expectClose(policy.marginals(), [1, 0, 1, 0], 1e-12);
    expect(policy.logProb([1, 0, 1, 0])).toBeCloseTo(0, 12);
    expect(policy.entropy()).toBeCloseTo(0, 9);
  });
});

describe("capped Bernoulli: decisions", () => {
  it.each([1, 2, 3, 4])("samples follow the enumeration, K = %i", (cap) => {
    const seed = testSeed(`samples K=${cap}`);
    const random = randomOf(seed);
    const policy = new CappedBernoulli(v6.inputs.z, cap);
    const all = policy.enumerate();
    const draws = 20_000;
    const cells = new Map(all.map(({ action }, i) => [action.join(), i]));
    const observed = new Float64Array(all.length);
    for (let i = 0; i < draws; i++) observed[cells.get(policy.sample(random).join())!]! += 1;
    expect(observed.reduce((sum, o) => sum + o, 0)).toBe(draws);
    const statistic = chiSquare(
      observed,
      all.map(({ probability }) => draws * probability),
    );
    expect(statistic).toBeLessThan(chiSquareQuantile(all.length - 1));
  });

  it("threshold shifts the decision, the cap keeps the largest", () => {
    const policy = new CappedBernoulli([0.4, -0.7, 1.1, 0.2], 2);
    expect([...policy.mode(0.1)]).toEqual([1, 0, 1, 0]);
    expect([...policy.mode(0.7)]).toEqual([0, 0, 1, 0]);
    expect([...policy.mode(1)]).toEqual([0, 0, 0, 0]);
    expect([...new CappedBernoulli([1, 1, 1], 2).mode()]).toEqual([1, 1, 0]);
  });

  it("refuses what it cannot answer", () => {
    expect(() => new CappedBernoulli([0, Number.NaN], 1)).toThrow(/logits\[1\]/);
    expect(() => new CappedBernoulli([Infinity], 1)).toThrow(/logits\[0\]/);
    expect(() => new CappedBernoulli([0], 0.5)).toThrow(/cap/);
    expect(() => new CappedBernoulli(Array(11).fill(0), 3).enumerate()).toThrow(/at most 10/);
    expect(() => new CappedBernoulli([0, 1], 1).kl(new CappedBernoulli([0, 1], 2))).toThrow(/cap 1, got 2/);
    expect(() => new CappedBernoulli([0, 1], 1).logProb([1])).toThrow(/2 specialists/);
  });
});
