import { z } from "zod";
import { parseOptions } from "../config.js";
import type { Interval, NativeLane, NativeTensor, OutputAgent } from "../native/contract.js";
import { native } from "../native/load.js";
import { SwarmModule, seededModule } from "./module.js";

const positive = z.number().int().positive();

const outputFusionSchema = z.strictObject({
  /** Width of the primary's pooled embedding. */
  dModel: positive,
  /** The primary's labels; absent: no specialist's answers reach its logits directly. */
  numLabels: z.number().int().min(0).default(0),
  /** Initial share of the primary's own answer in the pool, where specialists with labels answer. */
  ownWeight: z.number().min(0).default(1),
  specialists: z.array(
    z.strictObject({
      /** Width of its pooled embedding (of a `ColumnSpecialist`, its labels: it gives scaled log-probabilities). */
      dModel: positive,
      numLabels: positive,
      /** (numLabels) of each of its labels the primary's label of that name, -1: none; absent: no matrix between labels. */
      labels: z.array(z.number().int().min(-1)).optional(),
      /** Initial share in the logarithmic opinion pool of the labels of one name. */
      weight: z.number().min(0).default(0),
    }),
  ),
  dtype: z.enum(["f32", "f64"]).default("f32"),
});

export type OutputFusionOptions = z.input<typeof outputFusionSchema>;

/** What is added in the primary's head. */
export interface OutputResiduals {
  /** (B,dModel) to the pooled embedding. */
  embedding: NativeTensor;
  /** (B,numLabels) to the logits; absent where no specialist has a matrix between labels. */
  logits?: NativeTensor;
  /** (B,1) that the logits are multiplied by before: the primary's own share. */
  scale?: NativeTensor;
  interval: Interval;
}

/**
 * What the activated specialists say, added in the primary's head; n runs over the active ones.
 *
 * - To the pooled embedding Σ_n P_n [pooled_n ; softmax(logits_n)], with P_n zero at the start. Probabilities and not raw logits, because
 *   they lie within [0, 1] however sure a specialist is, as the tanh-pooled embedding does.
 * - To the logits Σ_n (w_n F J_n + L_n) f_n with f_n = 1 + max(ln p_n, −F) / F and F = ln 10⁴: a logarithmic opinion pool (Genest and
 *   Zidek 1986). J_n (numLabels of the primary, of the specialist) is 1 between labels of one name, so that ln p_n counts w_n times; w_n
 *   starts at `weight`, L_n at 0. The primary's own logits are a member of the pool: they count w_0 times where a specialist that started
 *   with a share is active, once elsewhere; w_0 starts at `ownWeight`.
 */
export class OutputFusion extends SwarmModule {
  readonly options: z.output<typeof outputFusionSchema>;

  /** @throws AegirError ERR_CONFIG naming the option */
  constructor(options: OutputFusionOptions) {
    const checked = parseOptions("OutputFusion options", outputFusionSchema, options);
    super(seededModule("outputFusion", checked));
    this.options = checked;
  }

  /** Exactly zero for rows with no active agent. */
  forward(
    lane: NativeLane,
    input: { batch: number; agents: OutputAgent[] },
    options: { grad?: boolean } = {},
  ): Promise<OutputResiduals> {
    return native().outputFuse(lane, this.native, { ...input, grad: options.grad ?? false });
  }
}
