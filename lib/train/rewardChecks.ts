/** Phase 2's validation of the rewards (docs/parl.md §7): can each component teach this swarm's router, and nothing else than it should? */
import { Random } from "../data/random.js";
import type { NativeLane } from "../native/contract.js";
import { native } from "../native/load.js";
import { coverage, finishReward, LOGLIK_FLOOR, parallelReward } from "../rl/rewards.js";
import { degeneratePenalty } from "../rl/routingTerms.js";
import {
  exactGradient,
  type RewardTerm,
  type RoutingTable,
  randomRouter,
  sampledGradient,
} from "./rewardGradients.js";
import { informativeShare } from "./rolloutRewards.js";
import type { SwarmTable } from "./routingTable.js";
import { cosine, mean, norm, spearman, standardDeviation } from "./statistics.js";
import { Scope } from "./tensors.js";

export type CheckKind = "gradient" | "polarity" | "independence" | "scale";

export interface RewardCheck {
  kind: CheckKind;
  /** A component, or the two that are compared. */
  of: string;
  what: string;
  value: number;
  /** The bound that `value` must keep. */
  least?: number;
  most?: number;
  passed: boolean;
}

export interface Ladder {
  component: RewardTerm;
  what: string;
  /** (share corrupted, reward) */
  points: [number, number][];
}

export interface RewardReport {
  passed: boolean;
  columns: number;
  specialists: number;
  seed: number;
  checks: RewardCheck[];
  ladders: Ladder[];
}

export interface RewardCheckOptions {
  seed?: number;
  /** Random routers for independence and scale. */
  routers?: number;
  /** (row, routing) pairs drawn for a sampled gradient. */
  samples?: number;
}

const BOUNDS = {
  gradientNorm: 1e-6,
  cosine: 0.95,
  informative: 0.4,
  shuffled: 0.2,
  polarity: -0.95,
  correlation: 0.7,
  contrast: 0.2,
  spread: 3,
};
/** Expectations are sums of products of probabilities in f32: a reward of exactly 1 may exceed it by this. */
const ROUNDING = 1e-6;
const TERMS: RewardTerm[] = ["perf", "parallel", "finish"];
/** Decisions that enumerating all joint routings for r_parallel may have. */
const JOINT_DECISIONS = 12;
const PARALLEL_GROUPS = 4;
const RUNGS = 11;
/** Bias of a router that is nearly always on: elsewhere r_finish's penalty has no slope. */
const ALWAYS_ON_BIAS = 5;

/** Runs all four checks of every component. A check that fails is a finding and no error. */
export async function checkRewards(
  table: SwarmTable,
  dModel: number,
  lane: NativeLane,
  { seed = 0, routers = 200, samples = 200_000 }: RewardCheckOptions = {},
): Promise<RewardReport> {
  const random = new Random(seed, "reward checks");
  const gradients = await gradientChecks(table, dModel, lane, samples, random);
  const ladders = rewardLadders(table, random);
  const polarity = ladders.map(({ component, what, points }) =>
    check("polarity", component, `Spearman of ${what} and reward`, slope(points), { most: BOUNDS.polarity }),
  );
  const values = await randomRouterRewards(table, dModel, lane, routers, random);
  const checks = [...gradients, ...polarity, ...independenceChecks(table, values), ...scaleChecks(values)];
  return {
    passed: checks.every(({ passed }) => passed),
    columns: table.rows,
    specialists: table.numSpecialists,
    seed,
    checks,
    ladders,
  };
}

function check(
  kind: CheckKind,
  of: string,
  what: string,
  value: number,
  { least, most }: { least?: number; most?: number },
): RewardCheck {
  const passed =
    (least === undefined || value >= least - ROUNDING) && (most === undefined || value <= most + ROUNDING);
  return { kind, of, what, value, ...(least === undefined ? { most } : { least }), passed };
}

/** A norm is compared exactly: its bound is as small as the rounding of the others. */
function normCheck(of: RewardTerm, value: number): RewardCheck {
  const least = BOUNDS.gradientNorm;
  return { kind: "gradient", of, what: "norm of the gradient", value, least, passed: value > least };
}

async function gradientChecks(
  table: RoutingTable,
  dModel: number,
  lane: NativeLane,
  samples: number,
  random: Random,
): Promise<RewardCheck[]> {
  const { rows, numSpecialists: n, outcome } = table;
  const perf = Float64Array.from(outcome.logp, (l) => Math.max(l, LOGLIK_FLOOR));
  const checks = [
    check("gradient", "perf", "share of columns with a range > .05", informativeShare(perf, rows), {
      least: BOUNDS.informative,
    }),
  ];
  for (const term of TERMS) {
    using scope = new Scope();
    const bias = term === "finish" ? ALWAYS_ON_BIAS : 0;
    const router = scope.keep(randomRouter(dModel, n, () => random.gaussian(), { bias }));
    const parts = term === "parallel" ? groups(table, scope) : [table];
    const exact: number[] = [];
    const sampled: number[] = [];
    const shuffled: number[] = [];
    for (const part of parts) {
      const draws = Math.max(2, Math.ceil(samples / parts.length / part.rows));
      const options = { draws, cap: n, seed: random.uint32() };
      exact.push(...(await exactGradient(router, lane, part, term, n)));
      sampled.push(...(await sampledGradient(router, lane, part, term, options)));
      if (term === "perf")
        shuffled.push(...(await sampledGradient(router, lane, part, term, { ...options, shuffled: true })));
    }
    checks.push(
      normCheck(term, norm(exact)),
      check("gradient", term, "cosine of sampled and exact", cosine(sampled, exact), {
        least: BOUNDS.cosine,
      }),
    );
    if (term === "perf")
      checks.push(
        check(
          "gradient",
          term,
          "norm with shuffled outcomes / norm",
          norm(shuffled) / Math.max(norm(exact), BOUNDS.gradientNorm),
          {
            most: BOUNDS.shuffled,
          },
        ),
      );
  }
  return checks;
}

/** A few groups of rows, each small enough for its joint routings to be enumerated. */
function groups(table: RoutingTable, scope: Scope): RoutingTable[] {
  const { rows, numSpecialists: n, hidden } = table;
  const size = Math.min(rows, Math.max(1, Math.floor(JOINT_DECISIONS / n)));
  return Array.from({ length: Math.min(PARALLEL_GROUPS, Math.floor(rows / size)) }, (_, g) => {
    const from = g * size;
    const none = new Float64Array(2 ** n * size);
    return {
      rows: size,
      numSpecialists: n,
      hidden: scope.keep(hidden.slice(0, from, from + size)),
      labels: table.labels.slice(from, from + size),
      outcome: { logp: none, correct: none, finished: none },
    };
  });
}

/** Rewards along ladders of growing corruption: every one must fall. */
function rewardLadders({ rows, numSpecialists: n, corrupted, intact }: SwarmTable, random: Random): Ladder[] {
  const order = random.shuffle(Array.from({ length: rows }, (_, row) => row));
  const rank = new Int32Array(rows);
  for (const [i, row] of order.entries()) rank[row] = i;
  const ladder = (component: RewardTerm, what: string, reward: (share: number) => number): Ladder => ({
    component,
    what,
    points: Array.from({ length: RUNGS }, (_, i) => [i / (RUNGS - 1), reward(i / (RUNGS - 1))]),
  });
  const constantRouter = (share: number) => {
    const distance = 0.18 * (1 - share);
    return degeneratePenalty([0.5 + distance, 0.5 - distance, 0.5 - distance, 0.5 + distance], 2).penalty;
  };
  const ladders = [
    ladder("perf", "exchanged cells", (share) =>
      mean(intact.map((logp, row) => unit(rank[row]! < share * rows ? corrupted[row]! : logp))),
    ),
    ladder(
      "parallel",
      "overload",
      (share) => parallelReward(Array(n).fill(rows * (0.5 + share / 2)), rows, { rho: 0.5 })!,
    ),
    ladder("finish", "failed calls", (share) => {
      const failed = Uint8Array.from(rank, (i) => (i < share * rows ? 1 : 0));
      return finishReward(coverage(new Uint8Array(rows).fill(1), failed), 0)!;
    }),
    ladder(
      "finish",
      "always on",
      (share) => finishReward(1, degeneratePenalty(Array(n).fill(0.95 + 0.05 * share), n).penalty)!,
    ),
    ladder(
      "finish",
      "always off",
      (share) => finishReward(1, degeneratePenalty(Array(n).fill(0.05 - 0.05 * share), n).penalty)!,
    ),
    ladder("finish", "constant routing", (share) => finishReward(1, constantRouter(share))!),
  ];
  if (n > 1) {
    const imbalanced = (share: number) =>
      Array.from({ length: n }, (_, i) => rows * ((1 - share) / n + (i === 0 ? share : 0)));
    ladders.push(
      ladder("parallel", "imbalance", (share) => parallelReward(imbalanced(share), rows, { rho: 0.5 })!),
    );
  }
  return ladders;
}

function slope(points: [number, number][]): number {
  return spearman(
    points.map(([x]) => x),
    points.map(([, y]) => y),
  );
}

/** The log-likelihood reward from [−3, 0] to [0, 1]. */
function unit(logp: number): number {
  return 1 + Math.max(logp, LOGLIK_FLOOR) / -LOGLIK_FLOOR;
}

type Values = Record<RewardTerm, number[]>;

/** Every component, in [0, 1], of routers with random weights. */
async function randomRouterRewards(
  { rows, numSpecialists: n, hidden, outcome }: RoutingTable,
  dModel: number,
  lane: NativeLane,
  routers: number,
  random: Random,
): Promise<Values> {
  const values: Values = { perf: [], parallel: [], finish: [] };
  const perf = Float64Array.from(outcome.logp, unit);
  for (let k = 0; k < routers; k++) {
    using scope = new Scope();
    const weights = { scale: 1.5, spread: 1.5, bias: 2 * random.gaussian() };
    const router = scope.keep(randomRouter(dModel, n, () => random.gaussian(), weights));
    const logits = scope.keep((await router.forward(lane, hidden)).logits);
    const p = scope.keep(logits.unary("sigmoid")).data() as Float32Array;
    const counts = new Array<number>(n).fill(0);
    for (let i = 0; i < p.length; i++) if (random.chance(p[i]!)) counts[i % n]!++;
    values.perf.push(expected(perf, p, rows, n));
    values.parallel.push(parallelReward(counts, rows)!);
    values.finish.push(
      finishReward(expected(outcome.finished, p, rows, n), degeneratePenalty(p, n).penalty)!,
    );
  }
  return values;
}

/** Mean over rows of a value (2^n,R) under independent activation with p (R,n). */
function expected(values: ArrayLike<number>, p: ArrayLike<number>, rows: number, n: number): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) {
    const row = i % rows;
    const code = Math.floor(i / rows);
    let probability = 1;
    for (let s = 0; s < n; s++) probability *= (code >> s) & 1 ? p[row * n + s]! : 1 - p[row * n + s]!;
    sum += probability * values[i]!;
  }
  return sum / rows;
}

function independenceChecks(table: SwarmTable, values: Values): RewardCheck[] {
  const pairs: [RewardTerm, RewardTerm][] = [
    ["perf", "parallel"],
    ["perf", "finish"],
    ["parallel", "finish"],
  ];
  const correlations = pairs.map(([a, b]) => {
    const rho = spearman(values[a], values[b]);
    // Rewards that say the same are redundant; rewards that say the opposite are at odds.
    const what = `|Spearman| over random routers${rho < 0 ? ", negative" : ""}`;
    return check("independence", `${a}, ${b}`, what, Math.abs(rho), { most: BOUNDS.correlation });
  });
  return [...correlations, ...contrasts(table)];
}

/** One component high while another is low: the first minus the second. */
function contrasts({ rows, numSpecialists: n, outcome, corrupted }: SwarmTable): RewardCheck[] {
  const alone = Array.from({ length: n }, (_, s) => {
    const from = (1 << s) * rows;
    return mean(Float64Array.from({ length: rows }, (_, r) => unit(outcome.logp[from + r]!)));
  });
  const best = alone.indexOf(Math.max(...alone));
  const onlyBest = parallelReward(
    alone.map((_, s) => (s === best ? rows : 0)),
    rows,
  )!;
  const turns = Math.max(2, n);
  const balanced = alone.map((_, s) => Math.floor((rows - s + turns - 1) / turns));
  const incomplete = finishReward(coverage(new Uint8Array(rows)), 0)!;
  const wrong = mean(corrupted.map(unit));
  const contrast = (of: string, what: string, value: number) =>
    check("independence", of, what, value, { least: BOUNDS.contrast });
  return [
    contrast("perf, parallel", "accurate, one specialist only: difference", alone[best]! - onlyBest),
    contrast(
      "parallel, finish",
      "balanced, incomplete: difference",
      parallelReward(balanced, rows)! - incomplete,
    ),
    contrast("finish, perf", "complete, wrong: difference", finishReward(1, 0)! - wrong),
  ];
}

function scaleChecks(values: Values): RewardCheck[] {
  const deviations = TERMS.map((term) => standardDeviation(values[term]));
  const [least, most] = [Math.min(...deviations), Math.max(...deviations)];
  return [
    ...TERMS.flatMap((term) => [
      check("scale", term, "lowest over random routers", Math.min(...values[term]), { least: 0 }),
      check("scale", term, "highest over random routers", Math.max(...values[term]), { most: 1 }),
    ]),
    check("scale", "all", "largest / smallest deviation", least > 0 ? most / least : Infinity, {
      most: BOUNDS.spread,
    }),
  ];
}

/** A lane of its own for the checks. */
export async function withLane<T>(threads: number, work: (lane: NativeLane) => Promise<T>): Promise<T> {
  const lane = new (native().Lane)({ name: "reward checks", threads });
  try {
    return await work(lane);
  } finally {
    await lane.close();
  }
}
