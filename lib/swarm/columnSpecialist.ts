import type { ColumnRef } from "../data/types.js";
import { AegirError } from "../errors.js";
import { native } from "../native/load.js";
import type { RowInputs } from "./inputs.js";
import {
  Specialist,
  type SpecialistModel,
  type SpecialistOutput,
  type SpecialistRun,
  specialistOutput,
} from "./specialist.js";

/** ln p below which a label counts as not said at all: −F of output fusion. */
export const FLOOR = Math.log(1e-4);

/**
 * A specialist that reads columns in place of tokens, by whatever means: it says log-probabilities over labels of its own and has no
 * recurrent states. `forward` needs `inputs.columns`, which batches of encoded columns bring along.
 */
export abstract class ColumnSpecialist extends Specialist {
  readonly model: SpecialistModel | null = null;

  constructor(
    id: string,
    readonly labels: readonly string[],
  ) {
    super(id, undefined);
    if (labels.length === 0 || new Set(labels).size < labels.length) {
      const twice = labels.find((label, i) => labels.indexOf(label) !== i);
      throw new AegirError(
        "ERR_ARGUMENT",
        `specialist '${id}': labels: expected one or more, each once, got ${twice === undefined ? "none" : `'${twice}' twice`}`,
      );
    }
  }

  /** Its log-probabilities stand for the embedding that a model would have. */
  get pooledWidth(): number {
    return this.labels.length;
  }

  /** ln p(label | column), (columns, labels) row-major. @throws AegirError ERR_DATA where a table has no such column; ERR_ABORTED */
  abstract logProbabilities(columns: readonly ColumnRef[], signal?: AbortSignal): Promise<Float32Array>;

  protected async run(
    { columns, inputIds }: RowInputs,
    { signal, stages = [] }: SpecialistRun,
  ): Promise<SpecialistOutput> {
    const rows = inputIds.shape[0] as number;
    if (stages.length > 0)
      throw new AegirError("ERR_ARGUMENT", `stages: it has no recurrent states, got [${stages.join(", ")}]`);
    if (columns?.length !== rows) {
      const got = columns ? `${columns.length} for ${rows} rows` : "none";
      throw new AegirError(
        "ERR_ARGUMENT",
        `inputs.columns: it reads the columns themselves, one for each row; got ${got}`,
      );
    }
    const start = performance.now();
    const said = await this.logProbabilities(columns, signal);
    checkDistributions(said, rows, this.labels.length);
    const shape = [rows, this.labels.length];
    const { Tensor } = native();
    const logits = Tensor.fromData(said, shape, "f32");
    const pooled = Tensor.fromData(
      said.map((logp) => 1 - Math.max(logp, FLOOR) / FLOOR),
      shape,
      "f32",
    );
    return specialistOutput(this.id, { logits, pooled }, {}, { start, end: performance.now() });
  }
}

/** Rounding may lift a certain label's log-probability a little above 0. */
const ABOVE_ZERO = 1e-3;

/** @throws AegirError ERR_SHAPE, ERR_NON_FINITE naming the row */
function checkDistributions(said: Float32Array, rows: number, classes: number): void {
  if (said.length !== rows * classes) {
    throw new AegirError(
      "ERR_SHAPE",
      `logProbabilities: expected ${rows} columns x ${classes} labels = ${rows * classes} values, got ${said.length}`,
    );
  }
  for (let row = 0; row < rows; row++) {
    const own = said.subarray(row * classes, (row + 1) * classes);
    const bad = own.find((logp) => !(logp <= ABOVE_ZERO));
    if (bad === undefined && own.some(Number.isFinite)) continue;
    throw new AegirError(
      "ERR_NON_FINITE",
      `logProbabilities: expected ln p of every label, at most 0 and not all -Infinity; of column ${row} it said ${bad ?? "-Infinity of every label"}`,
    );
  }
}
