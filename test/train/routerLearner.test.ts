import { describe, expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import { criticalStepsOf } from "../../lib/train/criticalSteps.js";
import { meanFigures } from "../../lib/train/meanFigures.js";
import { enumerates, type ParlOptions, parlOptions } from "../../lib/train/parlOptions.js";
import { correctPerf, loglikPerf } from "../../lib/train/routerLearner.js";
import { withoutFailed } from "../../lib/train/specialistAnswers.js";
import { Scope } from "../../lib/train/tensors.js";
import { useLane } from "../rl/nativeSupport.js";
import { expectClose } from "../rl/support.js";
import { budget, RouterTask, type RoutingRows, standard } from "./routerTask.js";

const t = useLane();
const n = 3;
const dims = 4;
const plain: ParlOptions = {
  cost: 0,
  entropyBonus: 0,
  lambdaParallel: 0,
  lambdaFinish: 0,
  lambdaSchedule: "constant",
};

function rowsOf(count: number, reward: RoutingRows["reward"], seed = 1): RoutingRows {
  const random = new Random(seed, "rows");
  return { features: Float32Array.from({ length: count * dims }, () => random.gaussian()), reward };
}

describe("what a routing is paid", () => {
  test("Toggle: in a budget phase a row that answers well enough pays dear routings the lowest reward, else all keep theirs", async () => {
    const rows = rowsOf(4, () => 1);
    const advantageOf = async (options: ParlOptions, phase = budget(n, n)) => {
      using task = new RouterTask(t.lane, dims, n, 1, { ...plain, ...options });
      using scope = new Scope();
      const { figures, experience } = await task.route(rows, phase, 0, scope);
      return { figures, advantages: [...(experience.advantages.data() as Float32Array)] };
    };
    // The fixture counts a finished rollout as correct: the budget is the median number of activations.
    const on = await advantageOf({ toggle: 0.5, togglePercentile: 50 });
    expect(on.figures.toggleBudget).toBe(1.5);
    // Routings in order of their bits: 000 100 010 110 001 101 011 111; the first row's.
    const first = Array.from({ length: 8 }, (_, g) => on.advantages[g * 4]!);
    const dear = first.filter((a) => a < 0);
    expect(dear.length).toBe(4);
    expect([3, 5, 6, 7].every((g) => first[g]! < 0)).toBe(true);
    for (const quiet of [
      await advantageOf({ toggle: 1.5 }),
      await advantageOf({ toggle: 0.5 }, standard(n)),
      await advantageOf({}),
    ])
      expect(Math.max(...quiet.advantages.map(Math.abs))).toBeLessThan(1e-6);
  });

  test("critical steps beyond their budget are paid for, by count", async () => {
    // The fixture's primary has 4 blocks, every specialist 2: 6 with any of them.
    using task = new RouterTask(t.lane, dims, n, 1, { ...plain, stepsBudget: 5, stepsPenalty: 2 });
    const { stepsPenalty } = await task.step(
      rowsOf(8, () => 0),
      standard(n),
      0,
    );
    // p = .5: seven routings of eight activate somebody.
    expect(stepsPenalty).toBeCloseTo((7 / 8) * 2 * (1 / 5), 6);
    expect(criticalStepsOf([0, 0, 1, 0, 1, 1], { main: 4, sub: [2, 5] })).toEqual([4, 6, 9]);
  });

  test("of two specialists that do equally well the cheaper one is asked", async () => {
    for (const [prices, cheap, dear] of [
      [[0.7, 0.1, 0.2], 1, 0],
      [[0.1, 0.7, 0.2], 0, 1],
    ] as const) {
      using task = new RouterTask(t.lane, dims, n, 1, { ...plain, cost: 0.5, routerLr: 5e-2 }, {}, prices);
      const rows = rowsOf(32, (_, action) => (action[0] || action[1] ? 0 : -1));
      for (let step = 0; step < 400; step++) await task.step(rows, standard(n), 0);
      const { rates } = await task.deployed(rows, n);
      expect(rates[cheap]).toBeGreaterThan(0.95);
      expect(rates[dear]).toBeLessThan(0.1);
      expect(rates[2]).toBeLessThan(0.1);
    }
  });

  test("a controller of the cost brings the activation to its target", async () => {
    using task = new RouterTask(t.lane, dims, n, 1, { ...plain, targetRate: 0.2, routerLr: 5e-2 });
    const rows = rowsOf(32, () => 0);
    const late: number[] = [];
    for (let step = 0; step < 200; step++) {
      const { activation } = await task.step(rows, standard(n), 0);
      if (step >= 150) late.push(activation as number);
    }
    expect(late.reduce((sum, rate) => sum + rate / late.length, 0)).toBeLessThan(0.35);
  });

  test("r_perf: floored log-likelihood, or the weight of the class where right", () => {
    const outcome = { logp: [-0.5, -9, -1, -2], correct: [1, 0, 1, 1], finished: [1, 1, 1, 1] };
    expect([...loglikPerf.of(outcome, Int32Array.of(0, 1))]).toEqual([-0.5, -3, -1, -2]);
    expect([...correctPerf(Float64Array.of(2, 0.5)).of(outcome, Int32Array.of(0, 1))]).toEqual([
      2, 0, 2, 0.5,
    ]);
  });
});

describe("updates", () => {
  test("two batches whose gradients add up are one batch of all their rows", async () => {
    const all = rowsOf(12, (row, action) => (row % 3 === 0 ? 1 : 0) * action[0]! - 0.2 * action[1]!);
    const part = (from: number, to: number): RoutingRows => ({
      features: all.features.slice(from * dims, to * dims),
      reward: (row, action) => all.reward(from + row, action),
    });
    const weightsAfter = async (parts: RoutingRows[]) => {
      using task = new RouterTask(t.lane, dims, n, 1, plain);
      for (let step = 0; step < 3; step++) await task.stepOf(parts, standard(n), 0);
      return task.weights();
    };
    const whole = await weightsAfter([all]);
    expect(Math.max(...whole.map(Math.abs))).toBeGreaterThan(0.01);
    // AdamW divides by the gradient's size: what is near 0 shows its rounding.
    expectClose(await weightsAfter([part(0, 5), part(5, 12)]), whole, 1e-4);
  });

  test("a KL penalty keeps the policy nearer to the one that drew", async () => {
    const rows = rowsOf(32, (_, action) => action[0]! - action[1]!);
    const distance = async (klCoef: number) => {
      using task = new RouterTask(t.lane, dims, n, 1, { ...plain, epochs: 8, routerLr: 0.05, klCoef });
      const before = await task.probabilities(rows.features, n);
      await task.step(rows, standard(n), 0);
      const after = await task.probabilities(rows.features, n);
      return before.reduce(
        (sum, row, i) =>
          sum +
          row.reduce(
            (part, { probability }, g) => part + Math.abs(probability - after[i]![g]!.probability),
            0,
          ),
        0,
      );
    };
    expect(await distance(10)).toBeLessThan(0.7 * (await distance(0)));
  });

  test("figures of several batches are means, lists element by element", () => {
    const figures = [
      { phase: "budget", loss: 1, rates: [0, 1] },
      { phase: "budget", loss: 3, rates: [1, 1] },
    ];
    expect(meanFigures(figures)).toEqual({ phase: "budget", loss: 2, rates: [0.5, 1] });
    expect(meanFigures([])).toEqual({});
  });
});

describe("options", () => {
  const of = (options: ParlOptions, specialists: number) =>
    enumerates(parlOptions.parse(options), specialists);

  test("all routings are evaluated by default for up to three specialists, on demand for up to ten", () => {
    expect([1, 3, 4].map((count) => of({}, count))).toEqual([true, true, false]);
    expect(of({ estimator: "enumerate" }, 10)).toBe(true);
    expect(() => of({ estimator: "enumerate" }, 11)).toThrow(/at most 10 specialists, got 11; use sample/);
    expect(of({ normalise: "gdpo" }, 2)).toBe(false);
    expect(of({ parallelCredit: "difference" }, 2)).toBe(false);
    expect(() => of({ estimator: "enumerate", parallelCredit: "difference" }, 2)).toThrow(/drawn routings/);
  });

  test("routings go on without the specialists that failed", () => {
    const actions = Uint8Array.of(1, 1, 0, 1);
    expect([...withoutFailed(actions, [false, true])]).toEqual([1, 0, 0, 0]);
    expect(withoutFailed(actions, [false, false])).toBe(actions);
  });
});
