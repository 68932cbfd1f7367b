import type { ModelOutput } from "../native/contract.js";
import { type CausalLMOptions, nativeBackbone, resolveCausalLM } from "./config.js";
import { AegirModel, createModule, disposable, type ModelRuntime, parseRuntime } from "./model.js";
import type { CausalLMOutput } from "./types.js";

/** A byte-level language model: byte + role embedding → backbone → next-byte logits (docs/model.md). */
export class AegirForCausalLM extends AegirModel<CausalLMOutput> {
  /** @throws AegirError ERR_CONFIG naming the option */
  constructor(options: CausalLMOptions, runtime: ModelRuntime = {}) {
    const resolved = resolveCausalLM(options);
    const given = parseRuntime(runtime);
    super(createModule("causalLM", nativeBackbone(resolved), given.seed), resolved, given);
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
