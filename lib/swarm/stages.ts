import { z } from "zod";
import { AegirError } from "../errors.js";
import type { StateGeometry } from "../native/contract.js";
import { SwarmModule } from "./module.js";

/** A model: its layers before routing per stage, outermost first. */
export interface HasGeometry {
  geometry: { encoders: readonly StateGeometry[] };
}

/** One module for the innermost stage, or several by the primary's stages, as in { "1": …, "2": … }; 0 is the outermost. */
export type PerStage<T> = T | Readonly<Record<string, T>>;

interface StageModule<T> {
  stage: number;
  /** Of names: "" where one module serves the innermost stage, ".<stage>" in a record. */
  suffix: string;
  module: T;
}

/** Schema of PerStage for a class of modules. */
export function perStageSchema<C extends typeof z.core.util.Class>(kind: C) {
  const module = z.instanceof(kind);
  const stage = z.string().regex(/^(0|[1-9]\d*)$/);
  const record = z
    .record(stage, module)
    .refine((modules) => Object.keys(modules).length > 0, "expected at least one stage")
    .refine(isWithoutRepeats, `expected a ${kind.name} of its own for each stage`);
  return z.union(
    [module, record],
    `expected one ${kind.name}, or a record of them by the primary's stages, as in { "1": … }`,
  );
}

function isWithoutRepeats(modules: Record<string, unknown>): boolean {
  const all = Object.values(modules);
  return new Set(all).size === all.length;
}

/** The modules with the primary's stages that they serve. */
export function modulesByStage<T extends SwarmModule>(
  modules: PerStage<T> | undefined,
  primary: HasGeometry,
): StageModule<T>[] {
  if (!modules) return [];
  if (modules instanceof SwarmModule) {
    return [{ stage: innermostStage(primary), suffix: "", module: modules as T }];
  }
  return Object.entries(modules).map(([stage, module]) => ({
    stage: Number(stage),
    suffix: `.${stage}`,
    module,
  }));
}

export function innermostStage({ geometry: { encoders } }: HasGeometry): number {
  return encoders.length - 1;
}

/**
 * Layers of a stage before its routing, with their heads and head size; absent: of the innermost stage.
 * @throws AegirError ERR_ARGUMENT where the model has no such stage
 */
export function stateGeometry(model: HasGeometry, stage = innermostStage(model)): StateGeometry {
  const found = model.geometry.encoders[stage];
  if (!found) {
    throw new AegirError("ERR_ARGUMENT", `stage: expected 0 to ${innermostStage(model)}, got ${stage}`);
  }
  return { layers: found.layers, heads: found.heads, headSize: found.headSize };
}

export function sameGeometry(a: StateGeometry, b: StateGeometry): boolean {
  return a.layers === b.layers && a.heads === b.heads && a.headSize === b.headSize;
}

/** "2 layers of 4 heads of 32" */
export function describeGeometry({ layers, heads, headSize }: StateGeometry): string {
  return `${layers} layers of ${heads} heads of ${headSize}`;
}

/**
 * The specialist's stage as far outside its innermost as `stage` is outside the primary's.
 * @param what begins the message: the call or option
 * @throws AegirError ERR_CONFIG where the primary takes no states there, or the specialist has too few stages
 */
export function sourceStage(
  specialist: HasGeometry,
  primary: HasGeometry,
  stage: number,
  what: string,
): number {
  checkStage(primary, stage, what);
  const source = stage + innermostStage(specialist) - innermostStage(primary);
  if (source >= 0) return source;
  throw new AegirError(
    "ERR_CONFIG",
    `${what}: the specialist has stages ${describeStages(specialist)}, none as far outside the innermost as stage ${stage} ` +
      `of the primary's ${describeStages(primary)}; fuse an inner stage or take a specialist with more stages`,
  );
}

/**
 * Stage 0's encoder runs before any specialist; only a flat layout has layers after that in stage 0.
 * @throws AegirError ERR_CONFIG where the primary takes no states in this stage
 */
export function checkStage(primary: HasGeometry, stage: number, what: string): void {
  const innermost = innermostStage(primary);
  const first = Math.min(1, innermost);
  if (Number.isInteger(stage) && stage >= first && stage <= innermost) return;
  const allowed = Array.from({ length: innermost - first + 1 }, (_, i) => `"${first + i}"`).join(", ");
  const why = stage === 0 ? " (stage 0's encoder belongs to the prefix, before the specialists run)" : "";
  throw new AegirError(
    "ERR_CONFIG",
    `${what}: stage "${stage}" of the primary takes no states${why}; expected one of ${allowed}`,
  );
}

/** "[0: 1 layers of 2 heads of 16, 1: 2 layers of 4 heads of 16]" */
function describeStages({ geometry: { encoders } }: HasGeometry): string {
  return `[${encoders.map((geometry, stage) => `${stage}: ${describeGeometry(geometry)}`).join(", ")}]`;
}
