import type { Prefix } from "../model/index.js";
import type { NativeGenerator, NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import { ppoClipLoss } from "../rl/loss.js";
import { finishReward, loglikReward, RateController } from "../rl/rewards.js";
import { RoutingPolicy, weightedSum } from "../rl/routingPolicy.js";
import { parallelSurrogate, RoutingMonitor } from "../rl/routingTerms.js";
import { clipRange, type Lambdas, lambdaSchedule, type RoutingPhase } from "../rl/schedules.js";
import type { SpecialistResult, SwarmOrchestrator } from "../swarm/index.js";
import { CollapseGuard, type CollapseWarning } from "./collapseGuard.js";
import type { Figures } from "./loop.js";
import type { WeightedLosses } from "./losses.js";
import type { MetricValue } from "./metricsLog.js";
import type { ParlSettings } from "./parlOptions.js";
import { type RolloutRewards, rolloutRewards } from "./rolloutRewards.js";
import { activationRates, enumerateActions, repeatActions } from "./routingDraws.js";
import { Scope } from "./tensors.js";

/** r_perf of rollouts from their logits (G·R,C) and labels. */
export type PerfReward = (logits: NativeTensor, logp: NativeTensor, labels: Int32Array) => Float64Array;

/** What one batch teaches the router. All arrays are constants of the update. */
interface Experience {
  cap: number;
  /** (G,R,n) */
  actions: NativeTensor;
  /** (G,R), as are the advantages. */
  logpOld: NativeTensor;
  advantages: NativeTensor;
  /** (G,R) probabilities of enumerated routings; absent for drawn ones. */
  weights?: NativeTensor;
  /** (R,n) d(λ1·r_parallel − λ2·penalty/2)/dμ. */
  coefficients: NativeTensor;
}

export interface RoutedBatch {
  /** (R,n) one draw of the policy per row. */
  draw: Uint8Array;
  figures: Figures;
  warnings: CollapseWarning[];
  /** The router's loss at its present weights, with a graph into the router alone. */
  loss(scope: Scope): Promise<WeightedLosses & { figures: Figures }>;
}

/**
 * The reinforcement-learning part of PARL (steps 2, 4 and 6 to 9 of the training loop): draws routings from the capped
 * Bernoulli policy, evaluates them on cached specialist outputs without a graph, and turns rewards into the token-level
 * clipped loss of the router, with r_parallel and r_finish's penalty as differentiable terms (docs/rl.md §4, §5).
 */
export class RouterLearner {
  private readonly monitor: RoutingMonitor;
  private readonly guard: CollapseGuard;
  private readonly controller: RateController | null;
  private readonly enumerate: boolean;

  constructor(
    private readonly swarm: SwarmOrchestrator,
    private readonly options: ParlSettings,
    private readonly generator: NativeGenerator,
    private readonly perfReward: PerfReward,
  ) {
    const n = swarm.specialists.length;
    this.monitor = new RoutingMonitor(n);
    this.guard = new CollapseGuard(n);
    const { targetRate, cost, estimator } = options;
    this.controller =
      targetRate === undefined ? null : new RateController({ target: targetRate, initial: cost });
    this.enumerate = estimator === "enumerate" || (estimator === "auto" && n <= 3);
  }

  /**
   * @param prefix of the batch's R rows
   * @param fraction share of the training done
   */
  async route(
    prefix: Prefix,
    results: readonly SpecialistResult[],
    labels: Int32Array,
    phase: RoutingPhase,
    fraction: number,
    scope: Scope,
  ): Promise<RoutedBatch> {
    const { swarm, options } = this;
    const { lane } = swarm.primary;
    const hidden = scope.keep(prefix.routingHidden.detach());
    const z = scope.keep((await swarm.route(hidden)).logits);
    const policy = new RoutingPolicy(z, phase.cap, { lane });
    const draws = scope.keep(await policy.sample(options.rollouts, this.generator)).data() as Uint8Array;
    const rollout = await this.rollOut(prefix, results, labels, policy, draws, scope);
    const lambdas = lambdaSchedule(fraction, {
      initial: { parallel: options.lambdaParallel, finish: options.lambdaFinish },
      annealToZero: options.annealToZero,
    });
    const terms = await this.batchTerms(policy, draws, phase, lambdas, scope);
    const experience: Experience = { ...rollout.experience, coefficients: terms.coefficients };
    const epsilon = clipRange(fraction, options.clipFrom, options.clipTo);
    this.controller?.update(terms.rate);
    const { reward, perf, cost, informative } = rollout.rewards;
    return {
      draw: draws.subarray(0, z.numel),
      warnings: terms.warnings,
      figures: {
        phase: phase.kind,
        cap: phase.cap,
        reward,
        rPerf: perf,
        cost,
        informative,
        epsilon,
        lambdaParallel: lambdas.parallel,
        lambdaFinish: lambdas.finish,
        ...terms.figures,
      },
      loss: (inner) => this.policyLoss(hidden, experience, epsilon, inner),
    };
  }

  get state(): MetricValue {
    return {
      monitor: { ...this.monitor.state() },
      guard: this.guard.state,
      cost: this.controller?.coefficient ?? null,
    };
  }

  restore(state: MetricValue): void {
    const { monitor, guard, cost } = state as unknown as {
      monitor: Parameters<RoutingMonitor["restore"]>[0];
      guard: Record<string, number>;
      cost: number | null;
    };
    this.monitor.restore(monitor);
    this.guard.state = guard;
    if (cost !== null) this.controller?.restore(cost);
  }

  /** Evaluates the routings of every row and rewards them. */
  private async rollOut(
    prefix: Prefix,
    results: readonly SpecialistResult[],
    labels: Int32Array,
    policy: RoutingPolicy,
    draws: Uint8Array,
    scope: Scope,
  ): Promise<{ experience: Omit<Experience, "coefficients">; rewards: RolloutRewards }> {
    const { cap } = policy;
    const [rows, n] = policy.logits.shape as [number, number];
    const actions = this.enumerate ? repeatActions(enumerateActions(n, cap).actions, n, rows) : draws;
    const count = actions.length / (rows * n);
    const { Tensor } = native();
    const tensor = scope.keep(Tensor.fromData(actions, [count, rows, n], "bool"));
    const logpOld = scope.keep(await policy.logProb(tensor));
    const weights = this.enumerate ? scope.keep(logpOld.unary("exp")) : undefined;
    const rewards = rolloutRewards(
      {
        actions,
        rows,
        numSpecialists: n,
        perf: await this.evaluateRoutings(prefix, results, actions, labels),
        probabilities: weights?.data() as Float32Array | undefined,
      },
      this.controller?.coefficient ?? this.options.cost,
      this.options.baseline,
    );
    const advantages = scope.keep(
      Tensor.fromData(Float32Array.from(rewards.advantages), [count, rows], "f32"),
    );
    return { rewards, experience: { cap, actions: tensor, logpOld, advantages, weights } };
  }

  /** r_perf (G·R) of routings, from one prefix and the specialists' outputs. */
  private async evaluateRoutings(
    prefix: Prefix,
    results: readonly SpecialistResult[],
    actions: Uint8Array,
    labels: Int32Array,
  ): Promise<Float64Array> {
    const { swarm } = this;
    using scope = new Scope();
    const total = actions.length / swarm.specialists.length;
    const repeated = Int32Array.from({ length: total }, (_, i) => i % prefix.rows);
    const index = scope.keep(native().Tensor.fromData(repeated, [total], "i64"));
    const expanded = scope.keep(await swarm.primary.selectRows(prefix, index));
    const views = results.map((result) => result.selectRows(repeated));
    const output = scope.keep(await swarm.complete(expanded, actions, views));
    const truth = repeated.map((row) => labels[row]!);
    const target = scope.keep(native().Tensor.fromData(truth, [truth.length], "i64"));
    const { loss, logp } = await native().crossEntropy(swarm.primary.lane, {
      logits: output.logits,
      labels: target,
    });
    scope.keep(loss);
    scope.keep(logp);
    return this.perfReward(output.logits, logp, truth);
  }

  /** r_parallel and r_finish's penalty: values for the log, and their derivative by the policy's marginals. */
  private async batchTerms(
    policy: RoutingPolicy,
    draws: Uint8Array,
    { cap, rho }: RoutingPhase,
    lambdas: Lambdas,
    scope: Scope,
  ) {
    const [rows, n] = policy.logits.shape as [number, number];
    const stats = await policy.stats();
    const marginals = scope.keep(stats.marginals).data() as Float32Array;
    const entropy = mean(scope.keep(stats.entropy).data() as Float32Array);
    const parallel = parallelSurrogate({ actions: draws, rows, numSpecialists: n }, rho);
    const penalty = this.monitor.update(marginals, cap);
    const coefficients = Float32Array.from(
      parallel.coefficients,
      (c, i) => lambdas.parallel * c - (lambdas.finish / 2) * penalty.coefficients[i]!,
    );
    const rates = activationRates(draws, n);
    const rate = mean(rates);
    return {
      rate,
      coefficients: scope.keep(native().Tensor.fromData(coefficients, [rows, n], "f32")),
      warnings: this.guard.update(penalty, entropy),
      figures: {
        rParallel: parallel.value,
        rFinish: finishReward(1, penalty.penalty),
        pOn: penalty.pOn,
        pOff: penalty.pOff,
        pConst: penalty.pConst,
        mutualInfo: penalty.mutualInfo,
        activation: rate,
        activations: rates,
        entropy,
      } satisfies Figures,
    };
  }

  private async policyLoss(
    hidden: NativeTensor,
    experience: Experience,
    epsilon: number,
    scope: Scope,
  ): Promise<WeightedLosses & { figures: Figures }> {
    const { lane } = this.swarm.primary;
    const { cap, actions, logpOld, advantages, weights, coefficients } = experience;
    const z = scope.keep((await this.swarm.router.forward(lane, hidden, { grad: true })).logits);
    const policy = new RoutingPolicy(z, cap, { lane });
    const logp = scope.keep(await policy.logProb(actions));
    const clipped = await ppoClipLoss(
      { logp, logpOld, advantages, weights },
      { epsLow: epsilon, epsHigh: epsilon },
      { lane },
    );
    const stats = await policy.stats();
    const terms = await weightedSum(scope.keep(stats.marginals), coefficients, { lane });
    const entropy = scope.keep(scope.keep(stats.entropy).reduce("mean"));
    return {
      losses: [scope.keep(clipped.loss), scope.keep(terms), entropy],
      weights: [1, -1, -this.options.entropyBonus],
      figures: {
        policyLoss: clipped.loss.item(),
        clipped: clipped.stats.clipLow + clipped.stats.clipHigh,
        maxLogRatio: clipped.stats.maxAbsLogRatio,
      },
    };
  }
}

/** r_perf by log-likelihood: max(log p(label), −3). */
export const loglikPerf: PerfReward = (_logits, logp) => loglikReward(logp.data() as Float32Array);

/** r_perf by correctness, weighted by class. @param weights (C) */
export function correctPerf(weights: Float64Array): PerfReward {
  return (logits, _logp, labels) => {
    const predicted = logits.reduce("argmax", 1);
    const values = predicted.data() as BigInt64Array;
    predicted.dispose();
    return Float64Array.from(labels, (label, i) => (Number(values[i]) === label ? weights[label]! : 0));
  };
}

function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]!;
  return values.length === 0 ? 0 : sum / values.length;
}
