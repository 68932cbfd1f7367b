import type { BatchPosition } from "../data/batches.js";
import { classificationReport } from "../data/metrics.js";
import { Random } from "../data/random.js";
import type { Batch, EncodedExample } from "../data/types.js";
import { batchInput, type Prefix } from "../model/index.js";
import type { NativeGenerator } from "../native/contract.js";
import { native } from "../native/load.js";
import { routingPhase } from "../rl/schedules.js";
import {
  Activation,
  type SpecialistCache,
  type SpecialistResult,
  type SwarmOrchestrator,
} from "../swarm/index.js";
import type { TensorMap } from "./checkpoint.js";
import type { Figures, Trainee, Validation } from "./loop.js";
import { backward, ratioTerm, type WeightedLosses } from "./losses.js";
import type { MetricValue } from "./metricsLog.js";
import { AdamW } from "./optimizer.js";
import type { ParlSettings } from "./parlOptions.js";
import { predict } from "./predict.js";
import { type PerfReward, type RoutedBatch, RouterLearner } from "./routerLearner.js";
import { activationRates, mixRandomRows, randomActions } from "./routingDraws.js";
import { learningRate } from "./schedule.js";
import { swarmLogits } from "./swarmPredict.js";
import { restoreSwarm, storeSwarm, swarmGeometry } from "./swarmRun.js";
import { Scope, storeTensors, withRestored } from "./tensors.js";
import type { TrainingBatches } from "./trainingBatches.js";

export interface ParlData {
  batches: TrainingBatches;
  validation: EncodedExample[];
  /** Specialists' outputs by example; null: they run at every step. */
  train: SpecialistCache | null;
  held: SpecialistCache;
  perfReward: PerfReward;
}

/** The router's gradient is not clipped: its own optimiser has no other parameters to protect. */
const NO_CLIP = 0;

/** One PARL step after the other, and what a checkpoint keeps of them. */
export class ParlTrainee implements Trainee, Disposable {
  readonly geometry: unknown;
  private readonly learner: RouterLearner;
  private readonly generator: NativeGenerator;
  private readonly random: Random;
  private readonly routerOptimizer: AdamW;
  /** Of primary, fusion and alignment; null while the primary is frozen. */
  private readonly optimizer: AdamW | null;

  constructor(
    private readonly swarm: SwarmOrchestrator,
    private readonly data: ParlData,
    private readonly options: ParlSettings,
    private readonly onWarning: ((message: string) => void) | undefined,
  ) {
    this.geometry = swarmGeometry(swarm);
    this.generator = new (native().Generator)(options.seed);
    this.random = new Random(options.seed, "routing");
    this.learner = new RouterLearner(swarm, options, this.generator, data.perfReward);
    this.routerOptimizer = new AdamW([{ module: swarm.router.native }], { weightDecay: 0 });
    const { router: _, primary, ...fusion } = swarm.modules();
    const others = Object.values(fusion).map((module) => ({ module, lrScale: options.fusionLrScale }));
    const { weightDecay, freezePrimary } = options;
    this.optimizer = freezePrimary ? null : new AdamW([{ module: primary! }, ...others], { weightDecay });
  }

  /** The router learns from this step on; before it, activation is random. */
  private get routingFrom(): number {
    const { freezePrimary, steps, routingWarmup } = this.options;
    return freezePrimary ? 0 : Math.round(steps * routingWarmup);
  }

  async step(step: number): Promise<Figures> {
    const { swarm, data, options } = this;
    const batch = await data.batches.next();
    using scope = new Scope();
    const inputs = scope.keep(batchInput(batch));
    const prefix = scope.keep(await swarm.prefix(inputs, { grad: !options.freezePrimary }));
    const results = data.train?.select(batch.rows) ?? (await this.runAll(inputs, batch, scope));
    const routed = step < this.routingFrom ? null : await this.route(step, prefix, results, batch, scope);
    const pathwise = this.optimizer ? await this.pathwiseLoss(prefix, results, routed, batch, scope) : null;
    const policy = routed ? await routed.loss(scope) : null;
    await backward(swarm.primary.lane, [pathwise, policy]);
    const figures: Figures = { ...pathwise?.figures, ...routed?.figures, ...policy?.figures };
    if (this.optimizer) Object.assign(figures, await this.updateModel(step));
    if (routed) await this.updateRouter(routed);
    return figures;
  }

  /** Steps 2 to 9 for the router. */
  private async route(
    step: number,
    prefix: Prefix,
    results: readonly SpecialistResult[],
    batch: Batch,
    scope: Scope,
  ): Promise<RoutedBatch> {
    const { steps, phaseSteps, keepSingle } = this.options;
    const from = this.routingFrom;
    const numSpecialists = this.swarm.specialists.length;
    const phase = routingPhase(step - from, {
      period: phaseSteps,
      totalSteps: steps - from,
      numSpecialists,
      keepSingle,
    });
    const fraction = (step - from) / Math.max(1, steps - from - 1);
    const routed = await this.learner.route(prefix, results, batch.labels, phase, fraction, scope);
    for (const { message } of routed.warnings) this.onWarning?.(`step ${step + 1}: ${message}`);
    return routed;
  }

  /** Cross-entropy of the whole swarm under one routing per row, with a graph into everything but the router. */
  private async pathwiseLoss(
    prefix: Prefix,
    results: readonly SpecialistResult[],
    routed: RoutedBatch | null,
    batch: Batch,
    scope: Scope,
  ): Promise<WeightedLosses & { figures: Figures }> {
    const { swarm, options, random } = this;
    const n = swarm.specialists.length;
    const actions = routed
      ? mixRandomRows(routed.draw, n, options.randomShare, random)
      : randomActions(batch.size, n, 0.5, random);
    const output = scope.keep(await swarm.complete(prefix, actions, results, { grad: true }));
    const labels = scope.keep(native().Tensor.fromData(batch.labels, [batch.size], "i64"));
    const { labelSmoothing } = options;
    const entropy = await native().crossEntropy(swarm.primary.lane, {
      logits: output.logits,
      labels,
      labelSmoothing,
    });
    scope.keep(entropy.logp);
    const loss = scope.keep(entropy.loss);
    const ratio = ratioTerm(output, options.ratioWeight);
    return {
      losses: [loss, ...ratio.losses],
      weights: [1, ...ratio.weights],
      figures: { loss: loss.item(), ratioLoss: output.ratioLoss.item(), boundaryRates: output.boundaryRates },
    };
  }

  private async updateModel(step: number): Promise<Figures> {
    const { lr, warmup, steps, finalLr, clipNorm } = this.options;
    const rate = learningRate(step, { lr, warmup, total: steps, finalFraction: finalLr });
    const { gradNorm, skipped } = await this.optimizer!.step(this.swarm.primary.lane, { lr: rate, clipNorm });
    return { lr: rate, gradNorm, skipped };
  }

  /** The first update uses the gradient of the joint backward; further epochs recompute the router's loss alone. */
  private async updateRouter(routed: RoutedBatch): Promise<void> {
    const { lane } = this.swarm.primary;
    const update = { lr: this.options.routerLr, clipNorm: NO_CLIP };
    await this.routerOptimizer.step(lane, update);
    for (let epoch = 1; epoch < this.options.epochs; epoch++) {
      using scope = new Scope();
      await backward(lane, [await routed.loss(scope)]);
      await this.routerOptimizer.step(lane, update);
    }
  }

  private async runAll(
    inputs: ReturnType<typeof batchInput>,
    batch: Batch,
    scope: Scope,
  ): Promise<SpecialistResult[]> {
    const everyone = Activation.constant(true, batch.size, this.swarm.specialists.length);
    const results = await this.swarm.runSpecialists(inputs, everyone);
    for (const result of results) scope.keep(result);
    return results;
  }

  async validate(step: number): Promise<Validation> {
    const { swarm, data } = this;
    const { labels } = swarm.primary;
    const n = swarm.specialists.length;
    const activations: Activation[] = [];
    const logitsOf = swarmLogits(swarm, {
      cache: data.held,
      onActivation: (activation) => activations.push(activation),
    });
    const predictions = await predict(logitsOf, data.validation, labels.length);
    const { macroF1, microF1 } = classificationReport(
      data.validation.map((example) => example.label),
      predictions.map((prediction) => prediction.label),
      labels,
    );
    const rates = activationRates(Uint8Array.from(activations.flatMap(({ mask }) => [...mask])), n);
    const activation = rates.reduce((sum, rate) => sum + rate / n, 0);
    return {
      score: macroF1,
      eligible: step > this.routingFrom,
      figures: { macroF1, microF1, activation, activations: rates },
    };
  }

  weights(): TensorMap {
    return storeSwarm(this.swarm);
  }

  loadWeights(tensors: TensorMap): void {
    restoreSwarm(this.swarm, tensors);
  }

  resumeGroups(): Record<string, TensorMap> {
    const state = this.generator.getState();
    return {
      ...(this.optimizer ? { optimizer: storeTensors(this.optimizer.stateDict()) } : {}),
      routerOptimizer: storeTensors(this.routerOptimizer.stateDict()),
      generator: new Map([["state", { dtype: "u8", shape: [state.length], data: state }]]),
    };
  }

  resumeState(): MetricValue {
    return {
      batches: { ...this.data.batches.state },
      random: this.random.getState(),
      learner: this.learner.state,
    };
  }

  async restore(groups: Record<string, TensorMap>, state: MetricValue): Promise<void> {
    const { batches, random, learner } = state as unknown as {
      batches: BatchPosition;
      random: [number, number, number, number];
      learner: MetricValue;
    };
    if (this.optimizer) withRestored(groups.optimizer!, "", (t) => this.optimizer!.loadStateDict(t));
    withRestored(groups.routerOptimizer!, "", (t) => this.routerOptimizer.loadStateDict(t));
    this.generator.setState(groups.generator!.get("state")!.data);
    this.random.setState(random);
    this.learner.restore(learner);
    await this.data.batches.restore(batches);
  }

  dispose(): void {
    this.optimizer?.dispose();
    this.routerOptimizer.dispose();
    this.generator.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
