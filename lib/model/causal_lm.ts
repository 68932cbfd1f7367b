import type { ModelOutput } from "../native/contract.js";
import { type CausalLMOptions, nativeBackbone, resolveCausalLM } from "./config.js";
import { AegirModel, createModule, disposable, type ModelRuntime } from "./model.js";
import type { CausalLMOutput } from "./types.js";

/** A byte-level language model: byte + role embedding → backbone → next-byte logits (docs/model.md). */
export class AegirForCausalLM extends AegirModel<CausalLMOutput> {
  /** @throws AegirError ERR_CONFIG naming the option */
  constructor(options: CausalLMOptions, runtime: ModelRuntime = {}) {
    const resolved = resolveCausalLM(options);
    super(createModule("causalLM", nativeBackbone(resolved), runtime.seed ?? 0), resolved, runtime);
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
