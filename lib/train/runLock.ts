import { existsSync } from "node:fs";
import { open, readFile, realpath, rm } from "node:fs/promises";
import { join } from "node:path";
import { threadId } from "node:worker_threads";
import { AegirError } from "../errors.js";
import { removeLeftovers, writing } from "./atomic.js";

/** Trainings of this thread, by the real path of their lock: a folder has many spellings. */
const held = new Set<string>();

/**
 * Keeps other trainings out of a run folder: `lock` in it names the process that trains there. One whose process is gone counts for nothing.
 * @returns lets go of the folder
 * @throws AegirError ERR_CONFIG where another training has it
 */
export async function lockRun(dir: string): Promise<() => Promise<void>> {
  const path = join(await realpath(dir), "lock");
  if (held.has(path)) throw taken(dir, path, process.pid);
  held.add(path);
  try {
    await writing(path, () => claim(dir, path));
    await removeLeftovers(dir);
  } catch (error) {
    held.delete(path);
    throw error;
  }
  return async () => {
    held.delete(path);
    await rm(path, { force: true });
  };
}

async function claim(dir: string, path: string): Promise<void> {
  const owner = existsSync(path) ? (await readFile(path, "utf8")).trim() : null;
  if (owner !== null) {
    const [pid, started, thread] = owner.split(" ");
    // This thread knows what it holds: a lock of its own that it does not is an earlier training's, which was cut off.
    const own = Number(pid) === process.pid && Number(thread) === threadId;
    if (!own && started !== undefined && started === (await startOf(Number(pid)))) {
      throw taken(dir, path, Number(pid));
    }
    await rm(path, { force: true });
  }
  const file = await open(path, "wx").catch((error: NodeJS.ErrnoException) => {
    throw error.code === "EEXIST" ? taken(dir, path, null) : error;
  });
  try {
    await file.writeFile(`${process.pid} ${await startOf(process.pid)} ${threadId}\n`);
  } finally {
    await file.close();
  }
}

/** When a process started, in the system's ticks: numbers of processes come again. Undefined: there is none. */
async function startOf(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  // After the command's name, which is in parentheses and may hold anything.
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
}

function taken(dir: string, path: string, pid: number | null): AegirError {
  const who = pid === null ? "another process" : pid === process.pid ? "this process" : `process ${pid}`;
  return new AegirError(
    "ERR_CONFIG",
    `${dir}: ${who} is training in it; wait for its end or choose another folder (if that is not so, remove ${path})`,
  );
}
