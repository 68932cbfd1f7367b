import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { AegirError } from "../errors.js";
import { makeFolder, writeFileAtomic, writing } from "../train/atomic.js";
import { firstDifference } from "../train/checkpoint.js";
import { lockRun } from "../train/runLock.js";
import { CellStore } from "./cells.js";

const FORMAT = 1;

/**
 * Opens an experiment's folder for this process alone: makes it with its `experiment.json`, or checks that what lies there was made
 * with the same options.
 *
 *     experiment.json      what is run; other options need another folder
 *     cells/<key>.json     result of each part that is done
 *     runs/<key>/          trainings, each a run folder
 *     report.md, report.json, *.svg
 *
 * @throws AegirError ERR_CONFIG where the folder holds something else, another experiment, or is in use; ERR_CHECKPOINT where
 *   experiment.json is damaged
 */
export async function openExperiment(
  dir: string,
  experiment: { kind: string; options: unknown },
): Promise<{ store: CellStore; close(): Promise<void> }> {
  if (dir === "") throw new AegirError("ERR_CONFIG", "out (--out): expected a folder, got ''");
  const path = join(dir, "experiment.json");
  const wanted = JSON.parse(JSON.stringify({ format: FORMAT, ...experiment })) as unknown;
  if (existsSync(path)) checkSame(dir, await recorded(path), wanted);
  else {
    if (existsSync(dir) && (await writing(dir, () => readdir(dir))).length > 0) {
      throw new AegirError(
        "ERR_CONFIG",
        `${dir} already holds files that are no experiment: choose another folder (--out)`,
      );
    }
    await writing(dir, () => makeFolder(dir));
    await writeFileAtomic(path, `${JSON.stringify(wanted, null, 2)}\n`);
  }
  const close = await lockRun(dir);
  return { store: new CellStore(dir), close };
}

async function recorded(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, "utf8"));
  } catch (cause) {
    throw new AegirError("ERR_CHECKPOINT", `${path} is truncated or not JSON`, { cause });
  }
}

function checkSame(dir: string, before: unknown, now: unknown): void {
  const difference = firstDifference(before, now);
  if (!difference) return;
  const { path, left, right } = difference;
  throw new AegirError(
    "ERR_CONFIG",
    `${dir} holds an experiment with other options: ${path} is ${left} there, ${right} here; give the same, or another folder (--out)`,
  );
}
