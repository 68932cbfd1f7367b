import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Dtype, NativeTensor, Wkv7Input } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { testSeed } from "../rl/support.js";
import { expectGradients, type Inputs, Workbench } from "./support.js";

const seed = testSeed("wkv7");
const bench = new Workbench(seed);
/** Summation order differs between kernel and reference. */
const TOLERANCE = { f64: 1e-11, f32: 1e-4 };

type Tokens = Pick<Wkv7Input, "r" | "decay" | "k" | "v" | "a" | "b">;
const NAMES = ["r", "decay", "k", "v", "a", "b"] as const;

/** a and b small enough that the state stays bounded. */
function randomTokens(batch: number, tokens: number, heads: number, headSize: number): Tokens {
  const shape = [batch, tokens, heads, headSize];
  const unit = 1 / Math.sqrt(headSize);
  return {
    r: bench.normal(...shape),
    decay: bench.uniform(0.55, 1, ...shape),
    k: bench.normal(...shape),
    v: bench.normal(...shape),
    a: bench.uniform(-unit, unit, ...shape),
    b: bench.uniform(-unit, unit, ...shape),
  };
}

function mapTokens(tokens: Tokens, map: (tensor: NativeTensor) => NativeTensor): Tokens {
  const mapped = NAMES.map((name) => [name, map(tokens[name])] as const);
  return Object.fromEntries(mapped) as unknown as Tokens;
}

async function wkv7(input: Wkv7Input): Promise<{ output: NativeTensor; finalState: NativeTensor }> {
  const { output, finalState } = await native().wkv7(bench.lane, input);
  return { output: bench.keep(output), finalState: bench.keep(finalState) };
}

const sizes = fc.record({
  batch: fc.integer({ min: 1, max: 3 }),
  tokens: fc.integer({ min: 1, max: 37 }),
  heads: fc.integer({ min: 1, max: 2 }),
  headSize: fc.constantFrom(5, 8, 16, 32),
});

describe("wkv7", () => {
  it.each<"f64" | "f32">(["f64", "f32"])("agrees with the reference in %s", async (dtype: Dtype) => {
    const law = fc.asyncProperty(sizes, fc.boolean(), async (size, withState) => {
      const { batch, tokens, heads, headSize } = size;
      const cast = (tensor: NativeTensor) => bench.keep(tensor.to(dtype));
      const input: Wkv7Input = mapTokens(randomTokens(batch, tokens, heads, headSize), cast);
      if (withState) input.initialState = cast(bench.normal(batch, heads, headSize, headSize));
      const kernel = await wkv7(input);
      const reference = await wkv7({ ...input, reference: true });
      expect(kernel.output.dtype).toBe(dtype);
      expect(kernel.output.maxAbsDiff(reference.output)).toBeLessThan(TOLERANCE[dtype as "f64"]);
      expect(kernel.finalState.maxAbsDiff(reference.finalState)).toBeLessThan(TOLERANCE[dtype as "f64"]);
    });
    await fc.assert(law, { seed, numRuns: 20 });
  });

  it("continues from the returned state, wherever a sequence is cut", async () => {
    const law = fc.asyncProperty(sizes, fc.nat(), async ({ batch, tokens, heads, headSize }, position) => {
      const cut = position % (tokens + 1);
      const input = randomTokens(batch, tokens, heads, headSize);
      const part = (from: number, to: number) => mapTokens(input, (x) => bench.slice(x, 1, from, to));
      const whole = await wkv7(input);
      const head = await wkv7(part(0, cut));
      const tail = await wkv7({ ...part(cut, tokens), initialState: head.finalState });
      expect(bench.cat([head.output, tail.output], 1).maxAbsDiff(whole.output)).toBeLessThan(1e-12);
      expect(tail.finalState.maxAbsDiff(whole.finalState)).toBeLessThan(1e-12);
    });
    await fc.assert(law, { seed, numRuns: 20 });
  });

  it("treats packed, padded and single sequences alike, with lengths of 0", async () => {
    const lengths = [5, 0, 17, 1];
    const [heads, headSize, tokens] = [2, 16, 17];
    const states = bench.normal(lengths.length, heads, headSize, headSize);
    const padded = randomTokens(lengths.length, tokens, heads, headSize);
    const single = (x: NativeTensor, row: number) =>
      bench.slice(bench.slice(x, 0, row, row + 1), 1, 0, lengths[row]!);
    const packed = mapTokens(padded, (x) =>
      bench.cat(
        lengths.map((_, row) => single(x, row)),
        1,
      ),
    );
    const starts = [0, 5, 5, 22, 23];
    const ofPadded = await wkv7({ ...padded, initialState: states, lengths: bench.i64(lengths) });
    const ofPacked = await wkv7({ ...packed, initialState: states, cuSeqlens: bench.i64(starts) });
    for (const [row, length] of lengths.entries()) {
      const initialState = bench.slice(states, 0, row, row + 1);
      const alone = await wkv7({ ...mapTokens(padded, (x) => single(x, row)), initialState });
      expect(bench.slice(ofPadded.finalState, 0, row, row + 1).equal(alone.finalState)).toBe(true);
      expect(bench.slice(ofPacked.finalState, 0, row, row + 1).equal(alone.finalState)).toBe(true);
      expect(single(ofPadded.output, row).equal(alone.output)).toBe(true);
      expect(bench.slice(ofPacked.output, 1, starts[row]!, starts[row + 1]!).equal(alone.output)).toBe(true);
      const padding = bench.slice(bench.slice(ofPadded.output, 0, row, row + 1), 1, length, tokens);
      expect(Array.from(padding.data(), Number).every((x) => x === 0)).toBe(true);
    }
  });

  it("has the gradients that finite differences have, from the output and the final state", async () => {
    const lengths = bench.i64([18, 3]);
    const inputs: Inputs = { ...randomTokens(2, 18, 1, 8), initialState: bench.normal(2, 1, 8, 8) };
    await expectGradients(bench, inputs, async (given) => {
      const { output, finalState } = await wkv7({ ...(given as unknown as Wkv7Input), lengths });
      return [output, finalState];
    });
  });

  it("refuses wrong shapes and dtypes by the argument's name", async () => {
    const good = randomTokens(2, 3, 1, 8);
    const refusal = (code: string, message: RegExp) =>
      expect.objectContaining({ code, message: expect.stringMatching(message) });
    await expect(wkv7({ ...good, k: bench.normal(2, 3, 8) })).rejects.toEqual(
      refusal("ERR_SHAPE", /wkv7 k: /),
    );
    await expect(wkv7({ ...good, v: bench.keep(good.v.to("f32")) })).rejects.toEqual(
      refusal("ERR_DTYPE", /wkv7 v: expected r's dtype f64, got f32/),
    );
    await expect(wkv7({ ...good, initialState: bench.normal(1, 1, 8, 8) })).rejects.toEqual(
      refusal("ERR_SHAPE", /wkv7 initialState: /),
    );
    await expect(wkv7({ ...good, lengths: bench.i64([3, 4]) })).rejects.toEqual(
      refusal("ERR_ARGUMENT", /lengths: expected values from 0 to T = 3, got 4/),
    );
  });
});
