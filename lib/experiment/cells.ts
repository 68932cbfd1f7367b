import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { AegirError } from "../errors.js";
import { makeFolder, writeFileAtomic } from "../train/atomic.js";
import type { ProgressListener } from "../train/progress.js";

/** What a cell is given while it runs. */
export interface CellContext {
  signal?: AbortSignal;
  onProgress?: ProgressListener;
  /** The result of a cell that this one needs, as JSON gives it back. */
  resultOf(key: string): unknown;
}

/** A part of an experiment that is done once: its result lies in `cells/<key>.json` of the experiment's folder. */
export interface Cell {
  /** Path of letters, digits, dots, dashes and slashes, as `seed-0/swarm`. */
  key: string;
  /** Keys of the cells that must be done before. */
  needs: readonly string[];
  /** Expected time relative to the other cells': the forecast's. */
  cost: number;
  /** Anything that JSON holds but null. */
  run(context: CellContext): Promise<unknown>;
}

/** What is stored of a cell. */
export interface CellRecord {
  /** False: it was interrupted, and the times are those of the part that ran. */
  done: boolean;
  seconds: number;
  /** Of the process, shared evenly among the cells that ran at the same time. */
  cpuSeconds: number;
  result: unknown;
}

const recordSchema = z.strictObject({
  done: z.boolean(),
  seconds: z.number(),
  cpuSeconds: z.number(),
  result: z.unknown(),
});

/** The records of an experiment's folder. */
export class CellStore {
  constructor(readonly dir: string) {}

  path(key: string): string {
    return join(this.dir, "cells", `${key}.json`);
  }

  /** Null where the cell has not begun. @throws AegirError ERR_CHECKPOINT for a file that is no record */
  async read(key: string): Promise<CellRecord | null> {
    const path = this.path(key);
    if (!existsSync(path)) return null;
    try {
      const record = recordSchema.parse(JSON.parse(await readFile(path, "utf8"))) as CellRecord;
      if (record.done && record.result == null) throw new Error("done, but without a result");
      return record;
    } catch (cause) {
      throw new AegirError(
        "ERR_CHECKPOINT",
        `${path} is no result of a cell (truncated or changed); remove it and the cell runs again`,
        { cause },
      );
    }
  }

  async write(key: string, record: CellRecord): Promise<void> {
    const path = this.path(key);
    await makeFolder(dirname(path));
    await writeFileAtomic(path, `${JSON.stringify(record)}\n`);
  }
}
