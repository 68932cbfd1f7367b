import type { Random } from "../data/random.js";
import type { NativeLane, NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import { AdaptiveEntropy, AdaptiveKl } from "../rl/controllers.js";
import { k25ClipLoss, ppoClipLoss } from "../rl/loss.js";
import { RoutingPolicy, weightedSum } from "../rl/routingPolicy.js";
import type { SpecialistRouter } from "../swarm/index.js";
import type { Figures } from "./loop.js";
import { backward, type WeightedLosses } from "./losses.js";
import type { AdamW } from "./optimizer.js";
import type { ParlSettings } from "./parlOptions.js";
import { mean } from "./statistics.js";
import { Scope } from "./tensors.js";

/** What one batch of R rows teaches the router. All tensors are constants of the update. */
export interface Experience {
  cap: number;
  /** ε of the clipping range. */
  epsilon: number;
  /** (R,D) the router's input. */
  hidden: NativeTensor;
  /** (R,n) logits of the policy that drew the actions. */
  zOld: NativeTensor;
  /** (G,R,n) */
  actions: NativeTensor;
  /** (G,R), as are the advantages. */
  logpOld: NativeTensor;
  advantages: NativeTensor;
  /** (G,R) probabilities of enumerated routings; absent for drawn ones. */
  weights?: NativeTensor;
  /** (R,n) R·d(λ1·r_parallel − λ2·penalty/2)/dμ: its mean over rows is the term's gradient. */
  coefficients: NativeTensor;
}

interface LossParts extends WeightedLosses {
  /** Means over the rows. */
  figures: { policyLoss: number; batchTerms: number; entropy: number; kl: number };
  clipped: number;
  decisions: number;
  maxLogRatio: number;
  ess: number;
}

const NO_CLIP = 0;
/** A pass whose KL is this many times its target is the last one of its step. */
const KL_STOP = 4;

/**
 * The router's updates from stored experience: `epochs` passes of `minibatches` each over the rollouts, with the log-probabilities of
 * the policy that drew them, an entropy bonus and a KL penalty whose coefficients may adapt (docs/rl.md §3, §4).
 */
export class RouterUpdate {
  private readonly entropy: AdaptiveEntropy;
  private readonly kl: AdaptiveKl;

  constructor(
    private readonly router: SpecialistRouter,
    private readonly lane: NativeLane,
    private readonly options: ParlSettings,
  ) {
    const { entropyBonus, entropyTarget, klCoef, klTarget } = options;
    this.entropy = new AdaptiveEntropy(entropyBonus, entropyTarget);
    this.kl = new AdaptiveKl(klTarget !== undefined && klCoef === 0 ? 0.1 : klCoef, klTarget);
  }

  /** @param experiences of the batches of one step, whose gradients add up */
  async learn(experiences: readonly Experience[], optimizer: AdamW, random: Random): Promise<Figures> {
    const { epochs, minibatches, routerLr, klTarget } = this.options;
    const norms: number[] = [];
    let skipped = false;
    for (let epoch = 0; epoch < epochs; epoch++) {
      const orders = experiences.map(({ hidden }) =>
        random.shuffle(Array.from({ length: hidden.shape[0]! }, (_, row) => row)),
      );
      const pass: LossParts[] = [];
      for (let part = 0; part < minibatches; part++) {
        using scope = new Scope();
        const losses = await this.partLosses(experiences, orders, part, scope);
        if (losses.length === 0) continue;
        await backward(this.lane, losses);
        const result = await optimizer.step(this.lane, { lr: routerLr, clipNorm: NO_CLIP });
        norms.push(result.gradNorm);
        skipped ||= result.skipped;
        pass.push(...losses);
      }
      const kl = mean(pass.map(({ figures }) => figures.kl));
      if (klTarget !== undefined && kl > KL_STOP * klTarget) break;
    }
    const figures = await this.adapt(experiences);
    return { ...figures, routerUpdates: norms.length, routerGradNorm: mean(norms), routerSkipped: skipped };
  }

  /**
   * What the updates came to: components of the loss and the distance from the policy that drew, at the router's new weights. The
   * loss of an update itself says nothing of it: the first one has ratio 1 and KL 0. The coefficients follow.
   */
  private async adapt(experiences: readonly Experience[]): Promise<Figures> {
    using scope = new Scope();
    const after: LossParts[] = [];
    for (const experience of experiences) after.push(await this.lossOf(experience, 1, scope, false));
    const of = (name: keyof LossParts["figures"]) => mean(after.map(({ figures }) => figures[name]));
    const coefficients = { entropyBonus: this.entropy.coefficient, klCoef: this.kl.coefficient };
    this.kl.update(of("kl"));
    this.entropy.update(of("entropy") / this.router.numSpecialists);
    const decisions = after.reduce((sum, loss) => sum + loss.decisions, 0);
    return {
      policyLoss: of("policyLoss"),
      batchTerms: of("batchTerms"),
      klOld: of("kl"),
      ...coefficients,
      clipped: after.reduce((sum, loss) => sum + loss.clipped, 0) / Math.max(1, decisions),
      maxLogRatio: Math.max(...after.map((loss) => loss.maxLogRatio)),
      ess: mean(after.map(({ ess, decisions: all }) => ess / Math.max(1, all))),
    };
  }

  /** The router's loss on whole experience at its present weights, with a graph into the router alone. */
  loss(experience: Experience, scope: Scope): Promise<WeightedLosses> {
    return this.lossOf(experience, 1, scope);
  }

  get state(): { entropy: number; kl: number } {
    return { entropy: this.entropy.coefficient, kl: this.kl.coefficient };
  }

  set state({ entropy, kl }: { entropy: number; kl: number }) {
    this.entropy.restore(entropy);
    this.kl.restore(kl);
  }

  /** One minibatch: the same share of the rows of every experience, weighted by their numbers. */
  private async partLosses(
    experiences: readonly Experience[],
    orders: number[][],
    part: number,
    scope: Scope,
  ): Promise<LossParts[]> {
    const { minibatches } = this.options;
    const chosen = orders.map((order) =>
      order.slice((order.length * part) / minibatches, (order.length * (part + 1)) / minibatches),
    );
    const total = chosen.reduce((sum, rows) => sum + rows.length, 0);
    const losses: LossParts[] = [];
    for (const [i, rows] of chosen.entries()) {
      if (rows.length === 0) continue;
      const whole = rows.length === orders[i]!.length;
      const experience = whole ? experiences[i]! : selectRows(experiences[i]!, rows, scope);
      losses.push(await this.lossOf(experience, rows.length / total, scope));
    }
    return losses;
  }

  private async lossOf(experience: Experience, share: number, scope: Scope, grad = true): Promise<LossParts> {
    const { lane, router } = this;
    const { cap, hidden, zOld, actions, advantages, weights, coefficients } = experience;
    const z = scope.keep((await router.forward(lane, hidden, { grad })).logits);
    const policy = new RoutingPolicy(z, cap, { lane });
    const logp = scope.keep(await policy.logProb(actions));
    const { loss, stats: clip } = await this.clipLoss(
      { logp, logpOld: experience.logpOld, advantages, weights },
      experience.epsilon,
    );
    const stats = await policy.stats(zOld);
    const terms = await weightedSum(scope.keep(stats.marginals), coefficients, { lane });
    const entropy = scope.keep(scope.keep(stats.entropy).reduce("mean"));
    const kl = scope.keep(scope.keep(stats.kl!).reduce("mean"));
    const rows = hidden.shape[0]!;
    return {
      losses: [scope.keep(loss), scope.keep(terms), entropy, kl],
      weights: [share, -share / rows, -share * this.entropy.coefficient, share * this.kl.coefficient],
      figures: {
        policyLoss: loss.item(),
        batchTerms: terms.item() / rows,
        entropy: entropy.item(),
        kl: kl.item(),
      },
      clipped: clip.clipLow + clip.clipHigh + clip.dual,
      decisions: clip.nValid,
      maxLogRatio: clip.maxAbsLogRatio,
      ess: clip.ess,
    };
  }

  private clipLoss(input: Parameters<typeof ppoClipLoss>[0], epsilon: number) {
    const { objective, clipHighScale, dualClip, logAlpha, logBeta, tau } = this.options;
    const { lane } = this;
    if (objective === "k25") return k25ClipLoss(input, { logAlpha, logBeta, tau }, { lane });
    return ppoClipLoss(input, { epsLow: epsilon, epsHigh: epsilon * clipHighScale, dualClip }, { lane });
  }
}

function selectRows(experience: Experience, rows: number[], scope: Scope): Experience {
  const index = scope.keep(native().Tensor.fromData(Int32Array.from(rows), [rows.length], "i64"));
  const take = (x: NativeTensor, dim: number) => scope.keep(x.indexSelect(dim, index));
  const { hidden, zOld, actions, logpOld, advantages, weights, coefficients } = experience;
  return {
    ...experience,
    hidden: take(hidden, 0),
    zOld: take(zOld, 0),
    coefficients: take(coefficients, 0),
    actions: take(actions, 1),
    logpOld: take(logpOld, 1),
    advantages: take(advantages, 1),
    weights: weights && take(weights, 1),
  };
}
