export interface Series {
  name: string;
  /** (x, y) pairs in order of x. */
  points: [number, number][];
}

export interface LineChart {
  title: string;
  xLabel: string;
  series: Series[];
  /** Range of y; absent: from the data. */
  yRange?: [number, number];
}

const WIDTH = 760;
const HEIGHT = 300;
const MARGIN = { left: 52, right: 190, top: 34, bottom: 40 };
const COLOURS = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2", "#97bbf5", "#9c6b4e"];

/** A line chart as one self-contained SVG document. */
export function lineChartSvg({ title, xLabel, series, yRange }: LineChart): string {
  const points = series.flatMap((s) => s.points).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  const xs = extent(points.map(([x]) => x));
  const ys = yRange ?? extent(points.map(([, y]) => y));
  const x = (value: number) =>
    MARGIN.left + ((value - xs[0]) / (xs[1] - xs[0])) * (WIDTH - MARGIN.left - MARGIN.right);
  const y = (value: number) =>
    HEIGHT - MARGIN.bottom - ((value - ys[0]) / (ys[1] - ys[0])) * (HEIGHT - MARGIN.top - MARGIN.bottom);
  const lines = series.map((s, i) => curve(s, i, x, y, dashes(series, i)));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="white"/>`,
    `<text x="${MARGIN.left}" y="20" font-size="14" font-weight="bold">${escapeXml(title)}</text>`,
    ...ticks(ys).map((value) => grid(value, y(value))),
    ...ticks(xs).map((value) => label(x(value), HEIGHT - MARGIN.bottom + 16, number(value), "middle")),
    label((MARGIN.left + WIDTH - MARGIN.right) / 2, HEIGHT - 6, xLabel, "middle"),
    ...lines,
    "</svg>",
    "",
  ].join("\n");
}

/** Length of a dash. */
const DASH = 8;

/** Lines that lie upon each other for half of their points take turns, so that all are seen; other lines are whole. */
function dashes(series: readonly Series[], i: number): string {
  // Rounding aside.
  const place = (point: [number, number]) => point.map((value) => value.toPrecision(6)).join();
  const own = new Set(series[i]!.points.map(place));
  const together = series.flatMap(({ points }, k) =>
    k === i || (points.length > 1 && points.filter((point) => own.has(place(point))).length * 2 >= own.size)
      ? [k]
      : [],
  );
  if (together.length === 1) return "";
  const [dash, gap] = [DASH, DASH * (together.length - 1)];
  return ` stroke-dasharray="${dash} ${gap}" stroke-dashoffset="${-DASH * together.indexOf(i)}"`;
}

/** Charts one above the other in one document. */
export function stackedSvg(charts: readonly string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT * charts.length}">`,
    ...charts.map((chart, i) =>
      chart.replace("<svg ", `<svg y="${i * HEIGHT}" width="${WIDTH}" height="${HEIGHT}" `).trimEnd(),
    ),
    "</svg>",
    "",
  ].join("\n");
}

function curve(
  { name, points }: Series,
  i: number,
  x: (v: number) => number,
  y: (v: number) => number,
  dash: string,
): string {
  const colour = COLOURS[i % COLOURS.length];
  const at = points
    .filter(([px, py]) => Number.isFinite(px) && Number.isFinite(py))
    .map(([px, py]) => [x(px).toFixed(1), y(py).toFixed(1)] as const);
  const top = MARGIN.top + 10 + i * 18;
  const left = WIDTH - MARGIN.right + 12;
  return [
    // A line through one point would not be seen.
    at.length === 1
      ? `<circle cx="${at[0]![0]}" cy="${at[0]![1]}" r="5" fill="${colour}"/>`
      : `<polyline points="${at.map((pair) => pair.join()).join(" ")}" fill="none" stroke="${colour}" stroke-width="1.8"${dash}/>`,
    `<line x1="${left}" x2="${left + 16}" y1="${top}" y2="${top}" stroke="${colour}" stroke-width="3"/>`,
    label(left + 22, top + 4, name, "start"),
  ].join("\n");
}

function grid(value: number, at: number): string {
  const line = `<line x1="${MARGIN.left}" x2="${WIDTH - MARGIN.right}" y1="${at.toFixed(1)}" y2="${at.toFixed(1)}" stroke="#ddd"/>`;
  return `${line}\n${label(MARGIN.left - 6, at + 4, number(value), "end")}`;
}

function label(x: number, y: number, text: string, anchor: "start" | "middle" | "end"): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}">${escapeXml(text)}</text>`;
}

/** Four to eight round values within a range. */
function ticks([low, high]: [number, number]): number[] {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough)!;
  const out: number[] = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) out.push(value);
  return out;
}

function extent(values: number[]): [number, number] {
  if (values.length === 0) return [0, 1];
  const low = values.reduce((a, b) => Math.min(a, b));
  const high = values.reduce((a, b) => Math.max(a, b));
  // Rounding alone is no range: its ticks could not be told apart.
  const enough = 1e-9 * Math.max(1, Math.abs(low), Math.abs(high));
  return high - low > enough ? [low, high] : [low - 0.5, low + 0.5];
}

function number(value: number): string {
  return String(Number(value.toPrecision(4)));
}

export function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
