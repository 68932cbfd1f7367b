import { HARD_LABELS } from "../data/families.js";
import { classificationReport } from "../data/metrics.js";

/** Share of the labels that count as hard where no list is given. */
const HARD_SHARE = 0.25;

/**
 * The hard labels of a data set: those of a known list (SOTAB's), else the quarter of the labels with the lowest F1 of a simple system on
 * the validation columns.
 * @param system truth and what it says, as ids of the labels, column by column
 * @param known labels known to be hard; those that occur among `labels` are taken
 */
export function hardLabels(
  {
    labels,
    truth,
    predicted,
  }: { labels: readonly string[]; truth: readonly number[]; predicted: readonly number[] },
  known: readonly string[] = HARD_LABELS,
): string[] {
  const listed = known.filter((label) => labels.includes(label));
  if (listed.length > 0) return listed;
  const { perClass } = classificationReport(truth, predicted, labels);
  const present = perClass.filter(({ support }) => support > 0).sort((a, b) => a.f1 - b.f1);
  return present.slice(0, Math.max(1, Math.round(HARD_SHARE * present.length))).map(({ label }) => label);
}
