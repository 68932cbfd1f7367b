import type { Batch } from "../data/types.js";
import { batchInput } from "../model/index.js";
import {
  Activation,
  type SpecialistCache,
  type SwarmOrchestrator,
  type SwarmTiming,
} from "../swarm/index.js";
import type { LogitsOf } from "./predict.js";
import { Scope } from "./tensors.js";

export interface SwarmLogitsOptions {
  /** Routing of the batch's examples; absent: the router's. */
  routing?: (batch: Batch) => Uint8Array;
  /** Specialists' outputs by example; absent, or where it lacks an example: they run. */
  cache?: SpecialistCache | null;
  onActivation?: (activation: Activation, batch: Batch) => void;
  /** Called for forwards that did not use the cache. */
  onTiming?: (timing: SwarmTiming) => void;
}

/** The logits of a swarm. */
export function swarmLogits(swarm: SwarmOrchestrator, options: SwarmLogitsOptions = {}): LogitsOf {
  return async (batch) => {
    using scope = new Scope();
    const inputs = scope.keep(batchInput(batch));
    const results = options.cache?.select(batch.rows);
    if (results) {
      const prefix = scope.keep(await swarm.prefix(inputs));
      const activation = await decide(swarm, prefix.routingHidden, batch, options.routing, scope);
      options.onActivation?.(activation, batch);
      const output = scope.keep(await swarm.complete(prefix, activation, results));
      return output.logits.data() as Float32Array;
    }
    const routing = options.routing ? { mask: options.routing(batch) } : "learned";
    const { dispose: _, ...rows } = inputs;
    const output = scope.keep(await swarm.forward({ ...rows, routingHidden: "auto", routing }));
    options.onActivation?.(
      Activation.from(output.activationMask, batch.size, swarm.specialists.length),
      batch,
    );
    options.onTiming?.(output.timing);
    return output.output.logits.data() as Float32Array;
  };
}

async function decide(
  swarm: SwarmOrchestrator,
  hidden: Parameters<SwarmOrchestrator["route"]>[0],
  batch: Batch,
  routing: SwarmLogitsOptions["routing"],
  scope: Scope,
): Promise<Activation> {
  const n = swarm.specialists.length;
  if (routing) return Activation.from(routing(batch), batch.size, n);
  const logits = scope.keep((await swarm.route(hidden)).logits);
  return Activation.fromLogits(logits, swarm.activationThreshold, n);
}
