import { z } from "zod";
import { parseOptions } from "../config.js";
import type {
  AdamWGroup,
  Interval,
  NativeLane,
  NativeModule,
  NativeOptimizer,
  NativeTensor,
  ParameterInfo,
} from "../native/contract.js";
import { native } from "../native/load.js";

const adamWSchema = z.strictObject({
  beta1: z.number().min(0).lt(1).default(0.9),
  beta2: z.number().min(0).lt(1).default(0.99),
  eps: z.number().positive().default(1e-8),
  /** Decoupled weight decay of the large matrices; every other group has none. */
  weightDecay: z.number().min(0).default(0.01),
  /** `muon`: the hidden matrices by Muon (arXiv:2502.16982), all the rest by AdamW; one learning rate serves both. */
  matrices: z.enum(["adamw", "muon"]).default("adamw"),
  /** Of Muon. */
  momentum: z.number().min(0).lt(1).default(0.95),
});

export type AdamWOptions = z.input<typeof adamWSchema>;

/** A module whose parameters an optimiser updates. */
export interface OptimizedModule {
  module: NativeModule;
  /** Multiplies the learning rate of all its parameters; fusion and routers learn faster than the backbone. */
  lrScale?: number;
  /** Names of parameters that are left out: those that stay as they are, or that another module of the same optimiser shares. */
  except?: RegExp;
}

/** Tables of embeddings and the last layer learn row by row: Muon is for the matrices between them. */
const OUTER_MATRIX = /(mbedding|ngrams|classifier|head)[\w.]*\.weight$/;

/** Learning rate factor of w0, the decay's base. */
const DECAY_BASE_LR = 2;

/**
 * The optimiser groups of docs/model.md: weight decay on the large matrices alone, twice the learning rate for w0.
 * @param muon update the hidden matrices by Muon
 */
export function parameterGroups(modules: OptimizedModule[], weightDecay: number, muon = false): AdamWGroup[] {
  const groups: AdamWGroup[] = [];
  for (const { module, lrScale = 1, except } of modules) {
    const byGroup = new Map<string, AdamWGroup>();
    for (const parameter of module.parameters()) {
      const { name, group } = parameter;
      if (except?.test(name)) continue;
      const byMuon = muon && isHiddenMatrix(parameter);
      const key = byMuon ? "muon" : group;
      const found = byGroup.get(key) ?? {
        module,
        names: [],
        lrScale: lrScale * (group === "decayBase" ? DECAY_BASE_LR : 1),
        weightDecay: group === "matrix" ? weightDecay : 0,
        ...(byMuon ? { muon: true } : {}),
      };
      found.names.push(name);
      byGroup.set(key, found);
    }
    groups.push(...byGroup.values());
  }
  return groups;
}

function isHiddenMatrix({ name, group, shape }: ParameterInfo): boolean {
  return group === "matrix" && shape.length === 2 && !OUTER_MATRIX.test(name);
}

export interface StepResult {
  /** Global norm of the gradient before clipping. */
  gradNorm: number;
  /** True where the gradient was not finite: then no parameter and no moment has changed. */
  skipped: boolean;
  interval: Interval;
}

/** AdamW (Loshchilov & Hutter, arXiv:1711.05101) over the parameters of one or more modules, with Muon for hidden matrices where asked. */
export class AdamW {
  private readonly native: NativeOptimizer;

  constructor(modules: OptimizedModule[], options: AdamWOptions = {}) {
    const { weightDecay, matrices, ...moments } = parseOptions("AdamW options", adamWSchema, options);
    this.native = native().createAdamW(parameterGroups(modules, weightDecay, matrices === "muon"), moments);
  }

  /** Clips the gradient's global norm at `clipNorm` (0: off), updates and clears the gradients. */
  step(lane: NativeLane, step: { lr: number; clipNorm: number }): Promise<StepResult> {
    return native().optimizerStep(lane, this.native, step);
  }

  /** Copies of the moments and the step count. */
  stateDict(): Record<string, NativeTensor> {
    return this.native.stateDict();
  }

  /** @throws AegirError ERR_CHECKPOINT; then nothing is changed */
  loadStateDict(tensors: Record<string, NativeTensor>): void {
    this.native.loadStateDict(tensors);
  }

  dispose(): void {
    this.native.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
