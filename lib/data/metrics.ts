import { AegirError } from "../errors.js";

/** The prediction of a head that abstains. */
export const ABSTAIN = -1;

/** How often each class id occurs, (classes). */
export function classCounts(ids: ArrayLike<number>, classes: number): number[] {
  const counts = new Array<number>(classes).fill(0);
  for (let i = 0; i < ids.length; i++) counts[ids[i]!]!++;
  return counts;
}

export interface ClassScore {
  label: string;
  precision: number;
  recall: number;
  f1: number;
  /** Columns that truly have this label. */
  support: number;
}

export interface Confusion {
  truth: string;
  predicted: string;
  count: number;
}

export interface ClassificationReport {
  n: number;
  /** 2 TP / (labelled + answered). */
  microF1: number;
  /** Mean F1 over the classes that occur in truth or predictions. */
  macroF1: number;
  /** Share of all columns that are right; abstaining is not. */
  accuracy: number;
  /** Share of columns that got an answer. */
  coverage: number;
  /** The classes that occur in truth or predictions, in label order. */
  perClass: ClassScore[];
  /** Wrong answers by pair, most frequent first. */
  confusions: Confusion[];
}

/**
 * Scores of predictions (class ids, ABSTAIN for no answer) against the truth, as docs/rl.md §5 defines them. Empty input scores 0.
 * @throws AegirError ERR_ARGUMENT where the lengths differ or an id is not a class
 */
export function classificationReport(
  truth: ArrayLike<number>,
  predicted: ArrayLike<number>,
  labels: readonly string[],
): ClassificationReport {
  checkIds(truth, predicted, labels.length);
  const n = truth.length;
  const support = new Float64Array(labels.length);
  const answers = new Float64Array(labels.length);
  const hits = new Float64Array(labels.length);
  const pairs = new Map<number, number>();
  let answered = 0;
  let right = 0;
  for (let i = 0; i < n; i++) {
    const [y, p] = [truth[i]!, predicted[i]!];
    support[y]! += 1;
    if (p === ABSTAIN) continue;
    answered += 1;
    answers[p]! += 1;
    if (p === y) {
      hits[y]! += 1;
      right += 1;
    } else {
      const pair = y * labels.length + p;
      pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
    }
  }
  const perClass: ClassScore[] = [];
  for (const [id, label] of labels.entries()) {
    if (support[id] === 0 && answers[id] === 0) continue;
    perClass.push({
      label,
      precision: ratio(hits[id]!, answers[id]!),
      recall: ratio(hits[id]!, support[id]!),
      f1: ratio(2 * hits[id]!, support[id]! + answers[id]!),
      support: support[id]!,
    });
  }
  return {
    n,
    microF1: ratio(2 * right, n + answered),
    macroF1: ratio(
      perClass.reduce((sum, score) => sum + score.f1, 0),
      perClass.length,
    ),
    accuracy: ratio(right, n),
    coverage: ratio(answered, n),
    perClass,
    confusions: sortedConfusions(pairs, labels),
  };
}

function ratio(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}

function sortedConfusions(pairs: ReadonlyMap<number, number>, labels: readonly string[]): Confusion[] {
  return [...pairs]
    .sort(([pairA, a], [pairB, b]) => b - a || pairA - pairB)
    .map(([pair, count]) => ({
      truth: labels[Math.floor(pair / labels.length)]!,
      predicted: labels[pair % labels.length]!,
      count,
    }));
}

function checkIds(truth: ArrayLike<number>, predicted: ArrayLike<number>, classes: number): void {
  if (truth.length !== predicted.length) {
    throw new AegirError(
      "ERR_ARGUMENT",
      `predicted has ${predicted.length} entries and truth ${truth.length}: expected as many`,
    );
  }
  const isClass = (id: number) => Number.isInteger(id) && id >= 0 && id < classes;
  for (let i = 0; i < truth.length; i++) {
    if (!isClass(truth[i]!)) {
      throw new AegirError(
        "ERR_ARGUMENT",
        `truth[${i}] was ${truth[i]}, expected a class id from 0 to ${classes - 1}`,
      );
    }
    if (predicted[i] !== ABSTAIN && !isClass(predicted[i]!)) {
      throw new AegirError(
        "ERR_ARGUMENT",
        `predicted[${i}] was ${predicted[i]}, expected a class id from 0 to ${classes - 1} or -1 (no answer)`,
      );
    }
  }
}

/** Counts by true label (rows) and predicted label (columns, "–" for no answer) as aligned text; zeros are dots. */
export function confusionMatrix(
  truth: ArrayLike<number>,
  predicted: ArrayLike<number>,
  labels: readonly string[],
): string {
  checkIds(truth, predicted, labels.length);
  const width = labels.length + 1;
  const counts = new Float64Array(labels.length * width);
  for (let i = 0; i < truth.length; i++) {
    const column = predicted[i] === ABSTAIN ? labels.length : predicted[i]!;
    counts[truth[i]! * width + column]! += 1;
  }
  // Columns are numbered: label names side by side would not fit a terminal.
  const heads = [...labels.map((_, id) => String(id)), "–"];
  const largest = counts.reduce((most, count) => Math.max(most, count), 0);
  const cellWidth = Math.max(2, String(labels.length).length, String(largest).length);
  const names = labels.map((label, id) => `${label} (${id})`);
  const nameWidth = Math.max(...names.map((name) => name.length), 0);
  const lines = [[" ".repeat(nameWidth), ...heads.map((head) => head.padStart(cellWidth))].join(" ")];
  for (const [id, name] of names.entries()) {
    const row = [...counts.subarray(id * width, (id + 1) * width)];
    const cells = row.map((count) => (count === 0 ? "·" : String(count)).padStart(cellWidth));
    lines.push([name.padStart(nameWidth), ...cells].join(" "));
  }
  return lines.join("\n");
}

/** The report as a text table: the totals, the classes from worst to best, and the most frequent confusions. */
export function formatReport(report: ClassificationReport, confusions = 10): string {
  const percent = (value: number) => value.toFixed(3).padStart(9);
  const width = Math.max(5, ...report.perClass.map(({ label }) => label.length));
  const lines = [
    `n ${report.n}  micro F1 ${report.microF1.toFixed(3)}  macro F1 ${report.macroF1.toFixed(3)}  coverage ${report.coverage.toFixed(3)}`,
    `${"label".padEnd(width)} ${"precision".padStart(9)} ${"recall".padStart(9)} ${"F1".padStart(9)} ${"support".padStart(9)}`,
  ];
  for (const { label, precision, recall, f1, support } of [...report.perClass].sort((a, b) => a.f1 - b.f1)) {
    lines.push(
      `${label.padEnd(width)} ${percent(precision)} ${percent(recall)} ${percent(f1)} ${String(support).padStart(9)}`,
    );
  }
  for (const { truth, predicted, count } of report.confusions.slice(0, confusions)) {
    lines.push(`${String(count).padStart(5)} × ${truth} taken for ${predicted}`);
  }
  return lines.join("\n");
}
