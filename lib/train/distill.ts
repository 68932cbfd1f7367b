import { createHash } from "node:crypto";
import { z } from "zod";
import { parseOptions } from "../config.js";
import { isBlank } from "../data/cells.js";
import { largestOf } from "../data/logitAdjustment.js";
import { Random } from "../data/random.js";
import { siteOf, withoutExtension } from "../data/sotab.js";
import { withoutHeldOut } from "../data/split.js";
import type { Column, ColumnRef, Dataset, Table } from "../data/types.js";
import { AegirError } from "../errors.js";
import { resolveAnnotator } from "../model/config.js";
import { labelledRefs } from "../specialists/index.js";
import { type DataSource, openTables } from "./dataSource.js";
import { defined } from "./defined.js";
import { trainableLabels } from "./examples.js";
import { type Head, meanProbabilities } from "./heads.js";
import { checkHeldOut, checkJudges } from "./heldOut.js";
import { type Donor, filled, mixedTables } from "./mixedTables.js";
import { checkFree, type RunConfig, recordedRun } from "./runFolder.js";
import { type SupervisedRun, type TrainedAnnotator, trainSupervised } from "./supervised.js";
import type { SupervisedOptions } from "./supervisedOptions.js";

export const distillOptions = z.strictObject({
  softShare: z
    .number()
    .min(0)
    .max(1)
    .default(0.6)
    .describe("share of the steps that learn from what the teachers say, the others learn from labels"),
  temperature: z
    .number()
    .positive()
    .default(1)
    .describe("what the teachers' logits are divided by; under 1 makes them surer, as those of n-grams need"),
  mixedCopies: z
    .int()
    .min(0)
    .max(100)
    .default(0)
    .describe("copies of the tables, columns left out and cells mixed, that teachers are asked about too"),
});
export type DistillOptions = z.input<typeof distillOptions>;

export interface DistillRun extends Omit<SupervisedRun, "soft">, DistillOptions {
  /** Their mean is what is learnt; of the task and the labels of the data. */
  teachers: readonly Head[];
  /**
   * Tables beside the data's own, whose columns get no label but the teachers': of labelled data the training tables, or every CSV file of a
   * folder that has no labels.
   */
  unlabelled?: readonly DataSource[];
}

/**
 * Distillation (Hinton et al., arXiv:1503.02531) on columns that have no label: those of the training tables, and of other tables.
 * Some steps learn what the teachers say of such columns, the others learn from the labels. Where there is none, the teachers are asked about
 * the labelled training columns, of which linear specialists say what a fit without their table says. Tables whose name or site is one of the
 * validation or test tables are left out, of the data itself too, and so is whatever is not of the training split.
 * @throws AegirError ERR_CONFIG where there is no teacher or one knows other labels; as trainSupervised
 */
export async function distill(run: DistillRun): Promise<TrainedAnnotator> {
  const { teachers, unlabelled = [], softShare, temperature, mixedCopies, ...rest } = run;
  const recorded = await recordedRun(rest.out, rest.resume, "supervised");
  if (rest.out !== undefined && !rest.resume) await checkFree(rest.out);
  const options = parseOptions("distill", distillOptions, {
    ...recordedSettings(recorded),
    ...defined({ softShare, temperature, mixedCopies }),
  });
  const { seed = 0, holdOut } = {
    ...(recorded?.options as SupervisedOptions | undefined),
    ...defined({ seed: rest.seed, holdOut: rest.holdOut }),
  };
  const { dataset: all, signal, onProgress } = rest;
  const dataset = withoutHeldOut(all, holdOut);
  checkTeachers(teachers, dataset, holdOut);
  // Teachers take minutes: what is wrong with the model is said before.
  if (rest.model) resolveAnnotator({ ...rest.model, labels: trainableLabels(dataset) });
  const found = unlabelledColumns(dataset, (await Promise.all(unlabelled.map(openTables))).flat());
  const asked = found.length > 0 ? found : labelledRefs(dataset, "train");
  const ask = (columns: readonly ColumnRef[]) =>
    meanProbabilities(teachers, columns, { temperature: options.temperature, signal, onProgress });
  const said = await ask(asked);
  const copied = copiesOf(dataset, asked, said, options.mixedCopies, seed);
  const columns = [...asked, ...copied];
  const probabilities = copied.length > 0 ? concatenated(said, await ask(copied)) : said;
  const source = {
    teachers: teachers.map(({ dir }) => dir),
    unlabelled: unlabelled.map((other) => ({ ...other })),
    columns: asked.length,
    temperature: options.temperature,
    ...(options.mixedCopies > 0 ? { mixedCopies: options.mixedCopies, mixedColumns: copied.length } : {}),
  };
  return trainSupervised({
    ...rest,
    task: rest.task ?? "distill",
    soft: { columns, probabilities, share: options.softShare, source },
  });
}

/** What a run was told of distillation; nothing of one that is no distilled one, which says so when it is opened. */
function recordedSettings(recorded: RunConfig | null): DistillOptions {
  if (!recorded?.distill) return {};
  const { share, temperature, mixedCopies } = recorded.distill as Record<string, number | undefined>;
  return defined({ softShare: share, temperature, mixedCopies });
}

/** The columns of mixed copies of the tables that labelled columns and those that teachers were asked about stand in. */
function copiesOf(
  dataset: Dataset,
  asked: readonly ColumnRef[],
  said: Float32Array,
  copies: number,
  seed: number,
): ColumnRef[] {
  const labels = trainableLabels(dataset);
  const classOf = new Map(labels.map((label, id) => [label, id]));
  const donors = new Map<Column, Donor>();
  for (const [i, id] of largestOf(said, labels.length).entries()) {
    const { table, column } = asked[i]!;
    donors.set(table.columns[column]!, { table, column, label: id });
  }
  for (const { table, column, label } of labelledRefs(dataset, "train"))
    donors.set(table.columns[column]!, { table, column, label: classOf.get(label)! });
  const full = [...donors].flatMap(([column, donor]) => (filled(column).length > 0 ? [donor] : []));
  const random = new Random(seed, "mixed tables");
  if (dataset.task !== "cpa") {
    const made = mixedTables(full, copies, random);
    return made.flatMap((table) => table.columns.map((_, column) => ({ table, column })));
  }
  const subjects = subjectsOf(dataset);
  const subjectOf = (table: Table) => table.columns[subjects(table)] ?? null;
  const made = mixedTables(full, copies, random, subjectOf);
  return made.flatMap((table) =>
    table.columns.slice(1).map((_, i) => ({ table, column: i + 1, mainColumn: 0 })),
  );
}

/** Of a table of CPA's data, the column that its labelled columns are about; of others the first. */
function subjectsOf(dataset: Dataset): (table: Table) => number {
  const known = new Map(dataset.splits.train.map(({ table, mainColumn }) => [table, mainColumn]));
  return (table) => (dataset.tables.get(table.name) === table ? known.get(table.name) : undefined) ?? 0;
}

function concatenated(a: Float32Array, b: Float32Array): Float32Array {
  const all = new Float32Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}

function checkTeachers(teachers: readonly Head[], dataset: Dataset, holdOut: number | undefined): void {
  const labels = trainableLabels(dataset);
  if (teachers.length === 0)
    throw new AegirError("ERR_CONFIG", "distill.teachers: expected at least one, got none");
  for (const { dir, task, labels: known, config } of teachers) {
    checkHeldOut(config, holdOut, `distill.teachers: ${dir}`);
    checkJudges(config, holdOut, `distill.teachers: ${dir}`);
    if (task !== dataset.task)
      throw new AegirError(
        "ERR_CONFIG",
        `distill.teachers: ${dir} was trained for ${task}, the data is ${dataset.task}`,
      );
    const other = labels.find((label, i) => known[i] !== label) ?? known[labels.length];
    if (other !== undefined) {
      throw new AegirError(
        "ERR_CONFIG",
        `distill.teachers: ${dir} was trained on other labels than ${dataset.name} has ('${other}' is not the same in both)`,
      );
    }
  }
}

/**
 * Every column without a training label, of the training tables of the data and of others, but for tables whose name or site is held out
 * for validation or test; of several tables of one name and content, the first. For CPA paired with the subject of its table.
 */
export function unlabelledColumns(dataset: Dataset, others: readonly Table[]): ColumnRef[] {
  const labelled = new Map<string, Set<number>>();
  for (const { table, column } of dataset.splits.train) {
    const known = labelled.get(table);
    if (known) known.add(column);
    else labelled.set(table, new Set([column]));
  }
  const held = new Set(
    [...dataset.splits.validation, ...dataset.splits.test].flatMap(({ table }) => [table, siteOf(table)]),
  );
  const apart = (name: string) => !held.has(name) && !held.has(siteOf(name));
  const own = [...labelled.keys()].map((name) => dataset.tables.get(name)!);
  const tables = new Map<string, Table>();
  for (const table of [...own, ...others]) {
    const key = contentKey(table);
    if (apart(table.name) && !tables.has(key)) tables.set(key, table);
  }
  const subjectOf = subjectsOf(dataset);
  return [...tables.values()].flatMap((table) => {
    const mainColumn = dataset.task === "cpa" ? subjectOf(table) : undefined;
    return [...table.columns.entries()].flatMap(([column, { cells }]) => {
      const known = table === dataset.tables.get(table.name) ? labelled.get(table.name) : undefined;
      const takes = !known?.has(column) && cells.some((cell) => !isBlank(cell));
      return takes && column !== mainColumn ? [{ table, column, ...defined({ mainColumn }) }] : [];
    });
  });
}

/** Other folders may have tables of the same names. */
function contentKey({ name, columns }: Table): string {
  const hash = createHash("sha256").update(JSON.stringify(columns.map(({ cells }) => cells)));
  return `${withoutExtension(name)} ${hash.digest("base64")}`;
}
