import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { lstat, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { cwd } from "node:process";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import {
  currentDirectory,
  makeFolder,
  replaceDirectory,
  writeFileAtomic,
  writing,
} from "../../lib/train/atomic.js";
import { lockRun } from "../../lib/train/runLock.js";
import { folder } from "./support.js";

test("what the system refuses is one error that names the path, and nothing is left", async () => {
  await using dir = await folder();
  const file = join(dir.path, "file");
  await writeFile(file, "whole");
  const refused = { code: "ERR_DATA", message: expect.stringMatching(/cannot be written \(E[A-Z]+: /) };
  await expect(writeFileAtomic(join(file, "under"), "x")).rejects.toMatchObject(refused);
  await expect(writeFileAtomic(join(dir.path, "none", "x"), "x")).rejects.toMatchObject(refused);
  await expect(writeFileAtomic(dir.path, "x")).rejects.toMatchObject(refused);
  await expect(replaceDirectory(join(file, "under"), new Map([["a", "b"]]))).rejects.toMatchObject(refused);
  await expect(writing("/proc/run", () => makeFolder("/proc/run/deep"))).rejects.toMatchObject(refused);
  expect(await readdir(dir.path)).toEqual(["file"]);
  expect(await readFile(file, "utf8")).toBe("whole");
});

test("a link is followed, and a pipe is written to and stays one", async () => {
  await using dir = await folder();
  const [target, link, pipe] = ["target", "link", "pipe"].map((name) => join(dir.path, name)) as [
    string,
    string,
    string,
  ];
  await writeFile(target, "old");
  await symlink(target, link);
  await writeFileAtomic(link, "new");
  expect([await readFile(target, "utf8"), (await lstat(link)).isSymbolicLink()]).toEqual(["new", true]);
  execFileSync("mkfifo", [pipe]);
  const [read] = await Promise.all([readFile(pipe, "utf8"), writeFileAtomic(pipe, "through")]);
  expect([read, (await lstat(pipe)).isFIFO()]).toEqual(["through", true]);
});

/** What is read now. Between looking and reading the writer may move the folder on: then a reader looks again. */
function stateNow(path: string, tries = 5): number {
  try {
    return Number(readFileSync(join(currentDirectory(path), "state"), "utf8"));
  } catch (error) {
    if (tries === 1 || (error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return stateNow(path, tries - 1);
  }
}

test("a folder that is being replaced is found whole at one of its two places at any moment", async () => {
  await using dir = await folder();
  const path = join(dir.path, "checkpoint");
  await replaceDirectory(path, new Map([["state", "0"]]));
  let busy = true;
  const write = async () => {
    for (let i = 1; i <= 60; i++) await replaceDirectory(path, new Map([["state", String(i)]]));
    busy = false;
  };
  const read = async () => {
    for (let last = 0; busy; await nextTurn()) {
      const state = stateNow(path);
      expect(state).toBeGreaterThanOrEqual(last);
      last = state;
    }
  };
  await Promise.all([write(), read()]);
  expect(await readFile(join(path, "state"), "utf8")).toBe("60");
  expect(await readdir(dir.path)).toEqual(["checkpoint"]);
});

test("a run folder is one training's; a lock whose process is gone counts for nothing", async () => {
  await using dir = await folder();
  const unlock = await lockRun(dir.path);
  await expect(lockRun(dir.path)).rejects.toMatchObject({
    code: "ERR_CONFIG",
    message: expect.stringContaining("this process is training in it"),
  });
  await unlock();
  expect(await readdir(dir.path)).toEqual([]);

  const parent = (await readFile(`/proc/${process.ppid}/stat`, "utf8")).replace(/^.*\) /s, "").split(" ")[19];
  await writeFile(join(dir.path, "lock"), `${process.ppid} ${parent}\n`);
  await expect(lockRun(dir.path)).rejects.toMatchObject({
    message: expect.stringContaining(`process ${process.ppid} is training in it`),
  });

  for (const gone of [`${process.ppid} 1\n`, "4194303 5\n", ""]) {
    await writeFile(join(dir.path, "lock"), gone);
    await mkdir(join(dir.path, "checkpoint.99.tmp"));
    await (await lockRun(dir.path))();
    expect(await readdir(dir.path)).toEqual([]);
  }
});

test("a run folder is locked under every spelling of its path", async () => {
  await using dir = await folder();
  await mkdir(join(dir.path, "run"));
  await symlink(join(dir.path, "run"), join(dir.path, "link"));
  const release = await lockRun(join(dir.path, "run"));
  for (const other of [
    join(dir.path, "link"),
    join(dir.path, ".", "run", "..", "run"),
    relative(cwd(), join(dir.path, "run")),
  ])
    await expect(lockRun(other)).rejects.toThrow(/this process is training in it/);
  await release();
  await (await lockRun(join(dir.path, "link")))();
});
