import { expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import { hardLabels } from "../../lib/experiment/hardLabels.js";
import type { Outcomes } from "../../lib/experiment/outcomes.js";
import { contributions, meanContributions } from "../../lib/experiment/parl/contribution.js";
import {
  compareFrontiers,
  comparisonText,
  controlText,
  frontierOf,
  meanCurve,
  ROUTERS,
} from "../../lib/experiment/parl/frontier.js";
import { selectivity } from "../../lib/experiment/parl/selectivity.js";
import {
  bestFixedRouting,
  confidenceQuantile,
  confidenceRouting,
  constantRouting,
  learnedRouting,
  predictedUnder,
  randomRouting,
  ratesOf,
  scoreOf,
  shuffledRouting,
} from "../../lib/experiment/routings.js";

/**
 * Four columns of two labels. The primary is right on columns 0 and 2; specialist 0 mends column 1, specialist 1 column 3, and the
 * router knows. Confidence is lowest on column 1, then on column 0, which needs nobody.
 */
const made: Outcomes = {
  labels: ["x", "y"],
  specialists: ["first", "second"],
  truth: [0, 0, 1, 1],
  groups: ["left", "left", "right", "right"],
  logits: [
    [-3, -2],
    [2, -1],
    [-4, -2.5],
    [-1.5, 1],
  ],
  predicted: [
    [0, 1, 1, 0],
    [0, 0, 1, 0],
    [0, 1, 1, 1],
    [0, 0, 1, 1],
  ],
  confidence: [0.6, 0.5, 0.9, 0.7],
  steps: { main: 4, prefix: 1, sub: [4, 2] },
};

test("what specialists add to hand-made outcomes, by group", () => {
  const gains = (first: number, second: number) => ({ first, second });
  const left = { group: "left", columns: 2, none: 0.5, single: gains(0.5, 0), allOn: 0.5, best: 0.5 };
  const right = { group: "right", columns: 2, none: 0.5, single: gains(0, 0.5), allOn: 0.5, best: 0.5 };
  const all = { group: "all", columns: 4, none: 0.5, single: gains(0.25, 0.25), allOn: 0.5, best: 0.5 };
  expect(contributions(made)).toEqual([left, right, all]);
  // Another seed of which no routing but the second specialist's is right, and that on column 3 alone.
  const wrong = [1, 1, 0, 0];
  const poor = { ...made, predicted: [wrong, wrong, [1, 1, 0, 1], wrong] };
  expect(meanContributions([contributions(made), contributions(poor)])[1]).toEqual({
    group: "right",
    columns: 2,
    none: 0.25,
    single: gains(0, 0.5),
    allOn: 0.25,
    best: 0.5,
  });
  const skipped = { ...made, predicted: [made.predicted[0]!, [null, 0, 0, 0], ...made.predicted.slice(2)] };
  expect(() => contributions(skipped)).toThrow("routing 1 of column 0 was not evaluated");
});

test("routings of hand-made outcomes", () => {
  expect(learnedRouting(made)).toEqual([0, 1, 0, 2]);
  expect(learnedRouting(made, 0)).toEqual([3, 3, 3, 3]);
  expect(learnedRouting(made, 1)).toEqual([0, 0, 0, 0]);
  expect(learnedRouting(made, 0, 1)).toEqual([2, 1, 2, 2]);
  expect(confidenceRouting(made, confidenceQuantile(made, 0.5))).toEqual([3, 3, 0, 0]);
  expect(confidenceRouting(made, confidenceQuantile(made, 1))).toEqual([3, 3, 3, 3]);
  expect(confidenceRouting(made, confidenceQuantile(made, 0))).toEqual([0, 0, 0, 0]);
  expect(bestFixedRouting(made)).toBe(3);
  expect(ratesOf([0, 1, 0, 2], 2)).toEqual([0.25, 0.25]);
  expect(shuffledRouting([0, 1, 0, 2], new Random(0)).toSorted()).toEqual([0, 0, 1, 2]);
  const rates = ratesOf(randomRouting(4000, [0.2, 0.7], new Random(5)), 2);
  expect(rates[0]).toBeCloseTo(0.2, 1);
  expect(rates[1]).toBeCloseTo(0.7, 1);
});

test("scores: F1, activation, critical steps and work", () => {
  expect(scoreOf(made, learnedRouting(made))).toEqual({
    macroF1: 1,
    microF1: 1,
    hardF1: null,
    activation: 0.25,
    // 4, 4+4, 4, 4+2 blocks.
    steps: 5.5,
    work: 5.5,
  });
  const on = scoreOf(made, constantRouting(made, 3));
  expect(on).toMatchObject({ macroF1: 1, activation: 1, steps: 8, work: 10 });
  expect(scoreOf(made, constantRouting(made, 0), { hard: ["y"] })).toMatchObject({
    macroF1: 0.5,
    hardF1: 0.5,
    steps: 4,
    work: 4,
  });
  // Where specialists are asked after the primary's own answer, its blocks after the prefix run twice.
  const asked = scoreOf(made, [3, 3, 0, 0], { firstPass: true });
  expect(asked.steps).toBe((2 * (4 + 3 + 4) + 2 * 4) / 4);
  expect(asked.work).toBe((2 * (4 + 3 + 6) + 2 * 4) / 4);
});

test("the frontier's ends are all-off and all-on, and the comparison says where the router lies below", () => {
  const frontier = frontierOf(made, 0);
  const ends = ({ learned }: typeof frontier) => [learned[0], learned.at(-1)];
  expect(ends(frontier)[0]).toMatchObject({ macroF1: 0.5, work: 4, activation: 0 });
  expect(ends(frontier)[1]).toMatchObject({ macroF1: 1, work: 10, activation: 1 });
  const curve = meanCurve([frontier, frontier], "learned", "work");
  expect(curve[0]).toEqual([4, 0.5]);
  expect(curve.at(-1)).toEqual([10, 1]);
  const rival = compareFrontiers([frontier, frontier], "primary's confidence", "work");
  // At 5.5 blocks the router is right everywhere, and the confidence has mended one column.
  const gap = rival.gaps.find(({ at }) => at === 5.5)!.gap;
  expect(gap.mean).toBeCloseTo(1 - scoreOf(made, [0, 3, 0, 0]).macroF1, 2);
  expect(comparisonText(rival)).toMatch(/above primary's confidence at .* and nowhere below/);

  const worse: Outcomes = { ...made, logits: made.logits.map((z) => z.map((value) => -value)) };
  const text = comparisonText(compareFrontiers([frontierOf(worse, 0)], "primary's confidence", "work"));
  expect(text).toMatch(/nowhere above primary's confidence, and below it at 4\.3–9\.8/);
  const curves = ROUTERS.map((name) => ({ name, points: meanCurve([frontier], name, "work") }));
  expect(controlText(curves, "all on")).toMatch(/All on: macro F1 100\.0 at 10\.0 .* as much from 5\.5 on/);
  const lowered = (by: number) =>
    curves.map(({ name, points }) => ({
      name,
      points: points.map(([at, f1]): [number, number] => [at, name === "learned" ? f1 - by : f1]),
    }));
  expect(controlText(lowered(0.005), "all on")).toMatch(
    /has never as much, and a point less from 5\.5 on\.$/,
  );
  expect(controlText(lowered(0.02), "all on")).toMatch(/has more than a point less at every cost\.$/);
  expect(compareFrontiers([frontier], "all on", "work").gaps).toMatchObject([{ at: 10, gap: { mean: 0 } }]);
});

test("hard labels and selectivity", () => {
  const labels = ["a", "b", "c", "d"];
  const alone: Outcomes = {
    ...made,
    labels,
    truth: [0, 0, 1, 1, 2, 2, 3, 3],
    predicted: [[0, 0, 1, 1, 0, 1, 3, 3]],
  };
  const said = { ...alone, predicted: predictedUnder(alone, constantRouting(alone, 0)) };
  expect(hardLabels(said, [])).toEqual(["c"]);
  expect(hardLabels(said, ["d", "elsewhere"])).toEqual(["d"]);
  const { activation, group } = selectivity(made, learnedRouting(made));
  expect(activation).toEqual({ left: { first: 0.5, second: 0 }, right: { first: 0, second: 0.5 } });
  // H(group) = 1, H(routing) = 1.5, H(both) = 2.
  expect(group.bits).toBeCloseTo(0.5, 12);
});
