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
import { AlignmentProjection, describeGeometry, sameGeometry, stateGeometry } from "./alignment.js";
import type { RowInputs } from "./inputs.js";
import { disposeAll } from "./module.js";

export type SpecialistModel = AegirForColumnAnnotation | AegirForCausalLM;

const specialistSchema = z.strictObject({
  /** Name in outputs, checkpoints and timings. */
  id: z.string().min(1),
  /** Needed where the specialist's geometry is not the primary's. */
  alignment: z.instanceof(AlignmentProjection).optional(),
});

export type SpecialistOptions = z.input<typeof specialistSchema>;

/** What a specialist says of some rows. No tensor has a graph. */
export interface SpecialistOutput {
  id: string;
  /** Annotation models: logits (b,C) and pooled embedding (b,D); null for a causal LM. */
  output: { logits: NativeTensor; pooled: NativeTensor } | null;
  /** attKv (b,H,N,N) per layer of the innermost stage, in the specialist's own geometry. */
  states: NativeTensor[];
  interval: Interval;
  dispose(): void;
}

/**
 * A model that takes part in a swarm and never changes: its parameters stop requiring gradients for good, its forwards
 * build no graph and run on its own lane. `alignment` stays trainable.
 */
export class FrozenSpecialist {
  readonly id: string;
  readonly alignment: AlignmentProjection | undefined;

  /** @param model frozen by this; stays the caller's to dispose */
  constructor(
    readonly model: SpecialistModel,
    options: SpecialistOptions,
  ) {
    if (!(model instanceof AegirForColumnAnnotation || model instanceof AegirForCausalLM)) {
      throw new AegirError(
        "ERR_ARGUMENT",
        "FrozenSpecialist: model must be an AegirForColumnAnnotation or an AegirForCausalLM",
      );
    }
    const { id, alignment } = parseOptions("FrozenSpecialist options", specialistSchema, options);
    const own = stateGeometry(model);
    if (alignment && !sameGeometry(alignment.options.specialist, own)) {
      throw new AegirError(
        "ERR_CONFIG",
        `specialist '${id}': its alignment is made for ${describeGeometry(alignment.options.specialist)}, ` +
          `the model has ${describeGeometry(own)}`,
      );
    }
    model.freeze();
    this.id = id;
    this.alignment = alignment;
  }

  get geometry(): StateGeometry {
    return stateGeometry(this.model);
  }

  /** Labels of an annotation model; null for a causal LM. */
  get numLabels(): number | null {
    return this.model instanceof AegirForColumnAnnotation ? this.model.labels.length : null;
  }

  /** @throws AegirError ERR_SHAPE, ERR_DTYPE, ERR_ARGUMENT, ERR_ABORTED, the message naming the specialist */
  async forward(inputs: RowInputs, options: { signal?: AbortSignal } = {}): Promise<SpecialistOutput> {
    try {
      return await this.run(inputs, options.signal);
    } catch (error) {
      if (!(error instanceof AegirError)) throw error;
      throw new AegirError(error.code, `specialist '${this.id}': ${error.message}`, { cause: error });
    }
  }

  private async run(inputs: RowInputs, signal: AbortSignal | undefined): Promise<SpecialistOutput> {
    const output: AnnotatorOutput | CausalLMOutput = await this.model.forward(inputs, {
      grad: false,
      signal,
    });
    // A flat model's first layer is part of its prefix and not of its geometry.
    const kv = output.state.innerKv();
    const states = kv.splice(-this.geometry.layers);
    disposeAll([...kv, output.state, output.routingHidden, output.ratioLoss]);
    const { logits, interval } = output;
    const { pooled } = output as Partial<AnnotatorOutput>;
    if (!pooled) {
      logits.dispose();
      return { id: this.id, output: null, states, interval, dispose: () => disposeAll(states) };
    }
    const dispose = () => disposeAll([...states, logits, pooled]);
    return { id: this.id, output: { logits, pooled }, states, interval, dispose };
  }

  /** SHA-256 of the weights, hexadecimal: the same before and after any training of the swarm. */
  weightsHash(): string {
    return this.model.weightsHash();
  }
}
