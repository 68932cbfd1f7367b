import { z } from "zod";
import { parseOptions } from "../config.js";
import type { Interval, NativeLane, NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import { SwarmModule, seededModule } from "./module.js";
import { type HasGeometry, innermostStage, sameGeometry, sourceStage, stateGeometry } from "./stages.js";

const positive = z.number().int().positive();
const geometrySchema = z.strictObject({ layers: positive, heads: positive, headSize: positive });

const alignmentSchema = z.strictObject({
  /** Geometry of the specialist's stage that gives its states, and of the primary's that takes them. */
  specialist: geometrySchema,
  primary: geometrySchema,
  /** auto: identity where the geometries agree, else bilinear. */
  mode: z.enum(["auto", "identity", "bilinear", "dense"]).default("auto"),
  /** Also map the token-shift vectors. */
  vectors: z.boolean().default(false),
  /** dense refuses to allocate more weights than this. */
  maxDenseWeights: positive.default(64 * 2 ** 20),
  dtype: z.enum(["f32", "f64"]).default("f32"),
});

export type AlignmentOptions = z.input<typeof alignmentSchema>;

/**
 * Maps a specialist's recurrent states into the primary's geometry (docs/swarm.md). Head h of the primary reads head
 * floor(h·Hs/Hp) of the specialist, layer j reads layer round(j·(Ls−1)/max(1, Lp−1)); then
 *
 *     identity   nothing: no parameters
 *     bilinear   S' = L S Rᵀ per layer and head, from the (rectangular) identity
 *     dense      one linear map of the flattened state per layer; large, and refused above a limit
 *
 * The specialist is frozen, its alignment is trainable.
 */
export class AlignmentProjection extends SwarmModule {
  readonly options: z.output<typeof alignmentSchema>;
  readonly mode: "identity" | "bilinear" | "dense";

  /** @throws AegirError ERR_CONFIG naming the option; ERR_OUT_OF_MEMORY with the number of weights that dense would need */
  constructor(options: AlignmentOptions) {
    const checked = parseOptions("AlignmentProjection options", alignmentSchema, options);
    const agrees = sameGeometry(checked.specialist, checked.primary);
    const mode = checked.mode === "auto" ? (agrees ? "identity" : "bilinear") : checked.mode;
    super(seededModule("alignment", { ...checked, mode }));
    this.options = checked;
    this.mode = mode;
  }

  /**
   * An alignment from one model's states to another's: those of the innermost stage, or of the primary's `stage` from the
   * specialist's at the same depth.
   * @throws AegirError ERR_CONFIG where one of them has no such stage
   */
  static between(
    specialist: HasGeometry,
    primary: HasGeometry,
    {
      stage = innermostStage(primary),
      ...options
    }: Omit<AlignmentOptions, "specialist" | "primary"> & { stage?: number } = {},
  ): AlignmentProjection {
    const source = sourceStage(specialist, primary, stage, "AlignmentProjection.between");
    return new AlignmentProjection({
      ...options,
      specialist: stateGeometry(specialist, source),
      primary: stateGeometry(primary, stage),
    });
  }

  /** States of the source of the primary's layer `layer`: (b,Hs,Ns,Ns) → (b,Hp,Np,Np). */
  forward(
    lane: NativeLane,
    layer: number,
    states: NativeTensor,
    options: { grad?: boolean } = {},
  ): Promise<{ states: NativeTensor; interval: Interval }> {
    return native().alignForward(lane, this.native, layer, states, options.grad ?? false);
  }

  /**
   * Closed-form start from states of the same rows: alternating ridge regression per head (bilinear), ridge regression (dense),
   * centred ridge regression (vectors, 2-d). `source` per layer of the specialist, `target` per layer of the primary.
   * @param ridge in units of the mean diagonal of the Gram matrix
   * @returns residual: ‖fit(source) − target‖ / ‖target‖
   */
  fit(
    lane: NativeLane,
    source: NativeTensor[],
    target: NativeTensor[],
    ridge = 1e-5,
  ): Promise<{ residual: number; interval: Interval }> {
    return native().alignFit(lane, this.native, source, target, ridge);
  }
}

/**
 * LatentMAS's alignment of embeddings (arXiv:2511.20639): W_a = (W_outᵀW_out + λI)⁻¹ W_outᵀW_in, and for `hidden` (R,D)
 * e = h W_a · mean‖rows of W_in‖ / max(‖h W_a‖, 1e-6). Results are float64.
 */
export function latentRidge(
  lane: NativeLane,
  input: { wOut: NativeTensor; wIn: NativeTensor; lambda?: number; hidden?: NativeTensor },
): Promise<{ map: NativeTensor; targetNorm: number; embedding: NativeTensor | null; interval: Interval }> {
  return native().latentRidge(lane, { ...input, lambda: input.lambda ?? 1e-5 });
}
