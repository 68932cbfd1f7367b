import { z } from "zod";
import { parseOptions } from "../config.js";
import { type GeneratorOptions, generateDataset, generatorOptions } from "../data/generator.js";
import type { Dataset, Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import { readRunConfig } from "./runFolder.js";

/** Where labelled tables come from; recorded in a run's config.json, so that a run can be resumed and evaluated by its folder. */
export const dataSourceSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("generated"), options: generatorOptions }),
  z.strictObject({ kind: z.literal("folder"), dir: z.string(), task: z.enum(["cta", "cpa"]) }),
]);
export type DataSource = z.output<typeof dataSourceSchema>;

export function generatedSource(options: GeneratorOptions = {}): DataSource {
  return { kind: "generated", options: parseOptions("generateDataset", generatorOptions, options) };
}

export function folderSource(dir: string, task: Task = "cta"): DataSource {
  return { kind: "folder", dir, task };
}

/** @throws AegirError ERR_DATA where a folder has no labelled tables */
export async function openDataSource(source: DataSource): Promise<Dataset> {
  if (source.kind === "generated") return generateDataset(source.options);
  throw new AegirError("ERR_DATA", `${source.dir}: folders are read by the readers of lib/data`);
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
