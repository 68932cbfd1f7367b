import { join } from "node:path";
import { writeFileAtomic } from "../train/atomic.js";
import type { DemoResult } from "../train/demo.js";
import { readMetrics } from "../train/metricsLog.js";
import { lineChartSvg } from "./lineChart.js";
import { metricSeries } from "./metricSeries.js";
import { markdownTable, type TableData, terminalTable, truncate } from "./table.js";

/** The demo's result as text for a terminal. */
export function demoText(result: DemoResult): string {
  return sections(result)
    .map(({ title, table, note }) =>
      [title, "", terminalTable(table), ...(note ? ["", note] : [])].join("\n"),
    )
    .join("\n\n");
}

/** Writes `summary.md`, `curves.svg` and `demo.json` into the demo's folder. */
export async function writeDemoReport(dir: string, result: DemoResult): Promise<void> {
  const parts = sections(result).flatMap(({ title, table, note }) => [
    `## ${title}`,
    "",
    markdownTable(table),
    "",
    ...(note ? [note, ""] : []),
  ]);
  const text = [
    "# aegir-swarm demo",
    "",
    ...parts,
    "![training of the swarm with states](curves.svg)",
    "",
  ].join("\n");
  await writeFileAtomic(join(dir, "curves.svg"), await swarmCurves(join(dir, "swarm-states")));
  await writeFileAtomic(join(dir, "demo.json"), `${JSON.stringify(result, null, 2)}\n`);
  await writeFileAtomic(join(dir, "summary.md"), text);
}

interface Section {
  title: string;
  table: TableData;
  note?: string;
}

function sections(result: DemoResult): Section[] {
  return [
    comparison(result),
    specialists(result),
    activations(result),
    criticalPath(result),
    annotations(result),
  ];
}

function comparison({ rows, testColumns, primarySteps, seconds, lag }: DemoResult): Section {
  return {
    title: `Held-out columns (${testColumns}), every primary trained for ${primarySteps} steps`,
    table: {
      headers: ["model", "macro F1", "micro F1", "activation"],
      rows: rows.map(({ name, macroF1, microF1, activation }) => [name, macroF1, microF1, activation]),
    },
    note: `${seconds.toFixed(0)} s in all; timer lag p99 ${lag.p99.toFixed(1)} ms, longest ${lag.max.toFixed(1)} ms.`,
  };
}

function specialists({ specialists: scores }: DemoResult): Section {
  return {
    title: "Specialists on their own columns",
    table: {
      headers: ["specialist", "labels", "columns", "macro F1"],
      rows: scores.map(({ id, labels, columns, macroF1 }) => [id, labels, columns, macroF1]),
    },
  };
}

function activations({ swarm }: DemoResult): Section {
  const { activationRate, activationByDomain } = swarm.swarm;
  const ids = Object.keys(activationRate);
  const line = (name: string, rates: Record<string, number>) => [name, ...ids.map((id) => rates[id]!)];
  return {
    title: "Activation of the swarm with states: share of columns that call a specialist",
    table: {
      headers: ["columns", ...ids],
      rows: [
        line("all", activationRate),
        ...Object.entries(activationByDomain).map(([domain, rates]) => line(domain, rates)),
      ],
      decimals: 2,
    },
  };
}

function criticalPath({ swarm }: DemoResult): Section {
  const { ideal, measured, wall, work, steps, seed, speedupIdeal } = swarm.swarm.criticalPath;
  return {
    title: "Critical path of the swarm with states, mean of a batch",
    table: {
      headers: ["figure", "value"],
      rows: [
        ["critical steps (module calls)", steps],
        ["longest of primary and specialists, ms", seed],
        ["critical path, ideal, ms", ideal],
        ["critical path, measured, ms", measured],
        ["wall, ms", wall],
        ["work, ms", work],
        ["work / ideal", speedupIdeal],
      ],
      decimals: 2,
    },
  };
}

function annotations({ annotations: columns }: DemoResult): Section {
  return {
    title: `Columns of ${columns[0]?.table ?? "the example"}, by the swarm with states and outputs: its best step on validation`,
    table: {
      headers: ["column", "type", "confidence", "runner-up", "confidence of it"],
      rows: columns.map(({ column, header, type, confidence, runnerUp, runnerUpConfidence }) => [
        truncate(header ?? `column ${column}`, 24),
        type,
        confidence,
        runnerUp,
        runnerUpConfidence,
      ]),
      decimals: 2,
    },
  };
}

/** Reward, activation and λ over the steps of a swarm's training. */
async function swarmCurves(dir: string): Promise<string> {
  const records = await readMetrics(join(dir, "metrics.jsonl"));
  const series = (kind: string, field: string, name: string) => metricSeries(records, kind, field, name);
  return lineChartSvg({
    title: "PARL: validation macro F1, activation, λ",
    xLabel: "step",
    yRange: [0, 1],
    series: [
      series("validation", "macroF1", "macro F1"),
      series("train", "activation", "activation"),
      series("train", "rParallel", "r_parallel"),
      series("train", "rFinish", "r_finish"),
      series("train", "lambdaParallel", "λ parallel"),
      series("train", "lambdaFinish", "λ finish"),
    ].filter(({ points }) => points.length > 0),
  });
}
