import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { NativeTensor, NgramInput } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { testSeed } from "../rl/support.js";
import { ngramBucketsOf } from "./ngramBucket.js";
import { expectGradients, Workbench } from "./support.js";

const seed = testSeed("ngramEmbedding");
const bench = new Workbench(seed);
const sizes = [1, 2, 4];
const longest = 4;

async function embed(input: NgramInput) {
  const { output, history } = await native().ngramEmbedding(bench.lane, input);
  return { output: bench.keep(output), history: bench.keep(history) };
}

function values(tensor: NativeTensor): number[] {
  return Array.from(tensor.data(), Number);
}

/** Bytes that look alike are met often. */
const id = fc.oneof(
  fc.integer({ min: 0, max: 263 }),
  fc.constantFrom(...Buffer.from("AZaz09@[`{/:"), 127, 128, 255),
);
/** Long enough for whole vectors of tokens beside single ones. */
const sequence = fc.array(id, { maxLength: 40 });
/** Rows of less than a vector, of one and a rest, and of three and six at a time. */
const width = fc.constantFrom(1, 5, 19, 29, 77);

describe("ngramEmbedding", () => {
  it("hashes as documented and sums the rows, whatever the packing", async () => {
    const packed = fc.array(sequence, { minLength: 1, maxLength: 4 });
    const buckets = fc.constantFrom(37, 64);
    const forms = fc.record({ buckets, width, lowercase: fc.boolean(), shapes: fc.boolean() });
    const law = fc.asyncProperty(packed, forms, async (sequences, { buckets, width, lowercase, shapes }) => {
      const table = bench.normal(buckets, width);
      const starts = [0];
      for (const ids of sequences) starts.push(starts.at(-1)! + ids.length);
      const input = {
        table,
        ids: bench.i64(sequences.flat()),
        cuSeqlens: bench.i64(starts),
        sizes,
        lowercase,
        shapes,
      };
      const { output } = await embed(input);
      const found = bench.keep(await native().ngramBuckets(bench.lane, input));
      const expected = sequences.flatMap((ids) =>
        ids.map((_, t) => ngramBucketsOf(ids.slice(0, t + 1), { sizes, buckets, lowercase, shapes })),
      );
      expect(values(found)).toEqual(expected.flat());
      const rows = values(table);
      const sums = expected.flatMap((found) =>
        Array.from({ length: width }, (_, i) =>
          found.reduce((sum, row) => sum + (row < 0 ? 0 : rows[row * width + i]!), 0),
        ),
      );
      for (const [i, value] of values(output).entries()) expect(value).toBeCloseTo(sums[i]!, 12);
    });
    await fc.assert(law, { seed, numRuns: 30 });
  });

  it("goes on from its history wherever a sequence is cut", async () => {
    const law = fc.asyncProperty(fc.array(id, { minLength: 1, maxLength: 12 }), async (ids) => {
      const table = bench.normal(64, 3);
      const all = (part: number[], history?: NativeTensor) =>
        embed({
          table,
          ids: bench.i64(part),
          cuSeqlens: bench.i64([0, part.length]),
          history,
          sizes,
          lowercase: true,
          shapes: true,
        });
      const whole = await all(ids);
      for (let cut = 0; cut <= ids.length; cut++) {
        const head = await all(ids.slice(0, cut));
        const tail = await all(ids.slice(cut), head.history);
        expect([...values(head.output), ...values(tail.output)]).toEqual(values(whole.output));
        expect(values(tail.history)).toEqual(values(whole.history));
      }
      const kept = ids.slice(-(longest - 1));
      const before = Array<number>(longest - 1 - kept.length).fill(-1);
      expect(values(whole.history)).toEqual([...before, ...kept]);
    });
    await fc.assert(law, { seed, numRuns: 20 });
  });

  it("has the reference's values and gradient, and that of finite differences", async () => {
    const ids = bench.i64([3, 3, 3, 97, 3, 3, 0, 255]);
    const cuSeqlens = bench.i64([0, 5, 8]);
    const history = bench.keep(bench.i64([-1, 97, 3, -1, -1, -1]).reshape([2, 3]));
    // Few rows: every one is met several times.
    for (const [lowercase, shapes] of [
      [false, false],
      [true, false],
      [false, true],
    ] as const) {
      for (const reference of [false, true]) {
        await expectGradients(bench, { table: bench.normal(7, 3) }, async ({ table }) => [
          (await embed({ table: table!, ids, cuSeqlens, history, sizes, lowercase, shapes, reference }))
            .output,
        ]);
      }
    }
    const table = bench.normal(7, 3);
    const given = { table, ids, cuSeqlens, history, sizes, lowercase: true, shapes: true };
    const [fused, plain] = [await embed(given), await embed({ ...given, reference: true })];
    expect(fused.output.maxAbsDiff(plain.output)).toBeLessThan(1e-14);
  });

  it.each([
    { sizes: [], error: /^sizes: expected rising/ },
    { sizes: [2, 2], error: /^sizes: expected rising/ },
    { sizes: [17], error: /^sizes: expected rising n-gram lengths from 1 to 16/ },
    { sizes: [1.5], error: /^sizes\[0\]: expected an integer from 0 to \d+, got 1\.5/ },
    { ids: [0, -1, 2], error: /^ids: expected no negative id/ },
    { history: [1, 2], error: /^history: expected \[1, 3\], got \[2\]/ },
  ])("refuses what it can't read: $error", async ({ error, ids = [1, 2, 3], history, ...given }) => {
    const input = { table: bench.normal(8, 2), ids: bench.i64(ids), cuSeqlens: bench.i64([0, 3]), sizes };
    const call = embed({ ...input, ...given, ...(history ? { history: bench.i64(history) } : {}) });
    await expect(call).rejects.toThrow(error);
  });

  it("refuses a history of what are no ids", async () => {
    const history = bench.keep(bench.i64([1, -2]).reshape([1, 2]));
    const input = {
      table: bench.normal(8, 2),
      ids: bench.i64([1]),
      cuSeqlens: bench.i64([0, 1]),
      sizes: [3],
    };
    await expect(embed({ ...input, history })).rejects.toThrow(
      "history: expected ids, and -1 where there is none",
    );
  });
});
