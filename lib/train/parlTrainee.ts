import type { BatchPosition } from "../data/batches.js";
import { Random } from "../data/random.js";
import type { Batch, EncodedExample } from "../data/types.js";
import { batchInput, type Prefix } from "../model/index.js";
import type { NativeGenerator } from "../native/contract.js";
import { native } from "../native/load.js";
import { routingPhase } from "../rl/schedules.js";
import type { SwarmOrchestrator } from "../swarm/index.js";
import type { TensorMap } from "./checkpoint.js";
import { CollapseGuard, type RouterHealth } from "./collapseGuard.js";
import { stepCounts } from "./criticalSteps.js";
import type { Figures, Trainee, Validation } from "./loop.js";
import { backward, ratioTerm, type WeightedLosses } from "./losses.js";
import { meanFigures } from "./meanFigures.js";
import type { MetricValue } from "./metricsLog.js";
import { AdamW } from "./optimizer.js";
import type { ParlSettings } from "./parlOptions.js";
import { SwarmValidation } from "./parlValidation.js";
import { type PerfReward, type RoutedBatch, RouterLearner } from "./routerLearner.js";
import { RouterUpdate } from "./routerUpdate.js";
import { mixRandomRows, randomActions } from "./routingDraws.js";
import { learningRate } from "./schedule.js";
import { type Answers, type SpecialistAnswers, withoutFailed } from "./specialistAnswers.js";
import { swarmRollouts } from "./swarmRollouts.js";
import { restoreSwarm, storeSwarm, swarmGeometry } from "./swarmRun.js";
import { Scope, storeTensors, withRestored } from "./tensors.js";
import type { TrainingBatches } from "./trainingBatches.js";

export interface ParlData {
  batches: TrainingBatches;
  validation: EncodedExample[];
  /** What the specialists say of training and of validation examples. */
  train: SpecialistAnswers;
  held: SpecialistAnswers;
  perfReward: PerfReward;
  /** (n) of `priceShares`. */
  shares: number[];
}

/** One PARL step after the other, and what a checkpoint keeps of them. */
export class ParlTrainee implements Trainee, Disposable {
  readonly geometry: unknown;
  private readonly learner: RouterLearner;
  private readonly update: RouterUpdate;
  private readonly guard: CollapseGuard;
  readonly validation: SwarmValidation;
  private readonly generator: NativeGenerator;
  private readonly random: Random;
  private readonly routerOptimizer: AdamW;
  /** Of primary, fusion and alignment; null while the primary is frozen. */
  private readonly optimizer: AdamW | null;
  /** Confidence below which a column counts as unanswered. */
  private abstainBelow: number;

  constructor(
    private readonly swarm: SwarmOrchestrator,
    private readonly data: ParlData,
    private readonly options: ParlSettings,
    private readonly onWarning: ((message: string) => void) | undefined,
  ) {
    const { router, primary } = swarm;
    this.geometry = swarmGeometry(swarm);
    this.abstainBelow = options.abstainBelow;
    const { validation, held } = data;
    this.validation = new SwarmValidation(swarm, validation, held, options.abstainAccuracy, onWarning);
    this.generator = new (native().Generator)(options.seed);
    this.random = new Random(options.seed, "routing");
    this.learner = new RouterLearner(
      router,
      primary.lane,
      options,
      this.generator,
      data.perfReward,
      stepCounts(swarm),
      data.shares,
    );
    this.update = new RouterUpdate(router, primary.lane, options);
    this.guard = new CollapseGuard(swarm.specialists.length, options.collapsePatience);
    this.routerOptimizer = new AdamW([{ module: router.native }], { weightDecay: 0 });
    this.optimizer = options.freezePrimary ? null : modelOptimizer(swarm, options);
  }

  /** The router learns from this step on; before it, activation is random. */
  private get routingFrom(): number {
    const { freezePrimary, steps, routingWarmup } = this.options;
    return freezePrimary ? 0 : Math.round(steps * routingWarmup);
  }

  async step(step: number): Promise<Figures> {
    using scope = new Scope();
    const figures: Figures[] = [];
    const routed: RoutedBatch[] = [];
    for (let part = 0; part < this.options.accumulate; part++) {
      const batch = await this.microBatch(step, scope);
      figures.push(batch.figures);
      if (batch.routed) routed.push(batch.routed);
    }
    const all: Figures = meanFigures(figures);
    if (this.optimizer) Object.assign(all, await this.updateModel(step));
    if (routed.length > 0) {
      const experiences = routed.map(({ experience }) => experience);
      Object.assign(all, await this.update.learn(experiences, this.routerOptimizer, this.random));
      all.skipped = all.skipped === true || all.routerSkipped === true;
      Object.assign(all, this.watch(step, all as unknown as RouterHealth));
    }
    return { ...all, ...this.data.train.takeCounts() };
  }

  /** Forward and backward of one batch; the gradients of `accumulate` batches make a step. */
  private async microBatch(
    step: number,
    outer: Scope,
  ): Promise<{ figures: Figures; routed: RoutedBatch | null }> {
    const { swarm, data, options } = this;
    const batch = await data.batches.next();
    using scope = new Scope();
    const inputs = scope.keep(batchInput(batch));
    const prefix = scope.keep(await swarm.prefix(inputs, { grad: !options.freezePrimary }));
    const answers = await data.train.of(batch, inputs, scope);
    const routed = step < this.routingFrom ? null : await this.route(step, prefix, answers, batch, outer);
    if (!this.optimizer) return { figures: { ...routed?.figures }, routed };
    const pathwise = await this.pathwiseLoss(prefix, answers, routed, batch, scope);
    const share = 1 / options.accumulate;
    await backward(swarm.primary.lane, [
      { losses: pathwise.losses, weights: pathwise.weights.map((weight) => weight * share) },
    ]);
    return { figures: { ...pathwise.figures, ...routed?.figures }, routed };
  }

  /** Steps 2 to 9 for the router. */
  private async route(
    step: number,
    prefix: Prefix,
    answers: Answers,
    { labels }: Batch,
    scope: Scope,
  ): Promise<RoutedBatch> {
    const { steps, phaseSteps, keepSingle, maxCap } = this.options;
    const from = this.routingFrom;
    const phase = routingPhase(step - from, {
      period: phaseSteps,
      totalSteps: steps - from,
      numSpecialists: this.swarm.specialists.length,
      maxCap,
      keepSingle,
    });
    const fraction = (step - from) / Math.max(1, steps - from - 1);
    const hidden = scope.keep(prefix.routingHidden.detach());
    const evaluate = swarmRollouts(this.swarm, prefix, answers, labels, this.abstainBelow);
    return this.learner.route(hidden, labels, evaluate, phase, fraction, scope);
  }

  /** Warns of signs of collapse; `stop` ends the run. */
  private watch(step: number, health: RouterHealth): Figures {
    const found = this.guard.update(health);
    for (const { message } of found) this.onWarning?.(`step ${step + 1}: ${message}`);
    if (found.length === 0) return {};
    const last = found.find(({ stop }) => stop);
    return { collapse: found.map((sign) => ({ ...sign })), ...(last ? { stop: last.message } : {}) };
  }

  /** Cross-entropy of the whole swarm under one routing per row, with a graph into everything but the router. */
  private async pathwiseLoss(
    prefix: Prefix,
    { results, failed }: Answers,
    routed: RoutedBatch | null,
    batch: Batch,
    scope: Scope,
  ): Promise<WeightedLosses & { figures: Figures }> {
    const { swarm, options, random } = this;
    const n = swarm.specialists.length;
    const actions = routed
      ? mixRandomRows(routed.draw, n, options.randomShare, random)
      : randomActions(batch.size, n, 0.5, random);
    const possible = withoutFailed(actions, failed);
    const output = scope.keep(await swarm.complete(prefix, possible, results, { grad: true }));
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

  async validate(step: number): Promise<Validation> {
    const { score, figures, abstention } = await this.validation.run();
    if (abstention) this.abstainBelow = abstention.threshold;
    return { score, figures, eligible: step > this.routingFrom };
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
      update: { ...this.update.state },
      guard: this.guard.state,
      abstainBelow: this.abstainBelow,
    };
  }

  async restore(groups: Record<string, TensorMap>, state: MetricValue): Promise<void> {
    const { batches, random, learner, update, guard, abstainBelow } = state as unknown as {
      batches: BatchPosition;
      random: [number, number, number, number];
      learner: MetricValue;
      update: RouterUpdate["state"];
      guard: CollapseGuard["state"];
      abstainBelow: number;
    };
    if (this.optimizer) withRestored(groups.optimizer!, "", (t) => this.optimizer!.loadStateDict(t));
    withRestored(groups.routerOptimizer!, "", (t) => this.routerOptimizer.loadStateDict(t));
    this.generator.setState(groups.generator!.get("state")!.data);
    this.random.setState(random);
    this.learner.restore(learner);
    this.update.state = update;
    this.guard.state = guard;
    this.abstainBelow = abstainBelow;
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

/** What output fusion has beside the weights of its pool. */
const OUTPUT_MATRIX = /^(projection|labels)\d+$/;

/** One optimiser for all but the router, with a learning rate of its own for fusion and for alignment. */
function modelOptimizer(swarm: SwarmOrchestrator, options: ParlSettings): AdamW {
  const { primaryLrScale, fusionLrScale, alignmentLrScale, poolOnly, weightDecay, optimizer } = options;
  const { router: _, primary, ...others } = swarm.modules();
  const scaled = Object.entries(others).map(([name, module]) => ({
    module,
    lrScale: name.startsWith("alignment") ? alignmentLrScale : fusionLrScale,
    ...(poolOnly && name === "outputFusion" ? { except: OUTPUT_MATRIX } : {}),
  }));
  return new AdamW([{ module: primary!, lrScale: primaryLrScale }, ...scaled], {
    weightDecay,
    matrices: optimizer,
  });
}
