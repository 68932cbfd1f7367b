import type { PhaseKind } from "../rl/schedules.js";

export type CollapseKind =
  | "always-on"
  | "always-off"
  | "constant"
  | "no-entropy"
  | "ratio-explosion"
  | "reward-collapse";

export interface Collapse {
  kind: CollapseKind;
  /** The figure that shows it, its value, and the limit that it has passed. */
  metric: string;
  value: number;
  limit: number;
  /** Steps in a row. */
  steps: number;
  /** All of this in words, and the usual cure. */
  message: string;
  /** The sign has held for the patience: the training is to end. */
  stop: boolean;
}

/** What a step shows of the router's health; the names are those of metrics.jsonl. */
export interface RouterHealth {
  phase: PhaseKind;
  pOn: number;
  pOff: number;
  pConst: number;
  /** Nats a decision. */
  entropy: number;
  maxLogRatio: number;
  /** Expected reward without the terms that λ weighs: comparable over the whole training. */
  reward: number;
}

interface Sign {
  metric: keyof RouterHealth | "entropy per specialist" | "reward below its best";
  limit: number;
  above: boolean;
  what: string;
  cure: string;
}

/** A router at the bounds of its logits, |z| < 6, keeps .0173 nats a specialist: the limit has to lie above that. */
const LOW_ENTROPY = 0.03;

const SIGNS: Record<CollapseKind, Sign> = {
  "always-on": {
    metric: "pOn",
    limit: 0.5,
    above: true,
    what: "the router activates every specialist for every row",
    cure: "raise the cost (--cost, --target-rate) or lengthen the budget phases (--phase-steps)",
  },
  "always-off": {
    metric: "pOff",
    limit: 0.5,
    above: true,
    what: "the router activates no specialist",
    cure: "lower the cost (--cost), warm up longer (--routing-warmup), or the specialists do not help this primary",
  },
  constant: {
    metric: "pConst",
    limit: 0.9,
    above: true,
    what: "the router gives every row the same routing",
    cure: "lower the router's learning rate (--router-lr) or raise r_finish's weight (--lambda-finish)",
  },
  "no-entropy": {
    metric: "entropy per specialist",
    limit: LOW_ENTROPY,
    above: false,
    what: "the router is certain of every row and explores no more",
    cure: "raise the entropy bonus (--entropy-bonus, --entropy-target) or lower --router-lr",
  },
  "ratio-explosion": {
    metric: "maxLogRatio",
    limit: 3,
    above: true,
    what: "the policy has left the one that drew the routings",
    cure: "fewer --epochs, a lower --router-lr, a KL penalty (--kl-coef, --kl-target) or --objective k25",
  },
  "reward-collapse": {
    metric: "reward below its best",
    limit: 0.5,
    above: true,
    what: "the reward has fallen far below the best that it held",
    cure: "lower --router-lr and --lr, and see which of rPerf and cost fell",
  },
};

/** Steps of the running mean of the reward. */
const REWARD_WINDOW = 20;

/**
 * Looks for the ways in which a router collapses: each has a figure with a limit. A sign that has held for `window` steps warns, once
 * an onset; after `patience` steps it stops the training. Rates are judged in standard phases alone: a router that uses its whole
 * budget is no collapse.
 */
export class CollapseGuard {
  private streaks = new Map<CollapseKind, number>();
  private reward: { mean: number; best: number; seen: number } = { mean: 0, best: 0, seen: 0 };

  /** @param patience 0: never stops */
  constructor(
    private readonly numSpecialists: number,
    private readonly patience = 0,
    private readonly window = 15,
  ) {}

  update(health: RouterHealth): Collapse[] {
    const found: Collapse[] = [];
    for (const kind of Object.keys(SIGNS) as CollapseKind[]) {
      if (kind === "always-on" && health.phase === "budget") continue;
      const { metric, limit, above } = SIGNS[kind];
      const value = this.value(kind, health);
      const sound = above ? value <= limit : value >= limit; // NaN is a sign
      const steps = sound ? 0 : (this.streaks.get(kind) ?? 0) + 1;
      this.streaks.set(kind, steps);
      const stop = this.patience > 0 && steps === Math.max(this.patience, this.window);
      if (steps === this.window || stop)
        found.push({ kind, metric, value, limit, steps, message: describe(kind, value, steps), stop });
    }
    return found;
  }

  get state(): { streaks: Record<string, number>; reward: { mean: number; best: number; seen: number } } {
    return { streaks: Object.fromEntries(this.streaks), reward: { ...this.reward } };
  }

  set state({ streaks, reward }: CollapseGuard["state"]) {
    this.streaks = new Map(Object.entries(streaks) as [CollapseKind, number][]);
    this.reward = { ...reward };
  }

  private value(kind: CollapseKind, health: RouterHealth): number {
    if (kind === "no-entropy") return health.entropy / this.numSpecialists;
    if (kind === "reward-collapse") return this.rewardDrop(health.reward);
    return health[SIGNS[kind].metric as "pOn" | "pOff" | "pConst" | "maxLogRatio"];
  }

  /** How far the running mean of the reward is below its best. */
  private rewardDrop(reward: number): number {
    const state = this.reward;
    state.seen++;
    const share = Math.max(1 / state.seen, 1 / REWARD_WINDOW);
    state.mean += share * (reward - state.mean);
    if (state.seen < REWARD_WINDOW) return 0;
    if (state.seen === REWARD_WINDOW || state.mean > state.best) state.best = state.mean;
    return state.best - state.mean;
  }
}

function describe(kind: CollapseKind, value: number, steps: number): string {
  const { metric, limit, above, what, cure } = SIGNS[kind];
  return `${kind}: for ${steps} steps ${what} (${metric} ${value.toPrecision(3)}, ${above ? "over" : "under"} ${limit}); ${cure}`;
}
