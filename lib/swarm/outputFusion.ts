import { z } from "zod";
import { parseOptions } from "../config.js";
import type { Interval, NativeLane, NativeTensor, OutputAgent } from "../native/contract.js";
import { native } from "../native/load.js";
import { SwarmModule, seededModule } from "./module.js";

const positive = z.number().int().positive();

const outputFusionSchema = z.strictObject({
  /** Width of the primary's pooled embedding. */
  dModel: positive,
  /** Per specialist: width of its pooled embedding (of a `ColumnSpecialist`, its labels: it gives scaled log-probabilities) and number of its labels. */
  specialists: z.array(z.strictObject({ dModel: positive, numLabels: positive })),
  dtype: z.enum(["f32", "f64"]).default("f32"),
});

export type OutputFusionOptions = z.input<typeof outputFusionSchema>;

/**
 * What the activated specialists say, as a residual of the primary's pooled embedding: Σ_n P_n [pooled_n ; softmax(logits_n)] over
 * the active n, with P_n zero at the start. Probabilities and not raw logits, because they lie within [0, 1] however sure a
 * specialist is, as the tanh-pooled embedding does.
 */
export class OutputFusion extends SwarmModule {
  readonly options: z.output<typeof outputFusionSchema>;

  /** @throws AegirError ERR_CONFIG naming the option */
  constructor(options: OutputFusionOptions) {
    const checked = parseOptions("OutputFusion options", outputFusionSchema, options);
    super(seededModule("outputFusion", checked));
    this.options = checked;
  }

  /** (B,dModel), exactly zero for rows with no active agent. */
  forward(
    lane: NativeLane,
    input: { batch: number; agents: OutputAgent[] },
    options: { grad?: boolean } = {},
  ): Promise<{ residual: NativeTensor; interval: Interval }> {
    return native().outputFuse(lane, this.native, { ...input, grad: options.grad ?? false });
  }
}
