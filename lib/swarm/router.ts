import { z } from "zod";
import { parseOptions } from "../config.js";
import type { Interval, NativeLane, NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import { SwarmModule, seededModule } from "./module.js";

const routerSchema = z.strictObject({
  /** Bound on |logit| through 6·tanh(z/6), which keeps a gradient everywhere; 0: off. */
  softCap: z.number().min(0).default(6),
  dtype: z.enum(["f32", "f64"]).default("f32"),
});

export type RouterOptions = z.input<typeof routerSchema>;

/**
 * Logits of activating each specialist: z = cap·tanh((W norm(h) + b)/cap) with norm a layer normalisation without parameters.
 * W and b start at zero: every specialist starts at p = 0.5 (docs/rl.md §4).
 */
export class SpecialistRouter extends SwarmModule {
  constructor(
    readonly dModel: number,
    readonly numSpecialists: number,
    options: RouterOptions = {},
  ) {
    const checked = parseOptions("SpecialistRouter options", routerSchema, options);
    super(seededModule("router", { dModel, numSpecialists, ...checked }));
  }

  /**
   * hidden (B,dModel) → logits (B,numSpecialists). The gradient reaches `hidden` where it has one: detach it to keep
   * the router's loss out of the backbone.
   */
  forward(
    lane: NativeLane,
    hidden: NativeTensor,
    options: { grad?: boolean } = {},
  ): Promise<{ logits: NativeTensor; interval: Interval }> {
    return native().routerForward(lane, this.native, hidden, options.grad ?? false);
  }
}
