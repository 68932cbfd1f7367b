import { join } from "node:path";
import type { Estimate } from "../experiment/interval.js";
import type { Arm } from "../experiment/parl/arms.js";
import { comparisonText, controlText } from "../experiment/parl/frontier.js";
import type { Control, ParlReport, ReportRow, SwarmFigures } from "../experiment/parl/summary.js";
import type { Wanted } from "../experiment/parl/wanted.js";
import { writeFileAtomic } from "../train/atomic.js";
import { lineChartSvg, stackedSvg } from "./lineChart.js";
import { type Cell, markdownTable, type TableData, terminalTable } from "./table.js";

/** The report as text for a terminal. */
export function parlText(report: ParlReport): string {
  return sections(report)
    .map(({ title, table, notes }) =>
      [title, ...(table ? ["", terminalTable(table)] : []), ...notes.flatMap((note) => ["", note])].join(
        "\n",
      ),
    )
    .join("\n\n");
}

/** Writes `report.json`, `report.md`, and the pictures `frontier-<arm>-<cost>.svg` and `curves-<arm>.svg`. */
export async function writeParlReport(dir: string, report: ParlReport): Promise<void> {
  const parts = sections(report).flatMap(({ title, table, notes, pictures }) => [
    `## ${title}`,
    "",
    ...(table ? [markdownTable(table), ""] : []),
    ...notes.flatMap((note) => [note, ""]),
    ...pictures.flatMap((name) => [`![${name}](${name}.svg)`, ""]),
  ]);
  for (const [name, svg] of pictures(report)) await writeFileAtomic(join(dir, `${name}.svg`), svg);
  await writeFileAtomic(join(dir, "report.json"), `${JSON.stringify(report, null, 2)}\n`);
  await writeFileAtomic(join(dir, "report.md"), ["# PARL experiment", "", ...parts].join("\n"));
}

interface Section {
  title: string;
  table?: TableData;
  notes: string[];
  pictures: string[];
}

function sections(report: ParlReport): Section[] {
  return [
    comparison(report),
    ...(report.wanted.length > 0 ? [wantedFigures(report.wanted)] : []),
    specialists(report),
    contribution(report),
    ...report.swarms.flatMap(({ arm, figures }) => [activation(arm, figures), information(arm, figures)]),
    ...report.swarms.flatMap(({ arm, figures }) => frontiers(arm, figures)),
    { title: "In short", notes: [inShort(report)], pictures: [] },
  ];
}

/** What a reader wants to know first, which a terminal shows last: whether the swarm is worth its specialists. */
function inShort({ rows, wanted, quick }: ParlReport): string {
  const of = (arm: Arm, control: Control = "learned") =>
    rows.find((row) => row.arm === arm && row.control === control)!;
  const { macroF1, gain, activation } = of("together");
  const points = (share: number) => (100 * share).toFixed(1);
  const f1 = (arm: Arm, control?: Control) => points(of(arm, control).macroF1.mean);
  const chance =
    gain.half === null
      ? "one seed, so part of it may be chance"
      : Math.abs(gain.mean) > gain.half
        ? "more than seeds differ by"
        : "no more than seeds differ by";
  const asked = activation?.mean ?? 0;
  const missed = wanted.filter(({ reached }) => !reached).length;
  return [
    `The swarm trained together has macro F1 ${points(macroF1.mean)} where the primary alone has ${f1("alone")} after as many steps: ${points(Math.abs(gain.mean))} points ${gain.mean < 0 ? "less" : "more"} (${chance}).`,
    asked < 0.005
      ? "Its router asks no specialist: what it gained, it gained in training."
      : `It asks ${Math.round(100 * asked)} % of the specialists; with its answers given to other columns it has ${f1("together", "shuffled")}.`,
    `With all of them asked it has ${f1("together", "all-on")}.`,
    `At equal computation the primary alone has ${f1("alone-own")}, with the specialists' training counted ${f1("alone-all")}.`,
    ...(quick ? ["--quick: trainings of a few steps show that all works; the figures mean nothing."] : []),
    ...(missed > 0 ? [`Of ${wanted.length} wanted figures ${missed} are not reached.`] : []),
  ].join(" ");
}

const ARM_NAMES: Record<Arm, string> = {
  alone: "primary alone, same steps",
  "alone-own": "primary alone, compute of the swarm's training",
  "alone-all": "primary alone, that and the specialists'",
  together: "trained together",
  router: "router alone",
  random: "random specialists",
};

const CONTROL_NAMES: Record<Control, string> = {
  learned: "learned",
  "all-on": "all on",
  "all-off": "all off",
  "best-fixed": "best fixed subset",
  shuffled: "same rates shuffled",
  confidence: "primary's confidence, same rate",
};

function rowName({ arm, control }: ReportRow): string {
  if (arm.startsWith("alone")) return ARM_NAMES[arm];
  return `${ARM_NAMES[arm]}: ${CONTROL_NAMES[control]}`;
}

function comparison(report: ParlReport): Section {
  const { split, seeds, columns, rows, data, hardDefinition, bestFixed, cpuMinutes } = report;
  const table: TableData = {
    headers: [
      "arm",
      "steps",
      "macro F1",
      "over alone",
      "hard labels",
      "micro F1",
      "activation",
      "crit. steps",
      "work",
    ],
    rows: rows.map((row) => [
      rowName(row),
      Math.round(row.steps.mean),
      interval(row.macroF1),
      row.arm === "alone" ? null : interval(row.gain),
      interval(row.hardF1),
      interval(row.microF1),
      row.activation === null ? null : row.activation.mean.toFixed(3),
      row.criticalSteps.mean.toFixed(2),
      row.work.mean.toFixed(2),
    ]),
  };
  return {
    title: `${data}: ${split} columns (${columns.join(", ")}), ${seeds} ${seeds === 1 ? "seed" : "seeds"}`,
    table,
    notes: [
      "F1 in points: mean ± half the 95 % interval (Student's t over seeds). Steps are the primary's, critical steps and work blocks a column.",
      `Hard labels: ${hardDefinition}.`,
      ...Object.entries(bestFixed).map(
        ([arm, names]) => `Best fixed subset on validation, ${ARM_NAMES[arm as Arm]}: ${names.join("; ")}.`,
      ),
      `Processor time of all trainings and evaluations: ${cpuMinutes.toFixed(1)} minutes.`,
    ],
    pictures: [],
  };
}

function wantedFigures(wanted: readonly Wanted[]): Section {
  return {
    title: "Wanted figures, by the mean over seeds",
    table: {
      headers: ["what", "value", "wanted", ""],
      rows: wanted.map(({ what, value, least, most, reached }) => [
        what,
        what.includes("macro F1") ? interval(value) : plain(value),
        least === undefined ? `≤ ${most}` : `≥ ${signed(100 * least)}`,
        reached ? "reached" : "NOT REACHED",
      ]),
    },
    notes: [],
    pictures: [],
  };
}

function specialists({ specialists: all }: ParlReport): Section {
  return {
    title: "Specialists on validation columns of their own labels",
    table: {
      headers: ["specialist", "labels", "macro F1"],
      rows: all.map(({ id, labels, validationF1 }) => [id, labels, validationF1 && interval(validationF1)]),
    },
    notes: [],
    pictures: [],
  };
}

function contribution({ contributions, specialists: all }: ParlReport): Section {
  const ids = all.map(({ id }) => id);
  return {
    title: "What there is to route: right columns, trained together, mean over seeds, in points",
    table: {
      headers: [
        "columns of",
        "columns",
        "no specialist",
        ...ids.map((id) => `+ ${id}`),
        "+ all",
        "+ the best",
      ],
      rows: contributions.map(({ group, columns, none, single, allOn, best }) => [
        group,
        Math.round(columns),
        ...[none, ...ids.map((id) => single[id]!), allOn, best].map((share) => (100 * share).toFixed(1)),
      ]),
    },
    notes: [
      "Share of columns annotated rightly without specialists, and what is gained where one of them is called for every column, where all are, and where each column has the routing that is best for it.",
    ],
    pictures: [],
  };
}

function activation(arm: Arm, { activation: rates }: SwarmFigures): Section {
  const ids = Object.keys(Object.values(rates)[0] ?? {});
  return {
    title: `Activation, ${ARM_NAMES[arm]}: share of columns that call a specialist, mean over seeds`,
    table: {
      headers: ["columns of", ...ids],
      rows: Object.entries(rates).map(([group, own]) => [group, ...ids.map((id) => own[id]!)]),
      decimals: 2,
    },
    notes: [],
    pictures: [`curves-${arm}`],
  };
}

function information(arm: Arm, { information: all }: SwarmFigures): Section {
  return {
    title: `Mutual information of input and routing, ${ARM_NAMES[arm]}, bits`,
    table: {
      headers: ["input", "information", "shuffled", "entropy of input", "entropy of routing"],
      rows: all.map(({ of, bits, shuffled, entropy, routing }): Cell[] => [
        of === "group" ? "domain or family" : "label",
        plain(bits),
        plain(shuffled),
        plain(entropy),
        plain(routing),
      ]),
    },
    notes: [],
    pictures: [],
  };
}

function frontiers(arm: Arm, { frontier }: SwarmFigures): Section[] {
  return frontier.map(({ cost, curves: all, comparisons }) => ({
    title: `Macro F1 against ${cost === "work" ? "work" : "the critical path"}, ${ARM_NAMES[arm]}`,
    notes: [...comparisons.map(comparisonText), controlText(all, "all on")],
    pictures: [`frontier-${arm}-${cost}`],
  }));
}

function pictures({ swarms }: ParlReport): [name: string, svg: string][] {
  return swarms.flatMap(({ arm, figures }): [string, string][] => [
    [`curves-${arm}`, curves(arm, figures)],
    ...figures.frontier.map(({ cost, curves: all }): [string, string] => [
      `frontier-${arm}-${cost}`,
      lineChartSvg({
        title: `Macro F1 against ${cost === "work" ? "work" : "the critical path"}, ${ARM_NAMES[arm]}`,
        xLabel: cost === "work" ? "blocks run a column" : "blocks on the critical path of a column",
        series: all.map(({ name, points }) => ({ name, points })),
      }),
    ]),
  ]);
}

/** Figures of a training's steps and what the pictures call them: log-likelihoods, and what lies about 0 to 1. */
const PERFORMANCE: [figure: string, name: string][] = [
  ["rPerf", "r_perf"],
  ["reward", "r_perf − cost"],
];
const SHARES: [figure: string, name: string][] = [
  ["rParallel", "r_parallel"],
  ["rFinish", "r_finish"],
  ["lambdaParallel", "λ parallel"],
  ["lambdaFinish", "λ finish"],
  ["activation", "activation"],
];

function curves(arm: Arm, { curves: all }: SwarmFigures): string {
  const chart = (title: string, figures: typeof SHARES) =>
    lineChartSvg({
      title: `${title}, ${ARM_NAMES[arm]}`,
      xLabel: "step",
      series: figures.map(([figure, name]) => ({ name, points: all[figure] ?? [] })),
    });
  return stackedSvg([
    chart("Reward of the routings of a step", PERFORMANCE),
    chart("Rewards of the batch, their weights, activation", SHARES),
  ]);
}

/** In points: mean ± half the interval. */
function interval({ mean, half }: Estimate): string {
  return half === null ? (100 * mean).toFixed(1) : `${(100 * mean).toFixed(1)} ± ${(100 * half).toFixed(1)}`;
}

function plain({ mean, half }: Estimate): string {
  return half === null ? mean.toFixed(3) : `${mean.toFixed(3)} ± ${half.toFixed(3)}`;
}

function signed(value: number): string {
  return value > 0 ? `+${value.toFixed(1)}` : value.toFixed(1);
}
