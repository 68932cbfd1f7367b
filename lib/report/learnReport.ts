import { join } from "node:path";
import { classificationReport } from "../data/metrics.js";
import type { Estimate } from "../experiment/interval.js";
import type { LearnReport } from "../experiment/learn/summary.js";
import { writeFileAtomic } from "../train/atomic.js";
import { confusionChartSvg } from "./confusionChart.js";
import { lineChartSvg } from "./lineChart.js";
import { markdownTable, type TableData, terminalTable } from "./table.js";

interface Section {
  title: string;
  table: TableData;
  notes: string[];
  pictures: string[];
}

/** The report as text for a terminal. */
export function learnText(report: LearnReport): string {
  return sections(report)
    .map(({ title, table, notes }) =>
      [title, "", terminalTable(table), ...notes.flatMap((note) => ["", note])].join("\n"),
    )
    .join("\n\n");
}

/** Writes `report.json`, `report.md`, `learning-curve.svg` and a picture `confusions-<n>.svg` a system. */
export async function writeLearnReport(dir: string, report: LearnReport): Promise<void> {
  const parts = sections(report).flatMap(({ title, table, notes, pictures }) => [
    `## ${title}`,
    "",
    markdownTable(table),
    "",
    ...notes.flatMap((note) => [note, ""]),
    ...pictures.flatMap((name) => [`![${name}](${name}.svg)`, ""]),
  ]);
  await writeFileAtomic(join(dir, "learning-curve.svg"), curveSvg(report));
  for (const [i, { system, truth, predicted }] of report.confusions.entries()) {
    const title = `${system}: rows are taken for columns (${report.split})`;
    const svg = confusionChartSvg({ title, labels: report.labels, truth, predicted });
    await writeFileAtomic(join(dir, `${confusionName(i)}.svg`), svg);
  }
  await writeFileAtomic(join(dir, "report.json"), `${JSON.stringify(report, null, 2)}\n`);
  await writeFileAtomic(
    join(dir, "report.md"),
    ["# Learning from few labelled columns", "", ...parts].join("\n"),
  );
}

function sections(report: LearnReport): Section[] {
  return [
    comparison(report),
    ...(report.routings.length > 0 ? [routings(report)] : []),
    ...(report.ablations.length > 0 ? [ablations(report)] : []),
    curve(report),
    confusions(report),
  ];
}

function comparison({
  data,
  split,
  seeds,
  trainColumns,
  labels,
  hard,
  systems,
  cpuMinutes,
  quick,
}: LearnReport): Section {
  return {
    title: `${data}: ${labels.length} labels from ${trainColumns} columns, scored on ${split}`,
    table: {
      headers: [
        "system",
        "learnt from",
        "micro F1",
        "macro F1",
        "hard labels",
        "τ",
        "CPU-minutes",
        "parameters",
      ],
      rows: systems.map(
        ({ system, saw, micro, macro, hard: onHard, tau, cpuMinutes: minutes, parameters }) => [
          system,
          saw,
          spread(micro),
          spread(macro),
          spread(onHard),
          tau === null ? "each its own" : tau.toFixed(2),
          minutes.toFixed(1),
          parameters,
        ],
      ),
    },
    notes: [
      ...(quick ? ["--quick: trainings of a few steps show that all works; the figures mean nothing."] : []),
      `${seeds} seed(s); ± is half a 95 % interval over them (Student's t). Hard labels (mean F1): ${hard.join(", ")}.`,
      "CPU-minutes of a distilled net include its teachers'. τ, the steps that are kept and the recipe were chosen on validation." +
        (split === "validation" ? " These are the same columns, so figures are slightly flattered." : ""),
      `The whole experiment took ${cpuMinutes.toFixed(cpuMinutes < 10 ? 1 : 0)} CPU-minutes.`,
    ],
    pictures: [],
  };
}

function routings({ routings: rows }: LearnReport): Section {
  const ids = Object.keys(rows[0]!.rates);
  return {
    title: "What the swarms' routing brings",
    table: {
      headers: [
        "system",
        "specialists activated",
        "micro F1",
        "macro F1",
        "hard labels",
        "share of their time",
        ...ids,
      ],
      rows: rows.map(({ system, routing, micro, macro, hard, work, rates }) => [
        system,
        routing,
        spread(micro),
        spread(macro),
        spread(hard),
        spread(work),
        ...ids.map((id) => rates[id]!),
      ]),
    },
    notes: [
      "Same weights in every line of a system. The last columns: share of the columns that activate each specialist. Time: of all specialists on every column.",
    ],
    pictures: [],
  };
}

function ablations({ ablations: rows }: LearnReport): Section {
  return {
    title: "What each part of the recipe brings (validation, seed 0)",
    table: {
      headers: ["change", "of", "micro F1", "macro F1", "hard labels", "macro F1 less the recipe's"],
      rows: rows.map(({ name, of, scores: { micro, macro, hard }, difference }) => [
        name,
        of,
        micro.mean,
        macro.mean,
        hard.mean,
        signed(difference),
      ]),
    },
    notes: ["One seed each: a difference between two runs under .02 may be chance."],
    pictures: [],
  };
}

function curve({ curve: points }: LearnReport): Section {
  const systems = [...new Set(points.map(({ system }) => system))];
  const counts = [...new Set(points.map(({ columns }) => columns))];
  const at = (columns: number, system: string) =>
    points.find((point) => point.columns === columns && point.system === system);
  return {
    title: "Learning curve (macro F1 on validation, seed 0)",
    table: {
      headers: ["labelled columns", ...systems],
      rows: counts.map((columns) => [
        columns,
        ...systems.map((system) => at(columns, system)?.macro ?? null),
      ]),
    },
    notes: [
      "A smaller part is within every larger one and has a column of every label; the rest is read without labels.",
    ],
    pictures: ["learning-curve"],
  };
}

function confusions({ labels, confusions: systems }: LearnReport): Section {
  const rows = systems.flatMap(({ system, truth, predicted }) =>
    classificationReport(truth, predicted, labels)
      .confusions.slice(0, 8)
      .map((pair) => [system, pair.truth, pair.predicted, pair.count]),
  );
  return {
    title: "Most frequent confusions",
    table: { headers: ["system", "truth", "taken for", "columns"], rows },
    notes: [],
    pictures: systems.map((_, i) => confusionName(i)),
  };
}

function curveSvg({ curve: points }: LearnReport): string {
  const systems = [...new Set(points.map(({ system }) => system))];
  return lineChartSvg({
    title: "Macro F1 on validation by labelled columns",
    xLabel: "labelled columns",
    series: systems.map((name) => ({
      name,
      points: points
        .filter(({ system }) => system === name)
        .map(({ columns, macro }): [number, number] => [columns, macro]),
    })),
  });
}

function confusionName(i: number): string {
  return `confusions-${i + 1}`;
}

function spread({ mean, half }: Estimate): string {
  return half === null ? mean.toFixed(3) : `${mean.toFixed(3)} ± ${half.toFixed(3)}`;
}

function signed(value: number): string {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
}
