import type { ModelOutput } from "../native/contract.js";
import { native as addon } from "../native/load.js";
import { withSignal } from "../tensor/lane.js";
import { type CausalLMOptions, nativeBackbone, resolveCausalLM } from "./config.js";
import { type GenerateOptions, generateTokens } from "./generate.js";
import { AegirModel, createModule, disposable, type ModelRuntime, parseRuntime } from "./model.js";
import type { CausalLMOutput, StepInputs, StepOutput } from "./types.js";

/** A byte-level language model: byte + role embedding → backbone → next-byte logits (docs/model.md). */
export class AegirForCausalLM extends AegirModel<CausalLMOutput> {
  /** @throws AegirError ERR_CONFIG naming the option */
  constructor(options: CausalLMOptions, runtime: ModelRuntime = {}) {
    const resolved = resolveCausalLM(options);
    const given = parseRuntime(runtime);
    super(createModule("causalLM", nativeBackbone(resolved), given.seed), resolved, given);
  }

  /**
   * One more token of each sequence: what `forward` gives for (B,1) tokens from the same state, to rounding, several times faster for a
   * few rows on a CPU. No graph is built, and the given state stays as it is.
   *
   *     let { logits, state } = await model.step({ inputIds, state: before });
   *
   * @throws AegirError ERR_SHAPE, ERR_DTYPE, ERR_ARGUMENT, ERR_NON_FINITE naming the input; ERR_DISPOSED; ERR_ABORTED
   */
  async step(inputs: StepInputs, options: { signal?: AbortSignal } = {}): Promise<StepOutput> {
    const output = await withSignal(options.signal, (cancel) =>
      addon().modelStep(this.lane, this.native, inputs, cancel),
    );
    return disposable(output, [output.logits, output.state]);
  }

  /**
   * Continues a prompt: yields token ids as they are drawn, bytes under 256, specials above. Equal seeds give equal tokens.
   *
   *     for await (const id of model.generate("Lisbon|Por", { maxNewTokens: 40, temperature: 0.8, seed: 1 }))
   *       process.stdout.write(Buffer.from([id]));
   *
   * @param prompt a text, written as UTF-8, or token ids; at least one
   * @throws AegirError ERR_CONFIG naming the option; ERR_ARGUMENT for an empty prompt or an id out of range; ERR_NON_FINITE; ERR_ABORTED
   */
  generate(
    prompt: string | readonly number[] | Uint8Array,
    options: GenerateOptions = {},
  ): AsyncGenerator<number, void, void> {
    return generateTokens(this, prompt, options);
  }

  protected override wrap(output: ModelOutput): CausalLMOutput {
    const { logits, state, routingHidden, ratioLoss, boundaryRates, interval } = output;
    return disposable({ logits, state, routingHidden, ratioLoss, boundaryRates, interval }, [
      logits,
      state,
      routingHidden,
      ratioLoss,
    ]);
  }
}
