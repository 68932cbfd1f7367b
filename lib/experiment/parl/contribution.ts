import { mean } from "../../train/statistics.js";
import type { Outcomes } from "../outcomes.js";
import { allOn, constantRouting, predictedUnder } from "../routings.js";

/** What there is to route: shares of columns annotated rightly, of one group of columns or of all. */
export interface Contribution {
  /** A domain or label family; "all". */
  group: string;
  columns: number;
  /** With no specialist. */
  none: number;
  /** Gained over none where one specialist is called for every column, by specialist. */
  single: Record<string, number>;
  /** Gained where all are. */
  allOn: number;
  /** Gained where every column has a routing that is right, if there is one: the bound of any router. */
  best: number;
}

/** By group in order of name, then of all columns. */
export function contributions(outcomes: Outcomes): Contribution[] {
  const names = [...new Set(outcomes.groups)].sort();
  const all = outcomes.truth.map((_, row) => row);
  return [
    ...names.map((group) =>
      contribution(
        outcomes,
        group,
        all.filter((row) => outcomes.groups[row] === group),
      ),
    ),
    contribution(outcomes, "all", all),
  ];
}

function contribution(outcomes: Outcomes, group: string, rows: readonly number[]): Contribution {
  const { truth, specialists, predicted } = outcomes;
  const rightUnder = (routing: number) => {
    const labels = predictedUnder(outcomes, constantRouting(outcomes, routing));
    return mean(rows.map((row) => (labels[row] === truth[row] ? 1 : 0)));
  };
  const none = rightUnder(0);
  const best = mean(rows.map((row) => (predicted.some((labels) => labels[row] === truth[row]) ? 1 : 0)));
  return {
    group,
    columns: rows.length,
    none,
    single: Object.fromEntries(specialists.map((id, i) => [id, rightUnder(1 << i) - none])),
    allOn: rightUnder(allOn(outcomes)) - none,
    best: best - none,
  };
}

/** The mean over seeds, group by group. */
export function meanContributions(seeds: readonly (readonly Contribution[])[]): Contribution[] {
  const groups = [...new Set(seeds.flat().map(({ group }) => group))];
  return groups.map((group) => {
    const own = seeds.flat().filter((each) => each.group === group);
    const of = (value: (each: Contribution) => number) => mean(own.map(value));
    return {
      group,
      columns: of(({ columns }) => columns),
      none: of(({ none }) => none),
      single: Object.fromEntries(
        Object.keys(own[0]!.single).map((id) => [id, of(({ single }) => single[id]!)]),
      ),
      allOn: of((each) => each.allOn),
      best: of((each) => each.best),
    };
  });
}
