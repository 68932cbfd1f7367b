import { resolve } from "node:path";
import { z } from "zod";
import { parseOptions } from "../config.js";
import { type GeneratorOptions, generateDataset, generatorOptions } from "../data/generator.js";
import { openDataset, openUnlabelled } from "../data/open.js";
import type { Dataset, Table, Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import { readRunConfig } from "./runFolder.js";

/** Where labelled tables come from; recorded in a run's config.json, so that a run can be resumed and evaluated by its folder. */
export const dataSourceSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("generated"), options: generatorOptions }),
  z.strictObject({
    kind: z.literal("folder"),
    dir: z.string(),
    task: z.enum(["cta", "cpa"]),
    /** SOTAB's layout: "full", "small" or the name of a training ground-truth file. */
    trainFile: z.string(),
  }),
]);
export type DataSource = z.output<typeof dataSourceSchema>;

export function generatedSource(options: GeneratorOptions = {}): DataSource {
  return { kind: "generated", options: parseOptions("generateDataset", generatorOptions, options) };
}

export function folderSource(dir: string, task: Task = "cta", trainFile = "full"): DataSource {
  return { kind: "folder", dir: resolve(dir), task, trainFile };
}

/** @throws AegirError ERR_DATA where a folder has no labelled tables */
export async function openDataSource(source: DataSource): Promise<Dataset> {
  if (source.kind === "generated") return generateDataset(source.options);
  const { dir, task, trainFile } = source;
  return openDataset(dir, { task, trainFile });
}

/** The training tables of labelled data, or every CSV file of a folder without labels. @throws AegirError ERR_DATA where there are none */
export async function openTables(source: DataSource): Promise<Table[]> {
  const unlabelled = source.kind === "folder" ? await openUnlabelled(source.dir) : null;
  if (unlabelled) return unlabelled;
  const { splits, tables } = await openDataSource(source);
  return [...new Set(splits.train.map(({ table }) => table))].map((name) => tables.get(name)!);
}

/** The recorded source of a run's data. @throws AegirError ERR_CONFIG where the run was given its data in memory */
export async function recordedSource(dir: string): Promise<DataSource> {
  const { data } = await readRunConfig(dir);
  const parsed = dataSourceSchema.safeParse(data);
  if (parsed.success) return parsed.data;
  throw new AegirError(
    "ERR_CONFIG",
    `${dir} does not record where its data came from; give the data (--data)`,
  );
}
