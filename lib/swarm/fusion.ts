import { z } from "zod";
import { parseOptions } from "../config.js";
import type { Interval, NativeLane, NativeTensor, SwarmAgent } from "../native/contract.js";
import { native } from "../native/load.js";
import { SwarmModule, seededModule } from "./module.js";

const positive = z.number().int().positive();

const fusionSchema = z.strictObject({
  /** Heads and head size of the primary's stage. */
  numHeads: positive,
  headSize: positive,
  /** Specialists, without the primary. */
  numAgents: z.number().int().min(0),
  mode: z.enum(["weighted_sum", "gated", "concat_project"]).default("weighted_sum"),
  /** 1: every layer of the stage shares the parameters; else the number of layers, one set each. */
  layers: positive.default(1),
  /** concat_project refuses to allocate more weights than this. */
  maxDenseWeights: positive.default(64 * 2 ** 20),
  dtype: z.enum(["f32", "f64"]).default("f32"),
  seed: z.number().int().min(0).default(0),
});

export type FusionOptions = z.input<typeof fusionSchema>;
export type FusionMode = z.output<typeof fusionSchema>["mode"];

export interface FusionInput {
  batch: number;
  /** Layers to fuse. */
  layers: number;
  /** The primary's own states per layer (B,H,N,N); absent: zeros. */
  own?: NativeTensor[];
  agents: SwarmAgent[];
}

export interface FusionResult {
  /** (B,H,N,N) per layer. */
  states: NativeTensor[];
  /** (B,1+numAgents,H) per layer, the primary's own first; empty for concat_project. */
  weights: NativeTensor[];
  alignIntervals: Interval[];
  interval: Interval;
}

/**
 * Fuses the recurrent states of the activated specialists with the primary's own (docs/swarm.md), over slots n = own, 1 … numAgents:
 *
 *     weighted_sum    score_nh = <keyProj flat(S_n), query_h>; softmax over n; sum
 *     gated           softmax over n of learned gates (n,H); sum
 *     concat_project  Linear(slots·N·N → N·N) per head, inactive slots zero
 *
 * An inactive agent has weight exactly 0, and a row with no active agent keeps its own state bit for bit. Every mode starts
 * from a plain mean (concat_project: the own state plus the mean of the agents), so untrained fusion prefers no agent.
 */
export class RWKVStateFusion extends SwarmModule {
  readonly options: z.output<typeof fusionSchema>;

  /** @throws AegirError ERR_CONFIG naming the option; ERR_OUT_OF_MEMORY for concat_project above maxDenseWeights */
  constructor(options: FusionOptions) {
    const checked = parseOptions("RWKVStateFusion options", fusionSchema, options);
    const { seed, ...config } = checked;
    super(seededModule("stateFusion", config, seed));
    this.options = checked;
  }

  get numAgents(): number {
    return this.options.numAgents;
  }

  /** @throws AegirError ERR_SHAPE, ERR_DTYPE, ERR_ARGUMENT naming the agent */
  forward(lane: NativeLane, input: FusionInput, options: { grad?: boolean } = {}): Promise<FusionResult> {
    return native().swarmFuse(lane, this.native, { ...input, grad: options.grad ?? false });
  }
}
