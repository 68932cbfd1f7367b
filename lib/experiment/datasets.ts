import { selectColumns } from "../data/dataset.js";
import { FAMILIES, labelFamilies } from "../data/families.js";
import { DOMAIN_NAMES } from "../data/generator.js";
import type { Dataset, LabelledColumn } from "../data/types.js";
import { type DataSource, openDataSource } from "../train/dataSource.js";
import { trainableLabels } from "../train/examples.js";

/** How columns are grouped: generated ones by domain, real ones by the family of their label. */
export type Grouping = "domains" | "families";

/** Labelled tables, opened once; columns of labels that training has none of are left out, for no arm can know them. */
export class Datasets {
  private readonly open = new Map<string, Promise<Dataset>>();

  get(source: DataSource): Promise<Dataset> {
    const key = JSON.stringify(source);
    const present = this.open.get(key);
    if (present) return present;
    const opened = openDataSource(source).then((dataset) => {
      const known = new Set(trainableLabels(dataset));
      return selectColumns(dataset, dataset.name, ({ label }) => known.has(label));
    });
    this.open.set(key, opened);
    return opened;
  }
}

/** The group of each column of a data set. */
export function groupsOf(dataset: Dataset, grouping: Grouping): (column: LabelledColumn) => string {
  if (grouping === "domains") return ({ domain }) => domain ?? "none";
  const families = labelFamilies(dataset);
  return ({ label }) => families.get(label) ?? "none";
}

/** The groups that a data set has training columns of. */
export function groupNames(dataset: Dataset, grouping: Grouping): string[] {
  const present = new Set(dataset.splits.train.map(groupsOf(dataset, grouping)));
  const names: readonly string[] = grouping === "domains" ? DOMAIN_NAMES : FAMILIES;
  return names.filter((name) => present.has(name));
}
