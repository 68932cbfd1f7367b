import { z } from "zod";
import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import {
  AegirForCausalLM,
  AegirForColumnAnnotation,
  type AnnotatorOutput,
  type CausalLMOutput,
} from "../model/index.js";
import type { Interval, NativeTensor, StateGeometry } from "../native/contract.js";
import { AlignmentProjection } from "./alignment.js";
import type { RowInputs } from "./inputs.js";
import { disposeAll } from "./module.js";
import {
  describeGeometry,
  innermostStage,
  type PerStage,
  perStageSchema,
  sameGeometry,
  stateGeometry,
} from "./stages.js";

export type SpecialistModel = AegirForColumnAnnotation | AegirForCausalLM;

const specialistSchema = z.strictObject({
  /** Name in outputs, checkpoints and timings. */
  id: z.string().min(1),
  /** Needed where the geometry is not the primary's: for the innermost stage, or a record by the primary's stages. */
  alignment: perStageSchema(AlignmentProjection).optional(),
});

export type SpecialistOptions = z.input<typeof specialistSchema>;

/** attKv (b,H,N,N) by stage of the specialist, per layer before its routing, in the specialist's own geometry. */
export type StageStates = Readonly<Record<number, NativeTensor[]>>;

/** The tensors of what a specialist says. */
export interface SpecialistTensors {
  /** Annotation models: logits (b,C) and pooled embedding (b,D); null for a causal LM. */
  output: { logits: NativeTensor; pooled: NativeTensor } | null;
  states: StageStates;
}

export function tensorsOf({ output, states }: SpecialistTensors): NativeTensor[] {
  const layers = Object.values(states).flat();
  return output ? [...layers, output.logits, output.pooled] : layers;
}

/** What a specialist says of some rows. No tensor has a graph. */
export interface SpecialistOutput extends SpecialistTensors {
  id: string;
  interval: Interval;
  dispose(): void;
}

/** Takes the tensors over; the logits of a causal LM, which has no pooled embedding, are freed. */
export function specialistOutput(
  id: string,
  { logits, pooled }: { logits: NativeTensor; pooled: NativeTensor | null },
  states: StageStates,
  interval: Interval,
): SpecialistOutput {
  if (!pooled) logits.dispose();
  const said = { output: pooled ? { logits, pooled } : null, states };
  return { id, ...said, interval, dispose: () => disposeAll(tensorsOf(said)) };
}

export interface SpecialistRun {
  signal?: AbortSignal;
  /** Its own stages whose states it gives; absent: the innermost. */
  stages?: readonly number[];
  /** Of this forward; absent: the lane's. */
  threads?: number;
}

/**
 * What takes part in a swarm and never changes. Outputs always, recurrent states where it has them: `FrozenSpecialist` is a model over
 * tokens, `ColumnSpecialist` anything else that reads columns.
 */
export abstract class Specialist {
  /** Names of its labels; null: it has none. */
  abstract readonly labels: readonly string[] | null;
  /** What it runs; null: no model of this package. */
  abstract readonly model: SpecialistModel | null;
  /** Width of its pooled embedding. */
  abstract readonly pooledWidth: number;

  constructor(
    readonly id: string,
    /** Trainable; of recurrent states alone. */
    readonly alignment: PerStage<AlignmentProjection> | undefined,
  ) {}

  get numLabels(): number | null {
    return this.labels?.length ?? null;
  }

  /** @throws AegirError ERR_SHAPE, ERR_DTYPE, ERR_ARGUMENT, ERR_ABORTED, the message naming the specialist */
  async forward(inputs: RowInputs, options: SpecialistRun = {}): Promise<SpecialistOutput> {
    try {
      return await this.run(inputs, options);
    } catch (error) {
      if (!(error instanceof AegirError)) throw error;
      throw new AegirError(error.code, `specialist '${this.id}': ${error.message}`, { cause: error });
    }
  }

  protected abstract run(inputs: RowInputs, options: SpecialistRun): Promise<SpecialistOutput>;

  /** SHA-256 of what it learned, hexadecimal: the same before and after any training of the swarm. */
  abstract weightsHash(): string;
}

/**
 * A model that takes part in a swarm and never changes: its parameters stop requiring gradients for good, its forwards
 * build no graph and run on its own lane. `alignment` stays trainable.
 */
export class FrozenSpecialist extends Specialist {
  readonly model: SpecialistModel;

  /** @param model frozen by this; stays the caller's to dispose */
  constructor(model: SpecialistModel, options: SpecialistOptions) {
    if (!(model instanceof AegirForColumnAnnotation || model instanceof AegirForCausalLM)) {
      throw new AegirError(
        "ERR_ARGUMENT",
        "FrozenSpecialist: model must be an AegirForColumnAnnotation or an AegirForCausalLM",
      );
    }
    const { id, alignment } = parseOptions("FrozenSpecialist options", specialistSchema, options);
    const own = stateGeometry(model);
    if (alignment instanceof AlignmentProjection && !sameGeometry(alignment.options.specialist, own)) {
      throw new AegirError(
        "ERR_CONFIG",
        `specialist '${id}': its alignment is made for ${describeGeometry(alignment.options.specialist)}, ` +
          `the model has ${describeGeometry(own)}`,
      );
    }
    super(id, alignment);
    this.model = model;
    model.freeze();
  }

  /** Of the innermost stage. */
  get geometry(): StateGeometry {
    return stateGeometry(this.model);
  }

  /** Labels of an annotation model; null for a causal LM. */
  get labels(): readonly string[] | null {
    return this.model instanceof AegirForColumnAnnotation ? this.model.labels : null;
  }

  get pooledWidth(): number {
    return this.model.geometry.dModel;
  }

  protected async run(
    { columns: _, ...inputs }: RowInputs,
    { signal, threads, stages = [innermostStage(this.model)] }: SpecialistRun,
  ): Promise<SpecialistOutput> {
    for (const stage of stages) stateGeometry(this.model, stage);
    const output: AnnotatorOutput | CausalLMOutput = await this.model.forward(inputs, {
      grad: false,
      signal,
      threads,
    });
    const states = Object.fromEntries(stages.map((stage) => [stage, output.state.innerKv(stage)]));
    disposeAll([output.state, output.routingHidden, output.ratioLoss]);
    const { logits, interval } = output;
    const { pooled = null } = output as Partial<AnnotatorOutput>;
    return specialistOutput(this.id, { logits, pooled }, states, interval);
  }

  weightsHash(): string {
    return this.model.weightsHash();
  }
}
