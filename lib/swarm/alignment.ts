import { z } from "zod";
import { parseOptions } from "../config.js";
import type { Interval, NativeLane, NativeTensor, StateGeometry } from "../native/contract.js";
import { native } from "../native/load.js";
import { SwarmModule, seededModule } from "./module.js";

const positive = z.number().int().positive();
const geometrySchema = z.strictObject({ layers: positive, heads: positive, headSize: positive });

const alignmentSchema = z.strictObject({
  /** Geometry of the specialist's innermost stage, and of the primary's. */
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

/** Anything with an innermost stage: a model or a specialist. */
export interface HasGeometry {
  geometry: { inner: StateGeometry };
}

/** Layers, heads and head size of a model's innermost stage. */
export function stateGeometry({ geometry: { inner } }: HasGeometry): StateGeometry {
  return { layers: inner.layers, heads: inner.heads, headSize: inner.headSize };
}

export function sameGeometry(a: StateGeometry, b: StateGeometry): boolean {
  return a.layers === b.layers && a.heads === b.heads && a.headSize === b.headSize;
}

/** "2 layers of 4 heads of 32" */
export function describeGeometry({ layers, heads, headSize }: StateGeometry): string {
  return `${layers} layers of ${heads} heads of ${headSize}`;
}

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

  /** An alignment from one model's states to another's. */
  static between(
    specialist: HasGeometry,
    primary: HasGeometry,
    options: Omit<AlignmentOptions, "specialist" | "primary"> = {},
  ): AlignmentProjection {
    return new AlignmentProjection({
      ...options,
      specialist: stateGeometry(specialist),
      primary: stateGeometry(primary),
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
