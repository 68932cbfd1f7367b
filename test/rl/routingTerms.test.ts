import { describe, expect, it } from "vitest";
import { CappedBernoulli } from "../../lib/rl/policy.js";
import { parallelReward } from "../../lib/rl/rewards.js";
import {
  degeneratePenalty,
  parallelDifferenceRewards,
  parallelSurrogate,
  RoutingMonitor,
} from "../../lib/rl/routingTerms.js";
import { cosine, expectClose, randomOf, vector } from "./support.js";

/** Covariance of one row's policy times a vector, by enumeration: the Jacobian of the marginals. */
function covarianceTimes(policy: CappedBernoulli, v: number[]): number[] {
  const mu = policy.marginals();
  const mean = mu.reduce((sum, m, n) => sum + m * v[n]!, 0);
  return Array.from(mu, (_, n) =>
    policy
      .enumerate()
      .reduce(
        (sum, { action, probability }) =>
          sum + probability * (action[n]! - mu[n]!) * (action.reduce((s, a, i) => s + a * v[i]!, 0) - mean),
        0,
      ),
  );
}

/** Every joint action of independent rows, with its probability. */
function* jointActions(policies: CappedBernoulli[]): Generator<{ actions: number[]; probability: number }> {
  if (policies.length === 0) {
    yield { actions: [], probability: 1 };
    return;
  }
  const first = policies[0]!.enumerate();
  for (const rest of jointActions(policies.slice(1)))
    for (const { action, probability } of first)
      yield { actions: [...action, ...rest.actions], probability: probability * rest.probability };
}

describe("mean-field surrogate of r_parallel", () => {
  const rows = 4;
  const numSpecialists = 3;
  const cases = [
    { name: "standard phase, balanced start", cap: 3, rho: 0.5, bias: [0, 0, 0] },
    { name: "standard phase, one favoured", cap: 3, rho: 0.5, bias: [1.5, -0.5, -1] },
    { name: "standard phase, nearly always on", cap: 3, rho: 0.5, bias: [2, 2.5, 2] },
    { name: "budget phase K = 1", cap: 1, rho: 1 / 3, bias: [1, 0, -1] },
  ];

  it.each(cases)(
    "gives the gradient of the expected reward, exactly where nothing is capped: $name",
    ({ cap, rho, bias }) => {
      const random = randomOf(11);
      const policies = Array.from(
        { length: rows },
        () =>
          new CappedBernoulli(
            bias.map((b) => b + random() - 0.5),
            cap,
          ),
      );
      const marginals = policies.flatMap((policy) => [...policy.marginals()]);
      const truth = new Float64Array(rows * numSpecialists);
      const coefficients = new Float64Array(rows * numSpecialists);
      for (const { actions, probability } of jointActions(policies)) {
        const counts = [0, 1, 2].map((n) =>
          actions.reduce((sum, a, i) => (i % numSpecialists === n ? sum + a : sum), 0),
        );
        const reward = parallelReward(counts, rows, { rho })!;
        const term = parallelSurrogate({ actions, rows, numSpecialists }, rho);
        expect(term.value).toBe(reward);
        for (let i = 0; i < truth.length; i++) {
          truth[i]! += probability * reward * (actions[i]! - marginals[i]!);
          coefficients[i]! += probability * term.coefficients[i]!;
        }
      }
      const surrogate = policies.flatMap((policy, b) =>
        covarianceTimes(policy, [...coefficients.slice(b * numSpecialists, (b + 1) * numSpecialists)]),
      );
      expect(cosine(surrogate, truth)).toBeGreaterThan(0.94);
      if (cap === numSpecialists) expectClose(surrogate, truth, 1e-12);
    },
  );

  it("averages over draws laid out as (G,R,N)", () => {
    const first = [1, 0, 0, 1];
    const second = [1, 1, 1, 0];
    const one = parallelSurrogate({ actions: first, rows: 2, numSpecialists: 2 });
    const two = parallelSurrogate({ actions: second, rows: 2, numSpecialists: 2 });
    const both = parallelSurrogate({ actions: [...first, ...second], rows: 2, numSpecialists: 2 });
    expect(both.value).toBeCloseTo((one.value + two.value) / 2, 12);
    expectClose(
      both.coefficients,
      one.coefficients.map((c, i) => (c + two.coefficients[i]!) / 2),
      1e-12,
    );
  });

  it("pushes away from always-on and towards use at always-off", () => {
    const shape = { rows: 4, numSpecialists: 3 };
    const on = parallelSurrogate({ actions: Array(12).fill(1), ...shape });
    expect(Math.max(...on.coefficients)).toBeLessThan(0);
    const off = parallelSurrogate({ actions: Array(12).fill(0), ...shape });
    expect(off.value).toBe(0);
    expect(Math.min(...off.coefficients)).toBeGreaterThan(0);
  });

  it("refuses shapes that do not agree", () => {
    const shape = { rows: 2, numSpecialists: 2 };
    expect(() => parallelSurrogate({ actions: [1, 0, 1], ...shape })).toThrow(/\(G,R,N\)/);
  });
});

describe("difference rewards", () => {
  it("are what a row adds to the joint draw", () => {
    const actions = [1, 0, 0, 1, 0, 0];
    const out = parallelDifferenceRewards({ actions, rows: 3, numSpecialists: 2 });
    const whole = parallelReward([1, 1], 3)!;
    expectClose(out, [whole - parallelReward([0, 1], 3)!, whole - parallelReward([1, 0], 3)!, 0], 1e-12);
  });
});

describe("degeneracy penalty", () => {
  const { rows } = vector<{
    rows: {
      case: string;
      probs: number[][];
      p_on: number;
      p_off: number;
      mutual_info: number | null;
      p_const: number;
      penalty: number;
    }[];
  }>("V7_degenerate_penalty");

  it.each(rows)("agrees with the golden values: $case", (row) => {
    const result = degeneratePenalty(row.probs.flat(), 2);
    expectClose(
      [result.pOn, result.pOff, result.pConst, result.penalty],
      [row.p_on, row.p_off, row.p_const, row.penalty],
    );
    if (row.mutual_info === null) expect(result.mutualInfo).toBeNull();
    else expectClose([result.mutualInfo!], [row.mutual_info]);
  });

  it("measures the rate against the cap", () => {
    expect(degeneratePenalty([0.5, 0.5, 0.48, 0.52], 2, 1).pOn).toBeCloseTo(1, 12);
    expect(degeneratePenalty([0.5, 0.5, 0.48, 0.52], 2).pOn).toBe(0);
  });

  it("holds pConst back until the window is full, then judges small batches by it", () => {
    const monitor = new RoutingMonitor(2, 8);
    const selective = [0.9, 0.1];
    const other = [0.1, 0.9];
    for (let i = 0; i < 3; i++) {
      expect(monitor.update([...selective, ...other])).toMatchObject({ pConst: 0, mutualInfo: null });
    }
    expect(monitor.update([...selective, ...other]).mutualInfo).toBeGreaterThan(0.3);
    // Rows of one kind only: the batch alone would look constant.
    expect(monitor.update([...selective, ...selective]).penalty).toBe(0);
    for (let i = 0; i < 60; i++) monitor.update([...selective, ...selective]);
    expect(monitor.update([...selective, ...selective]).pConst).toBeGreaterThan(0.9);
  });

  it("continues from a saved state", () => {
    const monitor = new RoutingMonitor(2, 4);
    monitor.update([0.2, 0.8, 0.3, 0.6, 0.9, 0.1]);
    const copy = new RoutingMonitor(2, 4);
    copy.restore(JSON.parse(JSON.stringify(monitor.state())));
    expect(copy.update([0.5, 0.4])).toEqual(monitor.update([0.5, 0.4]));
  });

  it.each([
    { name: "on", probs: [0.97, 0.98, 0.99, 0.975, 0.985, 0.96], cap: 2 },
    { name: "off", probs: [0.03, 0.02, 0.01, 0.025, 0.015, 0.04], cap: 2 },
    { name: "constant", probs: [0.6, 0.3, 0.5, 0.35, 0.55, 0.25], cap: 2 },
  ])("the coefficients are the derivative of the components that act: $name", ({ probs, cap }) => {
    const sum = (p: number[]) => {
      const { pOn, pOff, pConst } = degeneratePenalty(p, 2, cap);
      return pOn + pOff + pConst;
    };
    const h = 1e-6;
    const numerical = probs.map((_, n) => {
      const at = (delta: number) => sum(probs.map((p, i) => (i === n ? p + delta : p)));
      return (at(h) - at(-h)) / (2 * h);
    });
    const { coefficients, penalty } = new RoutingMonitor(2, 3).update(probs, cap);
    expect(penalty).toBeGreaterThan(0);
    expectClose(coefficients, numerical, 1e-6);
  });

  it("a router that is not degenerate gets no gradient", () => {
    const { coefficients } = new RoutingMonitor(2, 2).update([0.9, 0.1, 0.1, 0.9]);
    expect(Math.max(...coefficients.map(Math.abs))).toBe(0);
  });
});
