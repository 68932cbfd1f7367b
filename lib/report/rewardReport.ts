import { join } from "node:path";
import { makeFolder, writeFileAtomic } from "../train/atomic.js";
import type { RewardCheck, RewardReport } from "../train/rewardChecks.js";
import { lineChartSvg } from "./lineChart.js";
import { markdownTable, type TableData, terminalTable } from "./table.js";

/** The report as text for a terminal. */
export function rewardText(report: RewardReport): string {
  return [verdict(report), "", terminalTable(checkTable(report))].join("\n");
}

/** Writes `report.md`, `report.json` and `checks.svg` into a folder. */
export async function writeRewardReport(dir: string, report: RewardReport): Promise<void> {
  const text = [
    "# Reward checks",
    "",
    verdict(report),
    "",
    markdownTable(checkTable(report)),
    "",
    "![checks](checks.svg)",
    "",
  ].join("\n");
  await makeFolder(dir);
  await writeFileAtomic(join(dir, "checks.svg"), rewardSvg(report));
  await writeFileAtomic(join(dir, "report.json"), `${JSON.stringify(report, null, 2)}\n`);
  await writeFileAtomic(join(dir, "report.md"), text);
}

function verdict({ passed, checks, columns, specialists, seed }: RewardReport): string {
  const failed = checks.filter((each) => !each.passed).length;
  const what = passed ? `All ${checks.length} checks passed` : `${failed} of ${checks.length} checks failed`;
  return `${what}: ${columns} columns, ${2 ** specialists} routings of ${specialists} specialists each, seed ${seed}.`;
}

function checkTable({ checks }: RewardReport): TableData {
  return {
    headers: ["check", "reward", "what", "value", "wanted", ""],
    rows: checks.map((each) => [
      each.kind,
      each.of,
      each.what,
      significant(each.value),
      wanted(each),
      each.passed ? "passed" : "FAILED",
    ]),
  };
}

function wanted({ least, most }: RewardCheck): string {
  return least === undefined ? `≤ ${most}` : `≥ ${least}`;
}

function significant(value: number): string {
  return Number.isFinite(value) ? String(Number(value.toPrecision(3))) : String(value);
}

const WIDTH = 720;
const ROW = 20;
const LADDERS = 300;

/** Verdicts line by line, and below them the ladders of corruption along which every reward must fall. */
export function rewardSvg(report: RewardReport): string {
  const { checks, ladders } = report;
  const top = 44;
  const chartTop = top + checks.length * ROW + 16;
  const chart = lineChartSvg({
    title: "Rewards along ladders of corruption: each must fall",
    xLabel: "share corrupted",
    yRange: [0, 1],
    series: ladders.map(({ what, points }) => ({ name: what, points })),
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${chartTop + LADDERS}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${chartTop + LADDERS}" fill="white"/>`,
    text(16, 24, verdict(report), 'font-size="14" font-weight="bold"'),
    ...checks.map((each, i) => line(each, top + i * ROW)),
    chart.replace("<svg ", `<svg y="${chartTop}" width="${WIDTH}" height="${LADDERS}" `).trimEnd(),
    "</svg>",
    "",
  ].join("\n");
}

function line(each: RewardCheck, y: number): string {
  const colour = each.passed ? "#3ca951" : "#d62728";
  return [
    `<rect x="16" y="${y}" width="64" height="${ROW - 4}" rx="3" fill="${colour}"/>`,
    text(48, y + 12, each.passed ? "passed" : "failed", 'fill="white" text-anchor="middle"'),
    text(92, y + 12, each.kind),
    text(188, y + 12, each.of),
    text(300, y + 12, each.what),
    text(634, y + 12, significant(each.value), 'text-anchor="end"'),
    text(646, y + 12, wanted(each), 'fill="#666"'),
  ].join("\n");
}

function text(x: number, y: number, content: string, attributes = ""): string {
  const escaped = content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return `<text x="${x}" y="${y}" ${attributes}>${escaped}</text>`;
}
