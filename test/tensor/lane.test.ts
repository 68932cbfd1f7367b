import { readdirSync, readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { native } from "../../lib/native/load.js";
import { backward, Lane, memory, Tensor, tidy, withSignal } from "../../lib/tensor/index.js";
import { expectAegirError, expectRejection, slowLoss } from "./support.js";

let liveBefore = 0;
beforeEach(() => {
  liveBefore = memory().liveTensors;
});
afterEach(() => {
  expect(memory().liveTensors).toBe(liveBefore);
});

/** Queues a backward of tens of milliseconds. */
const slowJob = (lane: Lane, signal?: AbortSignal) =>
  tidy(() => backward([slowLoss().loss], undefined, { lane, signal }));

describe("order and overlap", () => {
  it("a lane runs its jobs in the order in which they were queued", async () => {
    await using lane = new Lane({ name: "fifo" });
    const done: number[] = [];
    const intervals = await Promise.all(
      [0, 1, 2, 3].map(async (i) => {
        const { interval } = await slowJob(lane);
        done.push(i);
        return interval;
      }),
    );
    expect(done).toEqual([0, 1, 2, 3]);
    for (let i = 1; i < 4; i++) expect(intervals[i]!.start).toBeGreaterThanOrEqual(intervals[i - 1]!.end);
  });

  it("two lanes run side by side", async () => {
    await using a = new Lane({ name: "a" });
    await using b = new Lane({ name: "b" });
    const jobs = tidy(() => {
      const [one, two] = [slowLoss({ depth: 60 }).loss, slowLoss({ depth: 60 }).loss];
      return Promise.all([backward([one], undefined, { lane: a }), backward([two], undefined, { lane: b })]);
    });
    const [first, second] = (await jobs).map((job) => job.interval) as [
      { start: number; end: number },
      { start: number; end: number },
    ];
    expect(Math.max(first.start, second.start)).toBeLessThan(Math.min(first.end, second.end));
  });

  it("intervals are on the clock of performance.now()", async () => {
    await using lane = new Lane();
    const before = performance.now();
    const { interval } = await slowJob(lane);
    const after = performance.now();
    expect(interval.start).toBeGreaterThan(before);
    expect(interval.end).toBeGreaterThan(interval.start);
    expect(interval.end).toBeLessThan(after);
  });

  it("a lane has as many threads as it was given, whatever other lanes have", async () => {
    await using one = new Lane({ name: "one thread", threads: 1 });
    await using three = new Lane({ name: "three threads", threads: 3 });
    for (const lane of [three, one, three, one]) await slowJob(lane);
    expect([threadsNamed("one thread"), threadsNamed("three threads")]).toEqual([1, 3]);
  });

  // libtorch and this package each remember whether a thread has its count.
  it("so do kernels of the package's own, as the first job of a lane too", async () => {
    await using one = new Lane({ name: "own kernel 1", threads: 1 });
    await using three = new Lane({ name: "own kernel 3", threads: 3 });
    const ownKernel = async (lane: Lane) => {
      using generator = new (native().Generator)(1);
      using x = native().Tensor.randn([64, 8, 4, 16], "f32", generator);
      const { output, finalState } = await native().wkv7(lane.native, {
        r: x,
        decay: x,
        k: x,
        v: x,
        a: x,
        b: x,
      });
      output.dispose();
      finalState.dispose();
    };
    for (const lane of [three, one, three, one]) await ownKernel(lane);
    expect([threadsNamed("own kernel 1"), threadsNamed("own kernel 3")]).toEqual([1, 3]);
  });

  it("the event loop turns while a job runs", async () => {
    await using lane = new Lane();
    const job = tidy(() => backward([slowLoss({ depth: 80 }).loss], undefined, { lane }));
    let running = true;
    const finished = job.finally(() => {
      running = false;
    });
    let turns = 0;
    while (running) {
      await new Promise(setImmediate);
      turns++;
    }
    await finished;
    expect(turns).toBeGreaterThan(20);
  });
});

/** Threads of this process with this name: a lane names its own, and its OpenMP team inherits the name. */
function threadsNamed(name: string): number {
  const tasks = readdirSync("/proc/self/task");
  return tasks.filter((task) => readFileSync(`/proc/self/task/${task}/comm`, "utf8").trim() === name).length;
}

describe("results", () => {
  it("backward weighs the losses and accumulates in the leaves", async () => {
    await using lane = new Lane();
    await tidy(async () => {
      const x = Tensor.from([1, -2], { dtype: "f64" });
      x.requiresGrad = true;
      await backward([x.mul(x).sum(), x.sum()], [0.5, 10], { lane });
      expect(x.grad()!.toArray()).toEqual([11, 8]);
      await backward([x.sum()], undefined, { lane });
      expect(x.grad()!.toArray()).toEqual([12, 9]);
    });
  });

  it("a job holds its inputs: they may be disposed as soon as the call has returned", async () => {
    await using lane = new Lane();
    const leaf = await tidy(async () => {
      const made = slowLoss({ depth: 2 });
      const job = backward([made.loss], undefined, { lane });
      made.loss.dispose();
      await job;
      return made.leaf;
    });
    using gradient = leaf.grad();
    expect(gradient!.shape).toEqual(leaf.shape);
    leaf.dispose();
  });

  it("errors inside a job reject with a code and no backtrace", async () => {
    await using lane = new Lane();
    await tidy(async () => {
      const { loss } = slowLoss({ depth: 1 });
      await backward([loss], undefined, { lane });
      await expectRejection(
        backward([loss], undefined, { lane }),
        "ERR_ARGUMENT",
        /backward.*second time[^\n]*$/i,
      );
      await expectRejection(
        backward([Tensor.ones([2])], undefined, { lane }),
        "ERR_SHAPE",
        /losses\[0\]: expected a scalar/,
      );
      await expectRejection(
        backward([Tensor.ones([1])], undefined, { lane }),
        "ERR_ARGUMENT",
        /losses\[0\]: no gradient/,
      );
      await expectRejection(backward([], [], { lane }), "ERR_ARGUMENT", /losses: expected at least one/);
      await expectRejection(backward([loss], [1, 2], { lane }), "ERR_ARGUMENT", /weights: expected 1/);
    });
    expect(lane.pending).toBe(0);
  });
});

describe("abort", () => {
  it("queued jobs reject at once, the running one and the others finish", async () => {
    await using lane = new Lane();
    const controller = new AbortController();
    const order: string[] = [];
    await tidy(async () => {
      const losses = [slowLoss({ depth: 80 }), slowLoss({ depth: 2 }), slowLoss({ depth: 2 })].map(
        (made) => made.loss,
      );
      const [running, aborted, after] = losses.map((loss, i) =>
        backward([loss], undefined, { lane, signal: i === 1 ? controller.signal : undefined }).finally(() =>
          order.push(`${i}`),
        ),
      ) as [Promise<unknown>, Promise<unknown>, Promise<unknown>];
      expect(lane.pending).toBe(3);
      controller.abort(new Error("enough"));
      expect(lane.pending).toBe(2);
      await expectRejection(aborted, "ERR_ABORTED", /aborted/);
      await Promise.all([running, after]);
    });
    expect(order).toEqual(["1", "0", "2"]);
  });

  it("a signal that was aborted before queues nothing and gives its reason as cause", async () => {
    await using lane = new Lane();
    const reason = new Error("never");
    const job = slowJob(lane, AbortSignal.abort(reason));
    expect(lane.pending).toBe(0);
    await expect(job).rejects.toMatchObject({ code: "ERR_ABORTED", cause: reason });
  });

  it("withSignal leaves no listener behind and passes other errors on", async () => {
    const controller = new AbortController();
    await expect(withSignal(controller.signal, () => Promise.reject(new Error("other")))).rejects.toThrow(
      "other",
    );
    await expect(withSignal(controller.signal, () => Promise.resolve(5))).resolves.toBe(5);
    controller.abort();
    await expect(withSignal(undefined, () => Promise.resolve(6))).resolves.toBe(6);
  });
});

describe("closing", () => {
  it("close lets queued jobs finish, refuses new ones, and may be called again", async () => {
    const lane = new Lane({ name: "closing" });
    const jobs = [slowJob(lane), slowJob(lane)];
    const closing = lane.close();
    await expectRejection(slowJob(lane), "ERR_DISPOSED", /lane 'closing' is closed/);
    await Promise.all([closing, lane.close()]);
    expect(lane.pending).toBe(0);
    expect(await Promise.all(jobs)).toHaveLength(2);
    await lane.close();
    await expectRejection(lane.drain(), "ERR_DISPOSED", /closed/);
  });

  it("drain waits for what was queued before it", async () => {
    await using lane = new Lane();
    let done = 0;
    for (let i = 0; i < 3; i++) void slowJob(lane).then(() => done++);
    await lane.drain();
    expect(done).toBe(3);
  });

  it("options are checked", () => {
    expectAegirError(() => new Lane({ threads: 0 }), "ERR_CONFIG", /lane options\.threads.*was 0/);
    expectAegirError(() => new Lane({ thread: 1 } as object), "ERR_CONFIG", /did you mean 'threads'/);
  });
});
