import { describe, expect, it } from "vitest";
import { AegirForColumnAnnotation, batchInput } from "../../lib/model/index.js";
import { SpecialistCache, SwarmOrchestrator } from "../../lib/swarm/index.js";
import { randomOf, testSeed } from "../rl/support.js";
import {
  expectError,
  i64,
  liveTensors,
  PRIMARY,
  randomBatch,
  settledTensors,
  specialist,
} from "./support.js";

const seed = testSeed("cache");
const specialists = [specialist(1, "one"), specialist(2, "two")];
const random = randomOf(seed);
const batches = [randomBatch(random, 4, 12, 0), randomBatch(random, 3, 20, 4)];
/** Two layers of 4 heads of 16 x 16, 5 logits and 32 pooled values, two specialists, float32. */
const BYTES_PER_EXAMPLE = 2 * 4 * (2 * 4 * 16 * 16 + 5 + 32);

describe("SpecialistCache", () => {
  it("answers as the specialists do, for any rows of any batch and for repeated ones", async () => {
    using cache = await SpecialistCache.build(specialists, batches);
    expect(cache.bytes).toBe(7 * BYTES_PER_EXAMPLE);
    const primary = new AegirForColumnAnnotation(PRIMARY, { seed: 3 });
    const swarm = new SwarmOrchestrator({ primaryModel: primary, specialists, fuse: "states+outputs" });
    using inputs = batchInput(batches[1]!);
    using prefix = await swarm.prefix(inputs);
    const mask = [
      [true, false],
      [true, true],
      [false, true],
    ];
    const live = await swarm.runSpecialists(inputs, mask);
    using expected = await swarm.complete(prefix, mask, live);
    const cached = cache.select(batches[1]!.rows)!;
    using actual = await swarm.complete(prefix, mask, cached);
    // The specialists ran on fewer rows the first time: rounding of float32.
    expect(actual.logits.maxAbsDiff(expected.logits)).toBeLessThan(1e-5);

    // One prefix under two routings: row 1 twice.
    const again = [1, 1];
    using twice = await primary.selectRows(prefix, i64(again));
    const routings = [mask[1]!, [false, false]];
    using both = await swarm.complete(
      twice,
      routings,
      cached.map((result) => result.selectRows(again)),
    );
    const rows = [0, 1].map((row) => Array.from(both.logits.slice(0, row, row + 1).data(), Number));
    const first = Array.from(actual.logits.slice(0, 1, 2).data(), Number);
    for (const [i, value] of rows[0]!.entries()) expect(value).toBeCloseTo(first[i]!, 5);
    expect(rows[1]).not.toEqual(rows[0]);
    expect(cache.hitRate).toBe(1);
  });

  it("keeps to its bound", async () => {
    const maxBytes = 5 * BYTES_PER_EXAMPLE;
    await expect(SpecialistCache.build(specialists, batches, { maxBytes })).rejects.toEqual(
      expectError(
        "ERR_OUT_OF_MEMORY",
        new RegExp(`7 examples need ${7 * BYTES_PER_EXAMPLE} bytes.*${maxBytes}`),
      ),
    );
    using partial = await SpecialistCache.build(specialists, batches, { maxBytes, overflow: "partial" });
    expect(partial.bytes).toBe(4 * BYTES_PER_EXAMPLE);
    expect(partial.covers(batches[0]!.rows)).toBe(true);
    expect(partial.select([0, 3, 5])).toBeNull();
    expect(partial.select([0, 3, 1])!.map((result) => Array.from(result.positions))).toEqual([
      [0, 3, 1],
      [0, 3, 1],
    ]);
    expect(partial.hitRate).toBe(0.5);
  });

  it("frees what it made, also where it is stopped", async () => {
    const before = await settledTensors();
    const cache = await SpecialistCache.build(specialists, batches);
    expect(liveTensors()).toBeGreaterThan(before);
    cache.dispose();
    expect(liveTensors()).toBe(before);
    const signal = AbortSignal.abort();
    await expect(SpecialistCache.build(specialists, batches, { signal })).rejects.toEqual(
      expectError("ERR_ABORTED", /specialist/),
    );
    expect(liveTensors()).toBe(before);
  });
});
