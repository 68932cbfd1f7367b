import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import { runPool } from "../../lib/train/pool.js";

test("results come in order and no more than the limit run at once", async () => {
  let running = 0;
  let most = 0;
  const tasks = [30, 5, 20, 1].map((ms) => async () => {
    most = Math.max(most, ++running);
    await setTimeout(ms);
    running--;
    return ms;
  });
  expect(await runPool(tasks, 2)).toEqual([30, 5, 20, 1]);
  expect(most).toBe(2);
});

test("a failure waits for what runs, starts nothing more and is thrown", async () => {
  const done: string[] = [];
  const tasks = [
    async () => {
      await setTimeout(20);
      done.push("slow");
    },
    async () => {
      throw new Error("boom");
    },
    async () => {
      done.push("never");
    },
  ];
  await expect(runPool(tasks, 2)).rejects.toThrow("boom");
  expect(done).toEqual(["slow"]);
});
