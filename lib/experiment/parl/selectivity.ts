import { type MutualInformation, mutualInformation } from "../mutualInformation.js";
import type { Outcomes } from "../outcomes.js";
import { type Routings, ratesOf } from "../routings.js";

/** How a router tells its inputs apart. */
export interface Selectivity {
  /** Share of a group's columns that activate each specialist: [group][specialist]. */
  activation: Record<string, Record<string, number>>;
  /** Between a column's group (domain or label family) and its routing. */
  group: MutualInformation;
  /** Between a column's label and its routing. */
  label: MutualInformation;
}

export function selectivity({ groups, truth, specialists }: Outcomes, routings: Routings): Selectivity {
  const names = [...new Set(groups)].sort();
  return {
    activation: Object.fromEntries(
      names.map((name) => {
        const own = routings.filter((_, row) => groups[row] === name);
        const rates = ratesOf(own, specialists.length);
        return [name, Object.fromEntries(specialists.map((id, i) => [id, rates[i]!]))];
      }),
    ),
    group: mutualInformation(groups, routings),
    label: mutualInformation(truth, routings),
  };
}
