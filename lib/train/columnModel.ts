import { logSoftmax } from "../data/logitAdjustment.js";
import type { Serialiser } from "../data/serialise.js";
import type { ColumnRef } from "../data/types.js";
import { AegirError } from "../errors.js";
import type { AegirForColumnAnnotation } from "../model/index.js";
import { ColumnSpecialist } from "../swarm/index.js";
import { type Calibration, calibrated } from "./calibration.js";
import { encodeTargets } from "./examples.js";
import type { LoadedRun } from "./loadRun.js";
import type { SpecialistSource } from "./parl.js";
import { allLogits, modelLogits } from "./predict.js";

/**
 * A trained model of any form as a specialist that reads columns: it encodes them with its own serialiser, not with the primary's, and
 * says calibrated log-probabilities. This is how a column-wise model takes part in a swarm, and a model with another number of cells or
 * of context columns.
 */
export class ColumnModelSpecialist extends ColumnSpecialist {
  /** @param model frozen by this; stays the caller's to dispose */
  constructor(
    id: string,
    override readonly model: AegirForColumnAnnotation,
    readonly serialiser: Serialiser,
    readonly calibration: Calibration | null = null,
  ) {
    super(id, model.labels);
    model.freeze();
  }

  async logProbabilities(columns: readonly ColumnRef[], signal?: AbortSignal): Promise<Float32Array> {
    const classes = this.labels.length;
    const examples = await encodeTargets(this.serialiser, columns);
    const logitsOf = calibrated(modelLogits(this.model), this.calibration);
    return logSoftmax(await allLogits(logitsOf, examples, classes, { signal, task: this.id }), classes);
  }

  weightsHash(): string {
    return this.model.weightsHash();
  }
}

/** A column-wise model encodes the columns itself: it cannot read the primary's tokens. */
export function columnReader(
  source: SpecialistSource | ColumnSpecialist,
): SpecialistSource | ColumnSpecialist {
  if (source instanceof ColumnSpecialist || !source.model.options.columns) return source;
  const { id, model, serialiser, calibration } = source;
  return new ColumnModelSpecialist(id, model, serialiser, calibration);
}

/**
 * A loaded run as a specialist of a swarm.
 * @param argument what the run was given as
 * @throws AegirError ERR_CONFIG for a swarm, of which no part speaks for the whole
 */
export function specialistOf(
  { dir, specialist, swarm, model, serialiser, calibration }: LoadedRun,
  id: string,
  argument: string,
): SpecialistSource | ColumnSpecialist {
  if (swarm) {
    throw new AegirError(
      "ERR_CONFIG",
      `${argument}: ${dir} is a swarm, expected a model or a column specialist; give its specialists one by one, or distil it into a model (train distill)`,
    );
  }
  return specialist ?? { id, model: model!, serialiser, calibration };
}
