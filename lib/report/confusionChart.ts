import { escapeXml } from "./lineChart.js";

export interface ConfusionChart {
  title: string;
  /** Class names; ids index them. */
  labels: readonly string[];
  truth: readonly number[];
  predicted: readonly number[];
  /** Classes that are shown at most: those with the most errors, as truth or answer. */
  most?: number;
}

const CELL = 15;
const TOP = 34;
const MARGIN = 12;
/** Characters of a class name that are shown, and how wide one is on average. */
const NAME_LENGTH = 32;
const CHARACTER = 5.8;

/**
 * A confusion matrix as one self-contained SVG document: rows are true classes, columns answers, in label order; the darkness of a field is
 * the share of the row's columns, right answers blue and wrong ones red.
 */
export function confusionChartSvg({ title, labels, truth, predicted, most = 40 }: ConfusionChart): string {
  const counts = countPairs(truth, predicted, labels.length);
  const shown = mostConfused(counts, labels.length, most);
  const side = shown.length * CELL;
  const longest = Math.max(...shown.map((id) => shortened(labels[id]!).length));
  const names = Math.max(60, MARGIN + longest * CHARACTER);
  const [width, height] = [Math.max(names + side + MARGIN, 420), TOP + side + names];
  const fields: string[] = [];
  for (const [row, y] of shown.entries()) {
    const total = counts.subarray(y * labels.length, (y + 1) * labels.length).reduce((a, b) => a + b, 0);
    for (const [column, p] of shown.entries()) {
      const count = counts[y * labels.length + p]!;
      if (count === 0) continue;
      const colour = y === p ? "#4269d0" : "#e0452c";
      const shade = (0.12 + 0.88 * (count / total)).toFixed(2);
      const about = `${labels[y]} taken for ${labels[p]}: ${count} of ${total}`;
      fields.push(
        `<rect x="${names + column * CELL}" y="${TOP + row * CELL}" width="${CELL - 1}" height="${CELL - 1}" fill="${colour}" fill-opacity="${shade}"><title>${escapeXml(about)}</title></rect>`,
      );
    }
  }
  const rows = shown.map((id, i) => text(names - 6, TOP + (i + 0.75) * CELL, labels[id]!, "end"));
  const columns = shown.map((id, i) => {
    const [x, y] = [names + (i + 0.7) * CELL, TOP + side + 6];
    return `<g transform="rotate(-90 ${x} ${y})">${text(x, y, labels[id]!, "end")}</g>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="10">`,
    `<rect width="${width}" height="${height}" fill="white"/>`,
    `<text x="${MARGIN}" y="20" font-size="14" font-weight="bold">${escapeXml(title)}</text>`,
    `<rect x="${names}" y="${TOP}" width="${side}" height="${side}" fill="#f4f4f4"/>`,
    ...fields,
    ...rows,
    ...columns,
    "</svg>",
    "",
  ].join("\n");
}

/** (classes, classes) row-major: true class, answer. */
function countPairs(truth: readonly number[], predicted: readonly number[], classes: number): Float64Array {
  const counts = new Float64Array(classes * classes);
  for (const [i, y] of truth.entries()) counts[y * classes + predicted[i]!]! += 1;
  return counts;
}

/** Classes that occur, those with the most errors, in label order. */
function mostConfused(counts: Float64Array, classes: number, most: number): number[] {
  const errors = new Float64Array(classes);
  const seen = new Float64Array(classes);
  for (let y = 0; y < classes; y++) {
    for (let p = 0; p < classes; p++) {
      const count = counts[y * classes + p]!;
      seen[y]! += count;
      seen[p]! += count;
      if (y === p) continue;
      errors[y]! += count;
      errors[p]! += count;
    }
  }
  return [...errors.keys()]
    .filter((id) => seen[id]! > 0)
    .sort((a, b) => errors[b]! - errors[a]! || a - b)
    .slice(0, most)
    .sort((a, b) => a - b);
}

function text(x: number, y: number, value: string, anchor: "start" | "end"): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}">${escapeXml(shortened(value))}</text>`;
}

function shortened(name: string): string {
  return name.length > NAME_LENGTH ? `${name.slice(0, NAME_LENGTH - 1)}…` : name;
}
