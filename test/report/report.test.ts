import { describe, expect, test } from "vitest";
import { lineChartSvg, stackedSvg } from "../../lib/report/lineChart.js";
import { markdownTable, terminalTable, truncate } from "../../lib/report/table.js";

const table = {
  headers: ["model", "macro F1", "n"],
  rows: [
    ["primary | alone", 0.75, 12],
    ["swarm 東京", null, 3],
  ],
};

describe("tables", () => {
  test("Markdown aligns numbers right, escapes bars, shows absent values", () => {
    expect(markdownTable(table)).toBe(
      "| model | macro F1 | n |\n|---|---:|---:|\n| primary \\| alone | 0.750 | 12 |\n| swarm 東京 | – | 3 |",
    );
  });

  test("terminal columns line up", () => {
    expect(terminalTable(table).split("\n")).toEqual([
      "model            macro F1   n",
      "───────────────  ────────  ──",
      "primary | alone     0.750  12",
      "swarm 東京              –   3",
    ]);
  });

  test("truncation keeps whole characters", () => {
    expect(truncate("añb😀cd", 4)).toBe("añb…");
    expect(truncate("añb😀", 4)).toBe("añb😀");
  });
});

describe("line chart", () => {
  test("points are placed by their range, names are escaped, non-finite points are left out", () => {
    const svg = lineChartSvg({
      title: "a < b",
      xLabel: "step",
      yRange: [0, 1],
      series: [
        {
          name: "F1",
          points: [
            [0, 0],
            [5, Number.NaN],
            [10, 1],
          ],
        },
      ],
    });
    expect(svg).toContain('<polyline points="52.0,260.0 570.0,34.0"');
    expect(svg).toContain("a &lt; b");
    expect(lineChartSvg({ title: "", xLabel: "", series: [] })).toContain("</svg>");
    // A range of rounding errors has no ticks of its own, and a single point is a dot.
    const flat = { name: "flat", points: [0, 1].map((x): [number, number] => [x, 0.3 + x * 1e-16]) };
    const dot = { name: "dot", points: [[1, 0.5] as [number, number]] };
    expect(lineChartSvg({ title: "", xLabel: "", series: [flat] })).toContain("<polyline");
    expect(lineChartSvg({ title: "", xLabel: "", series: [dot] })).toContain("<circle");
  });

  test("lines that lie upon each other take turns, others are whole", () => {
    const line = (name: string, ...ys: number[]) => ({
      name,
      points: ys.map((y, x): [number, number] => [x, y]),
    });
    const series = [line("a", 0, 1, 2, 3), line("apart", 3, 2, 0, 0), line("b", 0, 1, 2 + 1e-12, 0)];
    const lines = lineChartSvg({ title: "", xLabel: "", series }).match(/<polyline[^>]*>/g)!;
    expect(lines[0]).toContain('stroke-dasharray="8 8" stroke-dashoffset="0"');
    expect(lines[1]).not.toContain("dash");
    expect(lines[2]).toContain('stroke-dasharray="8 8" stroke-dashoffset="-8"');
  });

  test("charts are stacked one above the other", () => {
    const chart = (title: string) => lineChartSvg({ title, xLabel: "", series: [] });
    const svg = stackedSvg([chart("upper"), chart("lower")]);
    expect(svg.match(/<svg /g)).toHaveLength(3);
    expect(svg).toMatch(/viewBox="0 0 760 600"/);
    expect(svg).toMatch(/<svg y="0" width="760" height="300"[^>]*>.*upper.*<svg y="300"[^>]*>.*lower/s);
    expect(svg.match(/<\/svg>/g)).toHaveLength(3);
  });
});
