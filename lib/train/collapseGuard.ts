import type { DegeneratePenalty } from "../rl/routingTerms.js";

export type CollapseKind = "always-on" | "always-off" | "constant" | "no-entropy";

export interface CollapseWarning {
  kind: CollapseKind;
  message: string;
}

const ADVICE: Record<CollapseKind, string> = {
  "always-on":
    "the router activates every specialist for every row; raise the cost or lengthen the budget phases",
  "always-off":
    "the router activates no specialist; lower the cost, or the specialists do not help this primary",
  constant:
    "the router gives every row the same routing; lower the router's learning rate or raise r_finish's weight",
  "no-entropy":
    "the router is certain of every row and explores no more; raise the entropy bonus or lower its learning rate",
};

/** Nats per specialist under which a policy counts as certain. */
const LOW_ENTROPY = 0.01;

/** Warns, once per kind and onset, when a sign of router collapse has held for `window` steps in a row. */
export class CollapseGuard {
  private readonly streaks = new Map<CollapseKind, number>();

  constructor(
    private readonly numSpecialists: number,
    private readonly window = 15,
  ) {}

  /**
   * @param penalty of the step's `RoutingMonitor`
   * @param entropy mean entropy of the policy over the batch, nats
   */
  update(penalty: DegeneratePenalty, entropy: number): CollapseWarning[] {
    const signs: Record<CollapseKind, boolean> = {
      "always-on": penalty.pOn > 0.5,
      "always-off": penalty.pOff > 0.5,
      constant: penalty.pConst > 0.9,
      "no-entropy": entropy / this.numSpecialists < LOW_ENTROPY,
    };
    const warnings: CollapseWarning[] = [];
    for (const [kind, sign] of Object.entries(signs) as [CollapseKind, boolean][]) {
      const streak = sign ? (this.streaks.get(kind) ?? 0) + 1 : 0;
      this.streaks.set(kind, streak);
      if (streak === this.window) {
        warnings.push({ kind, message: `for ${this.window} steps ${ADVICE[kind]}` });
      }
    }
    return warnings;
  }

  get state(): Record<string, number> {
    return Object.fromEntries(this.streaks);
  }

  set state(streaks: Record<string, number>) {
    this.streaks.clear();
    for (const [kind, streak] of Object.entries(streaks)) this.streaks.set(kind as CollapseKind, streak);
  }
}
