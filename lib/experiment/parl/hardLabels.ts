import { classificationReport } from "../../data/metrics.js";
import type { Outcomes } from "./outcomes.js";
import { constantRouting, predictedUnder } from "./routings.js";

/** Share of the labels that count as hard where no list is given. */
const HARD_SHARE = 0.25;

/**
 * The hard labels of a data set: those of a known list (SOTAB's), else the quarter of the labels with the lowest F1 of the primary
 * alone on the validation columns.
 * @param known labels known to be hard; those that occur among the outcomes' labels are taken
 */
export function hardLabels(alone: Outcomes, known: readonly string[]): string[] {
  const listed = known.filter((label) => alone.labels.includes(label));
  if (listed.length > 0) return listed;
  const { perClass } = classificationReport(
    alone.truth,
    predictedUnder(alone, constantRouting(alone, 0)),
    alone.labels,
  );
  const present = perClass.filter(({ support }) => support > 0).sort((a, b) => a.f1 - b.f1);
  return present.slice(0, Math.max(1, Math.round(HARD_SHARE * present.length))).map(({ label }) => label);
}
