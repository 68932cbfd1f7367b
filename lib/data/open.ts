import { existsSync, statSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import { LABELS_FILE, readCsvFiles, readCsvFolder } from "./csvFolder.js";
import { isSotabFolder, readSotab } from "./sotab.js";
import type { Dataset, Table } from "./types.js";

const openOptions = z.strictObject({
  task: z.enum(["cta", "cpa"]).default("cta"),
  /** SOTAB's layout: "full", "small" or the name of a training ground-truth file. */
  trainFile: z.string().default("full"),
  /** Of the split by table, where labels.csv gives none. */
  seed: z.int().default(0),
});
export type OpenOptions = z.input<typeof openOptions>;

/**
 * Opens a folder of labelled tables, whichever layout it has: CSV files with a `labels.csv`, or SOTAB's. A folder with subfolders CTA and CPA,
 * of either layout, stands for the one of the task.
 * @throws AegirError ERR_DATA where it has neither layout; ERR_CONFIG for a training file where there is none to choose
 */
export async function openDataset(dir: string, options: OpenOptions = {}): Promise<Dataset> {
  const settings = parseOptions("openDataset", openOptions, options);
  if (!existsSync(dir)) throw new AegirError("ERR_DATA", `${dir}: no such folder`);
  if (!statSync(dir).isDirectory()) {
    throw new AegirError("ERR_DATA", `${dir}: a file, expected a folder of labelled tables`);
  }
  for (const folder of [dir, path.join(dir, settings.task.toUpperCase())]) {
    if (existsSync(path.join(folder, LABELS_FILE))) {
      if (settings.trainFile === "full") return readCsvFolder(folder, settings);
      throw new AegirError(
        "ERR_CONFIG",
        `trainFile (--train-file): was '${settings.trainFile}', but ${folder} holds CSV files with a ${LABELS_FILE}, which has one training split; leave it out`,
      );
    }
    if (await isSotabFolder(folder)) return readSotab(folder, settings);
  }
  throw new AegirError(
    "ERR_DATA",
    `${dir}: no labelled tables; expected CSV files with a ${LABELS_FILE}, or SOTAB's layout (Train, Validation and Test folders with ground-truth CSVs beside them)`,
  );
}

/** The tables of a folder of CSV files without a `labels.csv`; null where it is none. @throws AegirError ERR_DATA for a file that cannot be read */
export async function openUnlabelled(dir: string): Promise<Table[] | null> {
  if (!existsSync(dir) || !statSync(dir).isDirectory() || existsSync(path.join(dir, LABELS_FILE)))
    return null;
  const tables = await readCsvFiles(dir);
  return tables.length > 0 ? tables : null;
}
