import { afterAll, describe, expect, it } from "vitest";
import type { AegirForCausalLM, GenerateOptions } from "../../lib/index.js";
import { causalLM, dispose, idTensor, rowValues } from "./support.js";

async function collect(
  model: AegirForCausalLM,
  prompt: string | readonly number[] | Uint8Array,
  options?: GenerateOptions,
): Promise<number[]> {
  const ids: number[] = [];
  for await (const id of model.generate(prompt, options)) ids.push(id);
  return ids;
}

/** The most probable continuation, by whole forwards. */
async function greedy(model: AegirForCausalLM, prompt: number[], count: number): Promise<number[]> {
  const ids = [...prompt];
  for (let i = 0; i < count; i++) {
    using inputIds = idTensor([ids]);
    using output = await model.forward({ inputIds });
    const last = rowValues(output.logits, 0).slice(-264);
    ids.push(last.indexOf(Math.max(...last)));
  }
  return ids.slice(prompt.length);
}

describe.each(["flat", "chunked", "ngrams"] as const)("generate, %s", (geometry) => {
  const model = causalLM(geometry, { dtype: "f64" });
  afterAll(() => model.dispose());

  it("at temperature 0 takes the most probable token, over several bursts", async () => {
    const expected = await greedy(model, [97, 98], 40);
    expect(await collect(model, "ab", { maxNewTokens: 40, temperature: 0 })).toEqual(expected);
    expect(await collect(model, [97, 98], { maxNewTokens: 17, temperature: 0 })).toEqual(
      expected.slice(0, 17),
    );
    expect(await collect(model, "ab", { maxNewTokens: 5, topK: 1, seed: 3 })).toEqual(expected.slice(0, 5));
    expect(await collect(model, "ab", { maxNewTokens: 5, topP: 1e-6, seed: 4 })).toEqual(
      expected.slice(0, 5),
    );
  });

  it("equal seeds give equal tokens, other seeds others; a stop id ends the text", async () => {
    const first = await collect(model, "a", { maxNewTokens: 30, seed: 5 });
    expect(first).toHaveLength(30);
    expect(await collect(model, "a", { maxNewTokens: 30, seed: 5 })).toEqual(first);
    expect(await collect(model, "a", { maxNewTokens: 30, seed: 6 })).not.toEqual(first);
    const stop = first[20]!;
    const until = first.slice(0, first.indexOf(stop));
    expect(await collect(model, "a", { maxNewTokens: 30, seed: 5, stop: [stop] })).toEqual(until);
  });

  it("goes on from a state as from the whole text", async () => {
    using inputIds = idTensor([[97, 98, 99]]);
    using output = await model.forward({ inputIds });
    const options = { maxNewTokens: 12, temperature: 0 };
    expect(await collect(model, "de", { ...options, state: output.state })).toEqual(
      await collect(model, "abcde", options),
    );
    expect(output.state.disposed).toBe(false);
  });
});

describe("generate", () => {
  const model = causalLM("flat");
  afterAll(() => model.dispose());

  it("draws tokens as often as their probabilities say", async () => {
    using inputIds = idTensor([[97]]);
    using output = await model.forward({ inputIds });
    using probabilities = output.logits.softmax(2);
    const p = rowValues(probabilities, 0);
    const draws = 400;
    const counts = new Array<number>(264).fill(0);
    for (let seed = 0; seed < draws; seed++) {
      const [id] = await collect(model, "a", { maxNewTokens: 1, seed });
      counts[id!]!++;
    }
    // Over the tokens in order of probability: the largest distance of the two distributions (Kolmogorov and Smirnov; 1.95 / sqrt(n)
    // is passed by one in a thousand).
    const order = p.map((_, id) => id).sort((a, b) => p[b]! - p[a]!);
    let [expected, seen, worst] = [0, 0, 0];
    for (const id of order) {
      expected += p[id]!;
      seen += counts[id]! / draws;
      worst = Math.max(worst, Math.abs(expected - seen));
    }
    expect(worst).toBeLessThan(1.95 / Math.sqrt(draws));
  });

  it("is ended by its signal and by leaving the loop", async () => {
    const controller = new AbortController();
    const ids: number[] = [];
    const run = async () => {
      for await (const id of model.generate("a", { maxNewTokens: 1e6, signal: controller.signal })) {
        ids.push(id);
        if (ids.length === 40) controller.abort();
      }
    };
    await expect(run()).rejects.toMatchObject({ code: "ERR_ABORTED" });
    expect(ids.length).toBeGreaterThanOrEqual(40);
    expect(ids.length).toBeLessThan(80);
    for await (const _ of model.generate("a", { maxNewTokens: 1e6 })) break;
  });

  it.each([
    ["", {}, "ERR_ARGUMENT", "prompt: expected at least one"],
    [[300], {}, "ERR_ARGUMENT", "inputIds: every id must lie in 0..263"],
    ["a", { temperature: -1 }, "ERR_CONFIG", "generate.temperature"],
    ["a", { maxTokens: 3 }, "ERR_CONFIG", "did you mean 'maxNewTokens'"],
    ["a", { topP: 0 }, "ERR_CONFIG", "generate.topP"],
    ["a", { role: 9 }, "ERR_ARGUMENT", "roleIds"],
  ] as [string | number[], GenerateOptions, string, string][])(
    "%j with %j: %s",
    async (prompt, options, code, message) => {
      await expect(collect(model, prompt, options)).rejects.toMatchObject({
        code,
        message: expect.stringContaining(message),
      });
    },
  );

  it("refuses a state of two sequences", async () => {
    using inputIds = idTensor([[97], [98]]);
    const output = await model.forward({ inputIds });
    await expect(collect(model, "a", { state: output.state })).rejects.toMatchObject({ code: "ERR_SHAPE" });
    dispose(output);
  });
});

it("refuses prompts that are no text, bytes or ids, and lanes that are none", async () => {
  const model = causalLM("flat", {});
  for (const [prompt, got] of [
    [null, "null"],
    [5, "number"],
    [{}, "object"],
    [[1.5], "1.5 at 0"],
    [[65, Number.NaN], "NaN at 1"],
    [["a"], "a at 0"],
    [[2 ** 32 + 65], "4294967361 at 0"],
  ] as [never, string][])
    await expect(collect(model, prompt, { maxNewTokens: 1 })).rejects.toMatchObject({
      code: "ERR_ARGUMENT",
      message: expect.stringContaining(`token ids, got ${got}`),
    });
  using inputIds = idTensor([[97]]);
  await expect(model.forward({ inputIds }, { lane: 5 as never })).rejects.toMatchObject({
    code: "ERR_ARGUMENT",
    message: expect.stringContaining("lane: expected a Lane"),
  });
  model.dispose();
});
