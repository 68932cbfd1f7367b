import { Random } from "../../lib/data/random.js";
import type { NativeGenerator, NativeLane } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { CappedBernoulli } from "../../lib/rl/policy.js";
import { RoutingPolicy } from "../../lib/rl/routingPolicy.js";
import type { RoutingPhase } from "../../lib/rl/schedules.js";
import { type RouterOptions, SpecialistRouter } from "../../lib/swarm/index.js";
import type { Figures } from "../../lib/train/loop.js";
import { AdamW } from "../../lib/train/optimizer.js";
import { type ParlOptions, parlOptions } from "../../lib/train/parlOptions.js";
import { type PerfReward, RouterLearner } from "../../lib/train/routerLearner.js";
import { RouterUpdate } from "../../lib/train/routerUpdate.js";
import { Scope } from "../../lib/train/tensors.js";

/** Rows of a routing problem without models: what the router sees, and what every routing of a row is worth. */
export interface RoutingRows {
  /** (R,D) */
  features: Float32Array;
  /** Reward of a routing (n) of a row. */
  reward: (row: number, action: Uint8Array) => number;
  /** Specialists whose call fails where it is activated. */
  failing?: ReadonlySet<number>;
  /** Mean reward of the best router that sees the features alone. */
  ideal?: number;
}

export const standard = (n: number): RoutingPhase => ({ kind: "standard", cap: n, rho: 0.5 });
export const budget = (n: number, cap: number): RoutingPhase => ({ kind: "budget", cap, rho: cap / n });

/** r_perf is the reward itself. */
const given: PerfReward = { of: ({ logp }) => Float64Array.from(logp), lowest: 0 };

/** A router trained by the parts that PARL trains with, on rewards that a test makes up. */
export class RouterTask implements Disposable {
  readonly router: SpecialistRouter;
  readonly learner: RouterLearner;
  readonly update: RouterUpdate;
  readonly options: ReturnType<typeof parlOptions.parse>;
  private readonly optimizer: AdamW;
  private readonly generator: NativeGenerator;
  private readonly random: Random;

  constructor(
    private readonly lane: NativeLane,
    readonly dims: number,
    readonly n: number,
    seed: number,
    options: ParlOptions = {},
    router: RouterOptions = {},
    prices?: readonly number[],
  ) {
    this.options = parlOptions.parse(options);
    this.router = new SpecialistRouter(dims, n, router);
    this.generator = new (native().Generator)(seed);
    this.random = new Random(seed, "task");
    const steps = { main: 4, sub: Array<number>(n).fill(2) };
    const shares = prices ?? Array<number>(n).fill(1 / n);
    this.learner = new RouterLearner(this.router, lane, this.options, this.generator, given, steps, shares);
    this.update = new RouterUpdate(this.router, lane, this.options);
    this.optimizer = new AdamW([{ module: this.router.native }], { weightDecay: 0 });
  }

  /** Sets weights (n,D) and bias (n). */
  set(weight: ArrayLike<number>, bias: ArrayLike<number>): void {
    using scope = new Scope();
    const shapes: [string, ArrayLike<number>, number[]][] = [
      ["weight", weight, [this.n, this.dims]],
      ["bias", bias, [this.n]],
    ];
    this.router.native.loadStateDict(
      Object.fromEntries(
        shapes.map(([name, values, shape]) => [
          name,
          scope.keep(native().Tensor.fromData(Float32Array.from(values), shape, "f32")),
        ]),
      ),
    );
  }

  /** Experience of one batch. @param cached evaluates every routing of a row once */
  async route(rows: RoutingRows, phase: RoutingPhase, fraction: number, scope: Scope) {
    const count = rows.features.length / this.dims;
    const hidden = scope.keep(native().Tensor.fromData(rows.features, [count, this.dims], "f32"));
    const { n } = this;
    const evaluate = async (actions: Uint8Array) => {
      const total = actions.length / n;
      const logp = new Float64Array(total);
      const finished = new Uint8Array(total);
      for (let i = 0; i < total; i++) {
        const action = actions.subarray(i * n, (i + 1) * n);
        logp[i] = rows.reward(i % count, action);
        finished[i] = action.some((on, k) => on === 1 && rows.failing?.has(k)) ? 0 : 1;
      }
      return { logp, correct: finished, finished };
    };
    return this.learner.route(hidden, new Int32Array(count), evaluate, phase, fraction, scope);
  }

  /** One step of training; its figures. */
  step(rows: RoutingRows, phase: RoutingPhase, fraction: number): Promise<Figures> {
    return this.stepOf([rows], phase, fraction);
  }

  /** One step whose gradient is that of several batches. */
  async stepOf(batches: RoutingRows[], phase: RoutingPhase, fraction: number): Promise<Figures> {
    using scope = new Scope();
    const routed = [];
    for (const rows of batches) routed.push(await this.route(rows, phase, fraction, scope));
    const experiences = routed.map(({ experience }) => experience);
    return {
      ...routed[0]!.figures,
      ...(await this.update.learn(experiences, this.optimizer, this.random)),
    };
  }

  /** Weight (n,D), then bias (n). */
  weights(): number[] {
    using scope = new Scope();
    const parameters = this.router.native.stateDict();
    return ["weight", "bias"].flatMap((name) => [...(scope.keep(parameters[name]!).data() as Float32Array)]);
  }

  /** Gradient of the router's loss on one batch: of weight (n,D), then bias (n). */
  async gradient(rows: RoutingRows, phase: RoutingPhase, fraction = 0): Promise<Float64Array> {
    using scope = new Scope();
    const { experience } = await this.route(rows, phase, fraction, scope);
    const { losses, weights } = await this.update.loss(experience, scope);
    await native().backward(this.lane, losses, weights);
    const gradients = this.router.native.gradients();
    const values = ["weight", "bias"].flatMap((name) => [
      ...(scope.keep(gradients[name]!).data() as Float32Array),
    ]);
    // The next gradient starts from nothing.
    await this.optimizer.step(this.lane, { lr: 0, clipNorm: 0 });
    return Float64Array.from(values);
  }

  /** Every routing of each row with its probability. */
  async probabilities(features: Float32Array, cap: number) {
    using scope = new Scope();
    const count = features.length / this.dims;
    const hidden = scope.keep(native().Tensor.fromData(features, [count, this.dims], "f32"));
    const z = scope.keep((await this.router.forward(this.lane, hidden)).logits).data() as Float32Array;
    return Array.from({ length: count }, (_, row) =>
      new CappedBernoulli(z.subarray(row * this.n, (row + 1) * this.n), cap).enumerate(),
    );
  }

  /** Mean reward of the deployed decision, and its activation rate. */
  async deployed(
    rows: RoutingRows,
    cap: number,
  ): Promise<{ reward: number; activation: number; rates: number[] }> {
    using scope = new Scope();
    const { n } = this;
    const count = rows.features.length / this.dims;
    const hidden = scope.keep(native().Tensor.fromData(rows.features, [count, this.dims], "f32"));
    const z = scope.keep((await this.router.forward(this.lane, hidden)).logits);
    const policy = new RoutingPolicy(z, cap, { lane: this.lane });
    const actions = scope.keep(await policy.mode()).data() as Uint8Array;
    let reward = 0;
    const rates = new Array<number>(n).fill(0);
    for (let row = 0; row < count; row++) {
      const action = actions.subarray(row * n, (row + 1) * n);
      reward += rows.reward(row, action) / count;
      for (let k = 0; k < n; k++) rates[k]! += action[k]! / count;
    }
    return { reward, activation: rates.reduce((sum, rate) => sum + rate / n, 0), rates };
  }

  [Symbol.dispose](): void {
    this.router.dispose();
    this.generator.dispose();
    this.optimizer.dispose();
  }
}

/**
 * One specialist is right for each of n domains; activating others too injects noise: the reward of a routing is 1/|a| where the
 * right one is in it, else 0. Features are the domain's direction and noise.
 */
export function oracleRows(random: Random, count: number, n: number, dims: number): RoutingRows {
  const domains = Int32Array.from({ length: count }, () => random.int(n));
  const features = Float32Array.from({ length: count * dims }, (_, i) => {
    const domain = domains[Math.floor(i / dims)]!;
    return (i % dims === domain ? 2 : 0) + 0.9 * random.gaussian();
  });
  const reward = (row: number, action: Uint8Array) =>
    action[domains[row]!] ? 1 / action.reduce((sum, on) => sum + on, 0) : 0;
  const guesses = Array.from(domains, (_, row) => {
    const own = features.subarray(row * dims, row * dims + n);
    return own.indexOf(Math.max(...own));
  });
  const ideal = guesses.filter((guess, row) => guess === domains[row]).length / count;
  return { features, reward, ideal };
}
