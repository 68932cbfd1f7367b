import { join } from "node:path";
import { writeFileAtomic } from "../train/atomic.js";
import type { TrainingOutcome } from "../train/loop.js";
import { type MetricRecord, readMetrics } from "../train/metricsLog.js";
import { recordedPrices } from "../train/prices.js";
import { type RunConfig, readRunConfig } from "../train/runFolder.js";
import { lineChartSvg } from "./lineChart.js";
import { metricSeries } from "./metricSeries.js";
import { type Cell, markdownTable } from "./table.js";

/** Writes `summary.md` and `curves.svg` into a training's run folder, from its config and its metrics. */
export async function writeRunSummary(dir: string, outcome: TrainingOutcome): Promise<void> {
  const config = await readRunConfig(dir);
  const records = await readMetrics(join(dir, "metrics.jsonl"));
  await writeFileAtomic(join(dir, "curves.svg"), curves(config, records));
  const text = summaryText(config, outcome, records, await recordedPrices(dir));
  await writeFileAtomic(join(dir, "summary.md"), text);
}

function summaryText(
  config: RunConfig,
  outcome: TrainingOutcome,
  records: MetricRecord[],
  prices: Record<string, number> | null,
): string {
  const { best, lag } = outcome;
  const facts: Cell[][] = [
    ["steps", outcome.steps + (outcome.stoppedEarly ? " (stopped early)" : "")],
    ...(outcome.stopReason === null ? [] : [["stopped because", outcome.stopReason]]),
    ["seconds of the last part", outcome.seconds.toFixed(1)],
    ["best validation score", best ? `${best.score.toFixed(4)} at step ${best.step}` : null],
    ...(prices === null ? [] : [["milliseconds a column, what asking costs", named(prices)]]),
    ["longest step", `${outcome.longestStepMs.toFixed(0)} ms`],
    ["timer lag p99 / longest", `${lag.p99.toFixed(1)} / ${lag.max.toFixed(1)} ms`],
  ];
  const labels = "labels" in config.model ? `, ${config.model.labels.length} labels` : "";
  const validations = records.filter((record) => record.kind === "validation");
  const figures = [...new Set(validations.flatMap(Object.keys))].filter(
    (name) => !["kind", "step", "best", "score"].includes(name) && typeof validations[0]?.[name] === "number",
  );
  const warnings = records.filter((record) => record.kind === "warning");
  return [
    `# ${config.kind} run`,
    "",
    "archLayout" in config.model
      ? `Model ${JSON.stringify(config.model.archLayout)}, width ${config.model.dModel.join("/")}${labels}.`
      : `Specialist of kind ${config.model.kind}${labels}.`,
    "",
    markdownTable({ headers: ["", ""], rows: facts }),
    "",
    "![curves](curves.svg)",
    "",
    "## Validations",
    "",
    markdownTable({
      headers: ["step", ...figures],
      rows: validations.map((record) => [record.step, ...figures.map((name) => record[name] as Cell)]),
    }),
    ...(warnings.length > 0
      ? ["", "## Warnings", "", ...warnings.map((w) => `- step ${w.step}: ${w.message}`)]
      : []),
    "",
    "## Options",
    "",
    "```json",
    JSON.stringify(config.options, null, 2),
    "```",
    "",
  ].join("\n");
}

function named(prices: Record<string, number>): string {
  return Object.entries(prices)
    .map(([name, price]) => `${name} ${price.toPrecision(3)}`)
    .join(", ");
}

/** Loss of pretraining; macro F1, activation and reward weights of the others, all in [0, 1]. */
function curves(config: RunConfig, records: MetricRecord[]): string {
  const series = (kind: string, field: string, name: string) => metricSeries(records, kind, field, name);
  if (config.kind === "pretrain") {
    const loss = [series("train", "loss", "training"), series("validation", "loss", "validation")];
    return lineChartSvg({ title: "Next-byte loss (nats)", xLabel: "step", series: loss });
  }
  const all = [
    series("validation", "macroF1", "macro F1"),
    series("train", "activation", "activation rate"),
    series("train", "lambdaParallel", "λ parallel"),
    series("train", "lambdaFinish", "λ finish"),
  ].filter(({ points }) => points.length > 0);
  return lineChartSvg({ title: "Validation macro F1", xLabel: "step", yRange: [0, 1], series: all });
}
