import { existsSync } from "node:fs";
import { appendFile, readFile, stat, truncate } from "node:fs/promises";
import { AegirError } from "../errors.js";
import { writing } from "./atomic.js";

export type MetricValue = number | string | boolean | null | MetricValue[] | { [key: string]: MetricValue };

/** One line of `metrics.jsonl`: what kind of record, at which step, and its values. */
export interface MetricRecord {
  kind: string;
  step: number;
  [key: string]: MetricValue;
}

/**
 * Appends JSON lines. Lines are held back until `flush`, which every checkpoint calls first and whose byte count the
 * checkpoint records: a resumed run cuts the file there, so that it reads like the log of an unbroken run.
 */
export class MetricsLog {
  private held: string[] = [];

  constructor(readonly path: string) {}

  write(record: MetricRecord): void {
    this.held.push(`${JSON.stringify(record, replaceNonFinite)}\n`);
  }

  /** Writes what is held and returns the file's size in bytes. */
  async flush(): Promise<number> {
    const text = this.held.join("");
    this.held = [];
    if (text.length > 0) await writing(this.path, () => appendFile(this.path, text));
    return existsSync(this.path) ? (await stat(this.path)).size : 0;
  }

  /** Cuts the file to the size that a checkpoint recorded; 0 starts afresh. */
  async rewind(bytes: number): Promise<void> {
    this.held = [];
    const size = existsSync(this.path) ? (await stat(this.path)).size : 0;
    if (size < bytes) {
      throw new AegirError(
        "ERR_CHECKPOINT",
        `${this.path} has ${size} bytes, but the checkpoint was saved when it had ${bytes}: the log was changed`,
      );
    }
    if (size > bytes) await truncate(this.path, bytes);
  }
}

/** Every record of a log. @throws AegirError ERR_DATA naming the line that is not JSON. */
export async function readMetrics(path: string): Promise<MetricRecord[]> {
  const lines = (await readFile(path, "utf8")).split("\n").filter((line) => line.length > 0);
  return lines.map((line, i) => {
    try {
      return JSON.parse(line) as MetricRecord;
    } catch (cause) {
      throw new AegirError("ERR_DATA", `${path} line ${i + 1} is not JSON`, { cause });
    }
  });
}

/** JSON has no NaN and no infinities: they are written as strings, so that a bad run shows in its log. */
function replaceNonFinite(_key: string, value: unknown): unknown {
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
}
