import { AegirError } from "../errors.js";
import { hasReversedBlocks } from "../model/layout.js";
import type { EnsembleOutput, Interval, NativeEnsemble, NativeLane } from "../native/contract.js";
import { native } from "../native/load.js";
import { withSignal } from "../tensor/lane.js";
import type { RowInputs } from "./inputs.js";
import { FrozenSpecialist, type Specialist } from "./specialist.js";

/** Models with equal keys can be stacked; null: this one cannot. */
function stackingKey({ model }: FrozenSpecialist): string | null {
  if (model.disposed || hasReversedBlocks(model.options.archLayout)) return null;
  const { archLayout, dModel, headSize, channelMixRatio, dIntermediate, loraRanks, dtype, precision } =
    model.options;
  if (model.geometry.stages > 1 || precision) return null;
  return JSON.stringify([
    archLayout,
    dModel,
    headSize,
    channelMixRatio,
    dIntermediate,
    loraRanks,
    dtype,
    model.device,
  ]);
}

/** The numbers of the specialists that can run as one, at least two a group. */
export function stackableGroups(specialists: readonly Specialist[]): number[][] {
  const byKey = new Map<string, number[]>();
  for (const [index, specialist] of specialists.entries()) {
    const key = specialist instanceof FrozenSpecialist ? stackingKey(specialist) : null;
    if (key !== null) byKey.set(key, [...(byKey.get(key) ?? []), index]);
  }
  return [...byKey.values()].filter(({ length }) => length > 1);
}

/**
 * Frozen specialists of one geometry whose blocks run as one stack of weights (native/model/grouped_blocks.h). The stack is a copy of
 * their block weights, made at the first run and kept until dispose.
 */
export class Ensemble {
  private stack: Promise<NativeEnsemble> | null = null;

  constructor(readonly members: readonly FrozenSpecialist[]) {}

  /** Where the forward runs: its own jobs are ordered with those of the first member. */
  get lane(): NativeLane {
    return this.members[0]!.model.lane;
  }

  /**
   * @param inputs by member; null leaves one out
   * @throws AegirError ERR_SHAPE, ERR_DTYPE, ERR_ARGUMENT, ERR_ABORTED, ERR_DISPOSED, the message naming the specialists
   */
  async forward(
    inputs: readonly (RowInputs | null)[],
    { threads, signal }: { threads: number; signal?: AbortSignal },
  ): Promise<{ outputs: (EnsembleOutput | null)[]; interval: Interval }> {
    const active = this.members.filter((_, member) => inputs[member]);
    const gone = active.find(({ model }) => model.disposed);
    if (gone)
      throw new AegirError("ERR_DISPOSED", `specialist '${gone.id}': module: this Module has been disposed`);
    try {
      const stack = await this.stacked();
      const given = inputs.map((rows) => rows && pick(rows));
      return await withSignal(signal, (cancel) =>
        native().ensembleForward(this.lane, stack, given, threads, cancel),
      );
    } catch (error) {
      if (!(error instanceof AegirError)) throw error;
      const ids = active.map(({ id }) => `'${id}'`).join(", ");
      throw new AegirError(error.code, `specialists ${ids}: ${error.message}`, { cause: error });
    }
  }

  dispose(): void {
    const stack = this.stack;
    this.stack = null;
    // A stack that failed has told whoever asked for it.
    stack?.then(
      (made) => made.dispose(),
      () => {},
    );
  }

  private stacked(): Promise<NativeEnsemble> {
    this.stack ??= native()
      .createEnsemble(
        this.lane,
        this.members.map(({ model }) => model.native),
      )
      .then(
        ({ ensemble }) => ensemble,
        (error) => {
          this.stack = null;
          throw error;
        },
      );
    return this.stack;
  }
}

function pick({ inputIds, roleIds, lengths, poolMask }: RowInputs): RowInputs {
  return { inputIds, roleIds, lengths, poolMask };
}
