import { existsSync } from "node:fs";
import { mkdir, open, readdir, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AegirError } from "../errors.js";

/**
 * Runs what writes to `path`. @throws AegirError ERR_DATA with the system's reason (no space, no permission, not a folder …)
 */
export async function writing<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (!(cause instanceof Error && "syscall" in cause)) throw cause;
    throw new AegirError("ERR_DATA", `${path}: cannot be written (${cause.message})`, { cause });
  }
}

/** Makes a folder and those above it. The system's own way never ends where it says ENOENT for a parent that is there, as in /proc. */
export async function makeFolder(path: string): Promise<void> {
  if (existsSync(path)) return;
  const parent = dirname(path);
  if (parent !== path) await makeFolder(parent);
  await mkdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
}

/**
 * Writes a file so that a reader sees the old contents or the new ones, never a part: temporary file, fsync, rename. Links are followed;
 * what is there and no file, as a device or a pipe, is written to.
 */
export function writeFileAtomic(path: string, contents: Uint8Array | string): Promise<void> {
  return writing(path, async () => {
    const present = await stat(path).catch(() => null);
    if (present && !present.isFile()) return await writeFile(path, contents);
    await replaceFile(present ? await realpath(path) : path, contents);
  });
}

async function replaceFile(path: string, contents: Uint8Array | string): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    await writeSynced(temporary, contents);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncDirectory(dirname(path));
}

/**
 * Replaces a folder and all its files at once. Between the two renames the former folder is at `<path>.old`, where
 * `currentDirectory` finds it.
 */
export function replaceDirectory(path: string, files: Map<string, Uint8Array | string>): Promise<void> {
  return writing(path, () => replaceFolder(path, files));
}

async function replaceFolder(path: string, files: Map<string, Uint8Array | string>): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`;
  const former = `${path}.old`;
  await recoverDirectory(path);
  try {
    await makeFolder(temporary);
    for (const [name, contents] of files) await writeSynced(join(temporary, name), contents);
    await syncDirectory(temporary);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    throw error;
  }
  if (existsSync(path)) await rename(path, former);
  await rename(temporary, path);
  await syncDirectory(dirname(path));
  await rm(former, { recursive: true, force: true });
}

/** Removes what killed writers left in a folder; nobody may be writing there. */
export async function removeLeftovers(dir: string): Promise<void> {
  const left = (await readdir(dir)).filter((name) => /\.\d+\.tmp$/.test(name));
  for (const name of left) await rm(join(dir, name), { recursive: true, force: true });
}

/** Where a replaced folder can be read: between the two renames, and where a crash left it so, that is `<path>.old`. */
export function currentDirectory(path: string): string {
  const former = `${path}.old`;
  return !existsSync(path) && existsSync(former) ? former : path;
}

/** Writers alone may do this: a reader would come between another's renames. */
async function recoverDirectory(path: string): Promise<void> {
  const former = `${path}.old`;
  if (!existsSync(former)) return;
  if (existsSync(path)) await rm(former, { recursive: true, force: true });
  else await rename(former, path);
}

async function writeSynced(path: string, contents: Uint8Array | string): Promise<void> {
  const file = await open(path, "w");
  try {
    await file.writeFile(contents);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
