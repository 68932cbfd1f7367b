import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type Checkpoint,
  firstDifference,
  hasCheckpoint,
  loadCheckpoint,
  saveCheckpoint,
} from "../../lib/train/checkpoint.js";

const geometry = { stages: { dModel: 64, encoder: [{ code: "w" }] }, numLabels: 3 };

function example(step: number): Checkpoint<{ step: number }> {
  const data = new Uint8Array(new Float32Array([step, -step]).buffer);
  return {
    geometry,
    groups: {
      model: new Map([["w", { dtype: "f32", shape: [2], data }]]),
      optimizer: new Map([["w.exp_avg", { dtype: "f32", shape: [2], data }]]),
    },
    state: { step },
  };
}

describe("checkpoint", () => {
  let parent: string;
  let dir: string;
  beforeEach(async () => {
    parent = await mkdtemp(join(tmpdir(), "aegir-checkpoint-"));
    dir = join(parent, "checkpoint");
  });
  afterEach(() => rm(parent, { recursive: true }));

  test("what is saved comes back, and a second save replaces the first whole", async () => {
    expect(await hasCheckpoint(dir)).toBe(false);
    await saveCheckpoint(dir, example(1));
    await saveCheckpoint(dir, example(2));
    expect(await readdir(parent)).toEqual(["checkpoint"]);
    const { state, groups } = await loadCheckpoint<{ step: number }>(dir, { geometry });
    expect(state).toEqual({ step: 2 });
    expect([...groups.model!.get("w")!.data]).toEqual([...example(2).groups.model!.get("w")!.data]);
    expect(Object.keys((await loadCheckpoint(dir, { only: ["model"] })).groups)).toEqual(["model"]);
  });

  test("a save cut off between its renames leaves the former checkpoint", async () => {
    await saveCheckpoint(dir, example(1));
    await rename(dir, `${dir}.old`);
    await mkdir(`${dir}.99.tmp`);
    expect(await hasCheckpoint(dir)).toBe(true);
    expect((await loadCheckpoint<{ step: number }>(dir)).state.step).toBe(1);
  });

  test("a save that fails leaves the former checkpoint and nothing beside it", async () => {
    await saveCheckpoint(dir, example(1));
    const broken = example(2);
    broken.groups.model!.set("short", { dtype: "f32", shape: [9], data: new Uint8Array(1) });
    await expect(saveCheckpoint(dir, broken)).rejects.toMatchObject({ code: "ERR_CHECKPOINT" });
    expect(await readdir(parent)).toEqual(["checkpoint"]);
    expect((await loadCheckpoint<{ step: number }>(dir)).state.step).toBe(1);
  });

  test("other geometry names the first difference", async () => {
    await saveCheckpoint(dir, example(1));
    const other = { ...geometry, stages: { ...geometry.stages, dModel: 96 } };
    await expect(loadCheckpoint(dir, { geometry: other })).rejects.toMatchObject({
      code: "ERR_CHECKPOINT",
      message: expect.stringContaining("stages.dModel is 64 in the checkpoint, 96 in this model"),
    });
    expect(firstDifference([1, { a: 2 }], [1, { a: 2, b: 3 }])).toEqual({
      path: "[1].b",
      left: "absent",
      right: "3",
    });
  });

  test.each([
    [{ groups: 5 }, /groups is no list of names/],
    [{ groups: ["model", "../config"] }, /groups is no list of names/],
    [{ groups: [] }, /holds no model tensors/],
  ])("%j in state.json is refused", async (change, message) => {
    await saveCheckpoint(dir, example(1));
    const path = join(dir, "state.json");
    const head = JSON.parse(await readFile(path, "utf8"));
    await writeFile(path, JSON.stringify({ ...head, ...change }));
    await expect(loadCheckpoint(dir)).rejects.toMatchObject({
      code: "ERR_CHECKPOINT",
      message: expect.stringMatching(message),
    });
  });

  test("truncated files are named", async () => {
    await saveCheckpoint(dir, example(1));
    const path = join(dir, "optimizer.safetensors");
    await writeFile(path, (await readFile(path)).subarray(0, -3));
    await expect(loadCheckpoint(dir)).rejects.toMatchObject({
      code: "ERR_CHECKPOINT",
      message: expect.stringMatching(/optimizer\.safetensors is truncated/),
    });
    await writeFile(join(dir, "state.json"), "{");
    await expect(loadCheckpoint(dir)).rejects.toThrow(/state\.json is truncated or not JSON/);
    await rm(join(dir, "state.json"));
    await expect(loadCheckpoint(dir)).rejects.toThrow(/state\.json: cannot be read/);
  });
});
