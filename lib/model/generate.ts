import { z } from "zod";
import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import type { GenerateInput, NativeState, NativeTensor } from "../native/contract.js";
import { native as addon } from "../native/load.js";
import { withSignal } from "../tensor/lane.js";
import type { AegirForCausalLM } from "./causal_lm.js";

const generateSchema = z.strictObject({
  /** Tokens at most. */
  maxNewTokens: z.int().min(1).default(256),
  /** Logits are divided by it; 0: always the most probable token. */
  temperature: z.number().min(0).default(1),
  /** Draw among the so many most probable tokens; 0: among all. */
  topK: z.int().min(0).default(0),
  /** Draw among the fewest tokens whose probabilities reach this together. */
  topP: z.number().gt(0).max(1).default(1),
  /** Decides every draw. */
  seed: z.int().min(0).default(0),
  /** Ids that end the text; they are not part of it. */
  stop: z.array(z.int().min(0)).readonly().default([]),
  /** Role of the prompt's and the new tokens. */
  role: z.int().min(0).default(0),
});

export type GenerateOptions = z.input<typeof generateSchema> & {
  /** Continues a sequence from here, and stays the caller's. */
  state?: NativeState;
  /** Ends the generation: the iterator rejects with ERR_ABORTED. */
  signal?: AbortSignal;
};

/** Tokens drawn in one native call; the consumer sees them together. */
const BURST = 16;

/** What `model.generate` does. */
export async function* generateTokens(
  model: AegirForCausalLM,
  prompt: string | readonly number[] | Uint8Array,
  generateOptions: GenerateOptions,
): AsyncGenerator<number, void, void> {
  const { state, signal, ...options } = generateOptions ?? {};
  const { maxNewTokens, seed, stop, ...sampling } = parseOptions("generate", generateSchema, options);
  const given = tokenIds(prompt);
  const generator = new (addon().Generator)(seed);
  let at: Position | undefined;
  try {
    at = await readPrompt(model, given, sampling.role, { state, signal });
    for (let left = maxNewTokens; left > 0; ) {
      const input: GenerateInput = { ...at, ...sampling, stop: [...stop], count: Math.min(left, BURST) };
      const drawn = await withSignal(signal, (cancel) =>
        addon().modelGenerate(model.lane, model.native, input, generator, cancel),
      );
      release(at);
      at = { logits: drawn.logits, state: drawn.state };
      yield* drawn.ids;
      if (drawn.stopped) return;
      left -= drawn.ids.length;
    }
  } finally {
    release(at);
    generator.dispose();
  }
}

/** @throws AegirError ERR_ARGUMENT */
function tokenIds(prompt: string | readonly number[] | Uint8Array): Int32Array {
  const refused = (got: string) =>
    new AegirError("ERR_ARGUMENT", `prompt: expected a text, bytes or a list of token ids, got ${got}`);
  if (typeof prompt === "string") prompt = Buffer.from(prompt, "utf8");
  if (!Array.isArray(prompt) && !(ArrayBuffer.isView(prompt) && !(prompt instanceof DataView)))
    throw refused(prompt === null ? "null" : typeof prompt);
  const ids = Array.from(prompt as ArrayLike<unknown>);
  if (ids.length === 0)
    throw new AegirError("ERR_ARGUMENT", "prompt: expected at least one byte or token id, got none");
  const odd = ids.findIndex((id) => !Number.isInteger(id) || Math.abs(id as number) > 0x7fffffff);
  if (odd >= 0) throw refused(`${String(ids[odd])} at ${odd}`);
  return Int32Array.from(ids as number[]);
}

interface Position {
  /** (V) */
  logits: NativeTensor;
  state: NativeState;
}

function release(at: Position | undefined): void {
  at?.logits.dispose();
  at?.state.dispose();
}

async function readPrompt(
  model: AegirForCausalLM,
  ids: Int32Array,
  role: number,
  { state, signal }: { state?: NativeState; signal?: AbortSignal },
): Promise<Position> {
  const { Tensor } = addon();
  const shape = [1, ids.length];
  const inputIds = Tensor.fromData(ids, shape, "i64");
  const roleIds = Tensor.full(shape, role, "i64");
  try {
    const output = await model.forward({ inputIds, roleIds, state }, { signal });
    using last = output.logits.slice(1, ids.length - 1, ids.length);
    using row = last.reshape([last.shape[2]!]);
    // A copy: a view would keep the logits of the whole prompt.
    const logits = row.clone();
    for (const part of [output.logits, output.routingHidden, output.ratioLoss]) part.dispose();
    return { logits, state: output.state };
  } finally {
    inputIds.dispose();
    roleIds.dispose();
  }
}
