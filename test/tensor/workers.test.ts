import { describe, expect, it } from "vitest";
import { type ChildResult, runChild } from "./children.js";

/** Code that queues long jobs on a lane and leaves them running. */
const startLongJobs = `
  const { Tensor, Generator, Lane, backward } = await import(entry);
  const lane = new Lane({ threads: 2 });
  const leaf = Tensor.randn([256, 256], new Generator(1));
  leaf.requiresGrad = true;
  for (let job = 0; job < 8; job++) {
    let product = leaf.mul(1 / 256);
    for (let i = 0; i < 40; i++) product = product.matmul(leaf);
    backward([product.mean()], undefined, { lane }).catch(() => {});
  }
`;

/** A worker thread that runs module code. */
const inWorker = (code: string) =>
  `new Worker(new URL("data:text/javascript," + encodeURIComponent(${JSON.stringify(`const entry = ENTRY;${code}`)}.replace("ENTRY", JSON.stringify(entry)))))`;

function expectClean(result: ChildResult, code: number): void {
  expect({ code: result.code, signal: result.signal, stderr: result.stderr }).toEqual({
    code,
    signal: null,
    stderr: "",
  });
}

describe("leaving in the middle of native work", () => {
  it("process.exit keeps its code", async () => {
    for (const delay of [0, 5, 40]) {
      expectClean(await runChild(`${startLongJobs} setTimeout(() => process.exit(7), ${delay});`), 7);
    }
  });

  it("process.exit at once, with jobs queued and none awaited", async () => {
    expectClean(await runChild(`${startLongJobs} process.exit(3);`), 3);
  });

  it("an uncaught exception ends the process with code 1, not a signal", async () => {
    const result = await runChild(
      `${startLongJobs} setTimeout(() => { throw new Error("on purpose"); }, 5);`,
    );
    expect([result.code, result.signal]).toEqual([1, null]);
    expect(result.stderr).toContain("on purpose");
  });

  it("pending jobs keep the process alive, idle lanes do not", async () => {
    const result = await runChild(`
      ${startLongJobs}
      lane.drain().then(() => console.log("drained"));
      new Lane();
    `);
    expectClean(result, 0);
    expect(result.stdout).toBe("drained\n");
  });

  it("worker.terminate in mid-job leaves the process well", async () => {
    const result = await runChild(`
      import { Worker } from "node:worker_threads";
      import { once } from "node:events";
      for (const delay of [0, 10, 60]) {
        const worker = ${inWorker(`${startLongJobs} (await import("node:worker_threads")).parentPort.postMessage("running");`)};
        await once(worker, "message");
        await new Promise((resolve) => setTimeout(resolve, delay));
        await worker.terminate();
      }
      console.log(aegir.Tensor.ones([2]).sum().item());
    `);
    expectClean(result, 0);
    expect(result.stdout).toBe("2\n");
  });

  it("process.exit while workers work", async () => {
    const result = await runChild(`
      import { Worker } from "node:worker_threads";
      import { once } from "node:events";
      const workers = [1, 2].map(() => ${inWorker(`${startLongJobs} (await import("node:worker_threads")).parentPort.postMessage("running");`)});
      await Promise.all(workers.map((worker) => once(worker, "message")));
      process.exit(9);
    `);
    expectClean(result, 9);
  });
});

describe("several environments in one process", () => {
  it("three workers and the main thread load the addon and work at once, each with its own counts", async () => {
    const work = `
      const { Tensor, Lane, Generator, memory, backward, tidy } = await import(entry);
      const { parentPort } = await import("node:worker_threads");
      const lane = new Lane();
      let total = 0;
      for (let i = 0; i < 50; i++) {
        await tidy(async () => {
          const x = Tensor.randn([32, 32], new Generator(i));
          x.requiresGrad = true;
          await backward([x.matmul(x).sum()], undefined, { lane });
          total += x.grad().sum().item();
        });
      }
      await lane.close();
      parentPort?.postMessage({ total, live: memory().liveTensors });
      var result = { total, live: memory().liveTensors };
    `;
    const result = await runChild(`
      import { Worker } from "node:worker_threads";
      import { once } from "node:events";
      const workers = [1, 2, 3].map(() => ${inWorker(work)});
      const answers = Promise.all(workers.map(async (worker) => (await once(worker, "message"))[0]));
      ${work}
      console.log(JSON.stringify([result, ...(await answers)]));
    `);
    expectClean(result, 0);
    const answers = JSON.parse(result.stdout) as { total: number; live: number }[];
    expect(answers).toHaveLength(4);
    expect(new Set(answers.map((answer) => answer.total)).size).toBe(1);
    expect(answers.map((answer) => answer.live)).toEqual([0, 0, 0, 0]);
  });
});
