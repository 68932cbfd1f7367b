import type { NativeGenerator, NativeLane, NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import {
  coverage,
  criticalStepsHinge,
  finishReward,
  LOGLIK_FLOOR,
  loglikReward,
  RateController,
  totalReward,
} from "../rl/rewards.js";
import { RoutingPolicy } from "../rl/routingPolicy.js";
import { parallelDifferenceRewards, parallelSurrogate, RoutingMonitor } from "../rl/routingTerms.js";
import {
  clipRange,
  estimateBudget,
  type Lambdas,
  lambdaSchedule,
  type RoutingPhase,
  toggleRewards,
} from "../rl/schedules.js";
import type { SpecialistRouter } from "../swarm/index.js";
import { criticalStepsOf, type StepCounts } from "./criticalSteps.js";
import type { Figures } from "./loop.js";
import type { MetricValue } from "./metricsLog.js";
import { enumerates, type ParlSettings } from "./parlOptions.js";
import {
  activationPrices,
  informativeShare,
  type RolloutOutcome,
  type Rollouts,
  rolloutRewards,
} from "./rolloutRewards.js";
import type { Experience } from "./routerUpdate.js";
import { activated, activationRates, enumerateActions, repeatActions } from "./routingDraws.js";
import { mean } from "./statistics.js";
import type { Scope } from "./tensors.js";

/** r_perf (G,R) of rollouts, and the lowest that there is: what Toggle gives instead of it. */
export interface PerfReward {
  of(outcome: RolloutOutcome, labels: Int32Array): Float64Array;
  lowest: number;
}

/** Evaluates routings (G,R,n) of the batch. */
export type Evaluate = (actions: Uint8Array) => Promise<RolloutOutcome>;

export interface RoutedBatch {
  /** (R,n) one draw of the policy per row. */
  draw: Uint8Array;
  figures: Figures;
  experience: Experience;
}

/** All numbers of the present step that rewards depend on. */
interface Moment {
  phase: RoutingPhase;
  lambdas: Lambdas;
}

/**
 * The reinforcement-learning part of PARL (steps 2, 4 and 6 to 9 of the training loop): draws routings from the capped Bernoulli
 * policy, has them evaluated, and makes of their rewards the experience that `RouterUpdate` learns from, with r_parallel and
 * r_finish's penalty as differentiable terms (docs/rl.md §4, §5). It knows of models only what `Evaluate` tells.
 */
export class RouterLearner {
  private readonly monitor: RoutingMonitor;
  private readonly controller: RateController | null;
  private readonly enumerate: boolean;
  /** Toggle's budget; null until rollouts were correct. */
  private budget: number | null = null;

  constructor(
    private readonly router: SpecialistRouter,
    private readonly lane: NativeLane,
    private readonly options: ParlSettings,
    private readonly generator: NativeGenerator,
    private readonly perfReward: PerfReward,
    private readonly steps: StepCounts,
    /** (n) of `priceShares`. */
    private readonly shares: readonly number[],
  ) {
    this.monitor = new RoutingMonitor(router.numSpecialists);
    const { targetRate, cost } = options;
    this.controller =
      targetRate === undefined ? null : new RateController({ target: targetRate, initial: cost });
    this.enumerate = enumerates(options, router.numSpecialists);
  }

  /**
   * @param hidden (R,D) the router's input, without a graph
   * @param fraction share of the training done
   * @param scope keeps the experience's tensors
   */
  async route(
    hidden: NativeTensor,
    labels: Int32Array,
    evaluate: Evaluate,
    phase: RoutingPhase,
    fraction: number,
    scope: Scope,
  ): Promise<RoutedBatch> {
    const { options, lane } = this;
    const z = scope.keep((await this.router.forward(lane, hidden)).logits);
    const policy = new RoutingPolicy(z, phase.cap, { lane });
    const draws = scope.keep(await policy.sample(options.rollouts, this.generator)).data() as Uint8Array;
    const moment = { phase, lambdas: this.lambdas(fraction) };
    const rollout = await this.rollOut(policy, draws, labels, evaluate, moment, scope);
    const terms = await this.batchTerms(policy, draws, moment, scope);
    this.controller?.update(terms.figures.activation);
    const rFinish = finishReward(rollout.figures.coverage, terms.figures.penalty);
    const epsilon = clipRange(fraction, options.clipFrom, options.clipTo);
    const parts = { perf: rollout.figures.reward, parallel: terms.figures.rParallel, finish: rFinish };
    return {
      draw: draws.subarray(0, z.numel),
      figures: {
        phase: phase.kind,
        cap: phase.cap,
        ...rollout.figures,
        ...terms.figures,
        rFinish,
        rTotal: totalReward(parts, moment.lambdas),
        epsilon,
        lambdaParallel: moment.lambdas.parallel,
        lambdaFinish: moment.lambdas.finish,
      },
      experience: {
        ...rollout.experience,
        cap: phase.cap,
        epsilon,
        hidden,
        zOld: z,
        coefficients: terms.coefficients,
      },
    };
  }

  get state(): MetricValue {
    return {
      monitor: { ...this.monitor.state() },
      cost: this.controller?.coefficient ?? null,
      budget: this.budget,
    };
  }

  restore(state: MetricValue): void {
    const { monitor, cost, budget } = state as unknown as {
      monitor: Parameters<RoutingMonitor["restore"]>[0];
      cost: number | null;
      budget: number | null;
    };
    this.monitor.restore(monitor);
    if (cost !== null) this.controller?.restore(cost);
    this.budget = budget;
  }

  private lambdas(fraction: number): Lambdas {
    const { lambdaParallel, lambdaFinish, lambdaSchedule: kind, annealToZero } = this.options;
    const initial = { parallel: lambdaParallel, finish: lambdaFinish };
    return kind === "constant" ? initial : lambdaSchedule(fraction, { initial, annealToZero });
  }

  /** Evaluates the routings of every row and rewards them. */
  private async rollOut(
    policy: RoutingPolicy,
    draws: Uint8Array,
    labels: Int32Array,
    evaluate: Evaluate,
    moment: Moment,
    scope: Scope,
  ) {
    const [rows, n] = policy.logits.shape as [number, number];
    const actions = this.enumerate ? repeatActions(enumerateActions(n, policy.cap).actions, n, rows) : draws;
    const shape = [actions.length / (rows * n), rows];
    const { Tensor } = native();
    const tensor = scope.keep(Tensor.fromData(actions, [...shape, n], "bool"));
    const logpOld = scope.keep(await policy.logProb(tensor));
    const weights = this.enumerate ? scope.keep(logpOld.unary("exp")) : undefined;
    const probabilities = weights?.data() as Float32Array | undefined;
    const outcome = await evaluate(actions);
    const perf = this.perfReward.of(outcome, labels);
    const toggled = this.toggled(perf, outcome, actions, rows, moment.phase, probabilities);
    const components = this.components(toggled ?? perf, outcome, actions, rows, moment);
    const { baseline = this.options.objective === "k25" ? "mean" : "rloo", normalise } = this.options;
    const rewards = rolloutRewards(
      { rows, components, probabilities },
      normalise === "gdpo" ? "gdpo" : baseline,
    );
    const values = Float32Array.from(rewards.advantages);
    const advantages = scope.keep(Tensor.fromData(values, shape, "f32"));
    const { terms } = rewards;
    return {
      experience: { actions: tensor, logpOld, advantages, weights },
      figures: {
        reward: terms.perf! + terms.cost! + (terms.steps ?? 0),
        rPerf: terms.perf!,
        cost: -terms.cost!,
        costCoefficient: components.cost!.weight,
        stepsPenalty: -(terms.steps ?? 0),
        coverage: meanOf(outcome.finished, probabilities, rows),
        accuracy: meanOf(outcome.correct, probabilities, rows),
        informative: informativeShare(perf, rows),
        toggleBudget: this.budget,
      },
    };
  }

  /** The parts of a rollout's own reward, (G,R) each. */
  private components(
    perf: Float64Array,
    { finished }: RolloutOutcome,
    actions: Uint8Array,
    rows: number,
    { phase, lambdas }: Moment,
  ): Rollouts["components"] {
    const { cost, stepsBudget, stepsPenalty, parallelCredit } = this.options;
    const n = this.router.numSpecialists;
    const components: Rollouts["components"] = {
      perf: { values: perf, weight: 1 },
      cost: { values: activationPrices(actions, this.shares), weight: this.controller?.coefficient ?? cost },
      // r_finish = (coverage − penalty + 1) / 2: of one rollout, its coverage is 0 or 1.
      finish: { values: finished, weight: lambdas.finish / 2 },
    };
    if (stepsBudget !== undefined) {
      const steps = criticalStepsOf(actions, this.steps);
      components.steps = {
        values: steps.map((s) => -criticalStepsHinge(s, stepsBudget, 1)),
        weight: stepsPenalty,
      };
    }
    if (parallelCredit === "difference") {
      const values = parallelDifferenceRewards({ actions, rows, numSpecialists: n }, phase.rho);
      components.parallel = { values, weight: lambdas.parallel };
    }
    return components;
  }

  /** r_perf under Toggle: rows that answer well enough on the whole keep it only where the routing is within the budget. */
  private toggled(
    perf: Float64Array,
    { correct }: RolloutOutcome,
    actions: Uint8Array,
    rows: number,
    { kind }: RoutingPhase,
    probabilities: ArrayLike<number> | undefined,
  ): Float64Array | null {
    const { toggle, togglePercentile } = this.options;
    if (toggle === undefined) return null;
    const { lowest } = this.perfReward;
    const n = this.router.numSpecialists;
    const costs = Float64Array.from(perf, (_, i) => activated(actions, i, n));
    if (this.budget === null && correct.length > 0) {
      const estimate = estimateBudget(costs, correct, togglePercentile);
      if (Number.isFinite(estimate)) this.budget = estimate;
    }
    const out = Float64Array.from(perf);
    for (let row = 0; row < rows; row++) {
      const group = Array.from({ length: perf.length / rows }, (_, g) => g * rows + row);
      const rewards = toggleRewards(
        group.map((i) => perf[i]! - lowest),
        group.map((i) => costs[i]!),
        {
          phase: kind,
          lambda: toggle - lowest,
          budget: this.budget ?? Number.POSITIVE_INFINITY,
          weights: probabilities && group.map((i) => probabilities[i]!),
        },
      );
      for (const [g, i] of group.entries()) out[i] = rewards[g]! + lowest;
    }
    return out;
  }

  /** r_parallel and r_finish's penalty: values for the log, and their derivative by the policy's marginals. */
  private async batchTerms(
    policy: RoutingPolicy,
    draws: Uint8Array,
    { phase: { cap, rho }, lambdas }: Moment,
    scope: Scope,
  ) {
    const [rows, n] = policy.logits.shape as [number, number];
    const stats = await policy.stats();
    const marginals = scope.keep(stats.marginals).data() as Float32Array;
    const entropy = mean(scope.keep(stats.entropy).data() as Float32Array);
    const parallel = parallelSurrogate({ actions: draws, rows, numSpecialists: n }, rho);
    const penalty = this.monitor.update(marginals, cap);
    const credited = this.options.parallelCredit === "surrogate" ? lambdas.parallel : 0;
    const coefficients = Float32Array.from(
      parallel.coefficients,
      (c, i) => rows * (credited * c - (lambdas.finish / 2) * penalty.coefficients[i]!),
    );
    const rates = activationRates(draws, n);
    return {
      coefficients: scope.keep(native().Tensor.fromData(coefficients, [rows, n], "f32")),
      figures: {
        rParallel: parallel.value,
        penalty: penalty.penalty,
        pOn: penalty.pOn,
        pOff: penalty.pOff,
        pConst: penalty.pConst,
        mutualInfo: penalty.mutualInfo,
        activation: mean(rates),
        activations: rates,
        entropy,
      },
    };
  }
}

/** r_perf by log-likelihood: max(log p(label), −3). */
export const loglikPerf: PerfReward = { of: ({ logp }) => loglikReward(logp), lowest: LOGLIK_FLOOR };

/** r_perf by correctness, weighted by class; an abstention is wrong. @param weights (C) */
export function correctPerf(weights: Float64Array): PerfReward {
  return {
    of: ({ correct }, labels) =>
      Float64Array.from(correct, (right, i) => (right ? weights[labels[i % labels.length]!]! : 0)),
    lowest: 0,
  };
}

function meanOf(
  values: ArrayLike<number>,
  probabilities: ArrayLike<number> | undefined,
  rows: number,
): number {
  if (!probabilities) return coverage(Array.from(values)) ?? 1;
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += (values[i]! * probabilities[i]!) / rows;
  return Math.min(1, sum);
}
