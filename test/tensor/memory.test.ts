import { describe, expect, it } from "vitest";
import { native } from "../../lib/native/load.js";
import { emptyCache, memory, resetPeakMemory, Tensor } from "../../lib/tensor/index.js";
import { runChild } from "./children.js";

/** Code of a child: kilobytes of what is mapped with large pages asked for, and of a line of the process's status. */
const MEASURES = String.raw`
  const { readFileSync } = await import("node:fs");
  const kilobytes = (text, name) => Number(text.match(new RegExp(name + ":\\s+(\\d+) kB"))[1]);
  const advised = () =>
    readFileSync("/proc/self/smaps", "utf8")
      .split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m)
      .filter((area) => / hg( |$)/m.test(area))
      .reduce((sum, area) => sum + kilobytes(area, "Size"), 0);
  const status = (name) => kilobytes(readFileSync("/proc/self/status", "utf8"), name);
`;

describe("the CPU allocator", () => {
  it("hands a freed block out again, and gives cached blocks back", () => {
    emptyCache();
    const start = memory().allocator;
    expect(start.cachedBytes).toBe(0);
    const bytes = 4 * 1024 * 1024;
    Tensor.zeros([bytes / 4]).dispose();
    const cached = memory().allocator;
    expect(cached.cachedBytes).toBeGreaterThanOrEqual(bytes);
    expect(cached.reservedBytes - start.reservedBytes).toBe(cached.cachedBytes);
    const again = Tensor.zeros([bytes / 4 - 100]);
    const used = memory().allocator;
    expect(used.hits).toBeGreaterThan(cached.hits);
    expect(used.reservedBytes).toBe(cached.reservedBytes);
    again.dispose();
    emptyCache();
    expect(memory().allocator.cachedBytes).toBe(0);
    expect(memory().allocator.reservedBytes).toBe(start.reservedBytes);
  });

  it("lets a large block serve for a smaller one, and keeps it for its own size", () => {
    emptyCache();
    const start = memory().allocator;
    const take = (bytes: number) => Tensor.zeros([bytes / 4]);
    take(4_000_000).dispose();
    const { reservedBytes } = memory().allocator;
    for (const bytes of [3_300_000, 4_000_000, 3_500_000]) {
      const tensor = take(bytes);
      expect(memory().allocator.reservedBytes, `${bytes} bytes`).toBe(reservedBytes);
      tensor.dispose();
    }
    // Far smaller ones do not hold it.
    const small = take(1_000_000);
    expect(memory().allocator.reservedBytes).toBeGreaterThan(reservedBytes);
    small.dispose();
    emptyCache();
    expect(memory().allocator.reservedBytes).toBe(start.reservedBytes);
  });

  it("wastes at most an eighth and a page, from a byte to megabytes", () => {
    for (const size of [1, 63, 64, 65, 512, 513, 1000, 4097, 262_144, 300_001, 1_048_577, 9_000_000]) {
      emptyCache();
      const before = memory().allocator.reservedBytes;
      const tensor = Tensor.zeros([size], { dtype: "u8" });
      const taken = memory().allocator.reservedBytes - before;
      expect(taken).toBeGreaterThanOrEqual(size);
      expect(taken).toBeLessThanOrEqual(size * 1.125 + 64 + 4096);
      tensor.dispose();
    }
  });

  it.runIf(process.platform === "linux")(
    "asks for large pages for large blocks, and gives back all that it mapped",
    async () => {
      const { stdout, code } = await runChild(`
        const { Tensor, emptyCache } = aegir;
        ${MEASURES}
        const mapped = () => status("VmSize");
        const before = advised();
        const tensor = Tensor.zeros([16 * 2 ** 20]);
        const during = advised();
        tensor.dispose();
        emptyCache();
        const after = advised();
        const start = mapped();
        for (let i = 0; i < 200; i++) {
          Tensor.zeros([2 ** 20 + i * 1000]).dispose();
          emptyCache();
        }
        console.log(JSON.stringify({ asked: during - before, kept: after - before, grown: mapped() - start }));
      `);
      expect(code).toBe(0);
      const { asked, kept, grown } = JSON.parse(stdout);
      expect(asked).toBeGreaterThanOrEqual(64 * 1024);
      expect(kept).toBe(0);
      // The edge of a large page forgotten each time would be a hundred megabytes and more.
      expect(grown).toBeLessThan(32 * 1024);
    },
  );

  it.runIf(process.platform === "linux")(
    "puts the weights of a layer into large pages side by side, and gives each back by itself",
    async () => {
      const { stdout, stderr } = await runChild(`
        const { Tensor, emptyCache } = aegir;
        ${MEASURES}
        const resident = () => status("VmRSS");
        const values = new Float32Array(256 * 263);
        const weights = () =>
          Array.from({ length: 100 }, (_, i) => Tensor.from(values.fill(i + 1).subarray(256 * (i % 7))));
        const dispose = (tensors, remainder) => {
          tensors.forEach((tensor, i) => i % 2 === remainder && tensor.dispose());
          emptyCache();
        };
        const before = advised();
        const rounds = [];
        for (let round = 0; round < 5; round++) {
          const layer = weights();
          const held = { advised: advised() - before, resident: resident() };
          dispose(layer, 0);
          const half = resident();
          dispose(layer, 1);
          rounds.push({ ...held, half, kept: advised() - before, after: resident() });
        }
        const layer = weights();
        dispose(layer, 0);
        const intact = layer.every((weight, i) => i % 2 === 0 || weight.data().every((x) => x === i + 1));
        console.log(JSON.stringify({ rounds, intact }));
      `);
      expect(stderr).toBe("");
      const { rounds, intact } = JSON.parse(stdout);
      expect(intact).toBe(true);
      for (const { advised, resident, half, kept, after } of rounds) {
        expect(advised).toBeGreaterThanOrEqual(100 * 256);
        expect(resident - half).toBeGreaterThan(10 * 1024);
        expect(half - after).toBeGreaterThan(10 * 1024);
        // Of the last chunk what has not been handed out.
        expect(kept).toBeLessThanOrEqual(8 * 1024);
      }
      expect(rounds.at(-1).after - rounds[0].after).toBeLessThan(8 * 1024);
    },
  );

  it.skipIf(native().info().cuda.available)("names no device where there is none", () => {
    expect(memory().devices).toEqual([]);
    expect(resetPeakMemory()).toBeUndefined();
  });

  it("counts bytes of storages once and tensors by handle", () => {
    const before = memory();
    const tensor = Tensor.zeros([1000], { dtype: "f64" });
    const view = tensor.slice(0, 0, 10);
    const now = memory();
    expect([now.liveTensors - before.liveTensors, now.liveBytes - before.liveBytes]).toEqual([2, 8000]);
    tensor.dispose();
    expect(memory().liveBytes - before.liveBytes).toBe(8000);
    view.dispose();
    expect(memory()).toMatchObject({ liveTensors: before.liveTensors, liveBytes: before.liveBytes });
  });
});

/** Resident megabytes after 100 and after 20,000 rounds of `round`, and the live tensors left. */
async function growth(round: string): Promise<{ early: number; late: number; left: number }> {
  const { stdout, code } = await runChild(`
    const { Tensor, tidy, memory } = aegir;
    // What the collector has yet to collect is not what rounds leave behind.
    const resident = () => (gc(), process.memoryUsage().rss / 2 ** 20);
    const round = ${round};
    let early = 0;
    for (let i = 0; i < 20_000; i++) {
      await round(i);
      if (i === 99) early = resident();
    }
    console.log(JSON.stringify({ early, late: resident(), left: memory().liveTensors }));
  `);
  expect(code).toBe(0);
  return JSON.parse(stdout);
}

describe("20,000 rounds stay within 50 MB of the first hundred", () => {
  it.each([
    [
      "with dispose",
      `() => { const a = Tensor.ones([128, 128]); const b = a.add(1); const c = b.sum(); a.dispose(); b.dispose(); c.dispose(); }`,
    ],
    ["with tidy", `() => tidy(() => { Tensor.ones([128, 128]).add(1).sum(); })`],
    [
      "with an async tidy",
      `() => tidy(async () => { const a = Tensor.ones([128, 128]).add(1); await null; a.sum(); })`,
    ],
    ["of sizes that change", `(i) => tidy(() => { Tensor.ones([1 + ((i * 7919) % 300), 300]).exp(); })`],
  ])("%s", async (_name, round) => {
    const { early, late, left } = await growth(round);
    expect(left).toBe(0);
    expect(late - early).toBeLessThan(50);
  });

  it("even tensors that nobody disposes are collected", async () => {
    const { early, late } = await growth(
      `async (i) => { Tensor.ones([256, 256]); if (i % 50 === 0) await new Promise(setImmediate); }`,
    );
    // 20,000 tensors of 256 KiB are 5 GB: the collector must have run, at its own pace.
    expect(late - early).toBeLessThan(600);
  });
});
