import { existsSync } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";

/** Writes a file so that a reader sees the old contents or the new ones, never a part: temporary file, fsync, rename. */
export async function writeFileAtomic(path: string, contents: Uint8Array | string): Promise<void> {
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
 * `recoverDirectory` finds it after a crash.
 */
export async function replaceDirectory(path: string, files: Map<string, Uint8Array | string>): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`;
  const former = `${path}.old`;
  await recoverDirectory(path);
  try {
    await mkdir(temporary, { recursive: true });
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

/** Puts `<path>.old` back where a crash left no `path`. */
export async function recoverDirectory(path: string): Promise<void> {
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
