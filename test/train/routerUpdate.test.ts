import { afterAll, describe, expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import { native } from "../../lib/native/load.js";
import { RoutingPolicy } from "../../lib/rl/routingPolicy.js";
import { SpecialistRouter } from "../../lib/swarm/index.js";
import { AdamW } from "../../lib/train/optimizer.js";
import { type ParlOptions, parlOptions } from "../../lib/train/parlOptions.js";
import { type Experience, RouterUpdate } from "../../lib/train/routerUpdate.js";
import { Scope } from "../../lib/train/tensors.js";

const [rows, width, n, draws, cap] = [12, 8, 4, 5, 3];
const scope = new Scope();
const lane = new (native().Lane)({ name: "router", threads: 1 });
const router = scope.keep(new SpecialistRouter(width, n, { dtype: "f64" }));
/** A step of size 0 clears the gradients and changes nothing else. */
const clearing = scope.keep(new AdamW([{ module: router.native }], { weightDecay: 0 }));
const generator = scope.keep(new (native().Generator)(7));
afterAll(async () => {
  await lane.close();
  scope[Symbol.dispose]();
  expect(native().memory().liveTensors).toBe(0);
});

/** Moves the router, by so much a weight. */
function moveRouter(size: number): void {
  using inner = new Scope();
  const moved = Object.fromEntries(
    Object.entries(router.stateDict()).map(([name, tensor]) => {
      const noise = inner.keep(native().Tensor.randn(tensor.shape, "f64", generator));
      return [name, inner.keep(inner.keep(tensor).add(inner.keep(noise.mul(size))))];
    }),
  );
  router.native.loadStateDict(moved);
}

/** Rollouts of the router as it is, with random advantages. */
async function experienceOf(inner: Scope): Promise<Experience> {
  const { Tensor } = native();
  const random = (shape: number[]) => inner.keep(Tensor.randn(shape, "f64", generator));
  const hidden = random([rows, width]);
  const zOld = inner.keep((await router.forward(lane, hidden)).logits);
  const policy = new RoutingPolicy(zOld, cap, { lane });
  const actions = inner.keep(await policy.sample(draws, generator));
  const logpOld = inner.keep(await policy.logProb(actions));
  const [advantages, coefficients] = [random([draws, rows]), random([rows, n])];
  return { cap, epsilon: 0.2, hidden, zOld, actions, logpOld, advantages, coefficients };
}

/** The gradients of the updates of one pass, whose steps leave the router where it is. */
async function gradientsOf(options: ParlOptions, experiences: Experience[]): Promise<number[][]> {
  const gradients: number[][] = [];
  const recorder = {
    step: async () => {
      using inner = new Scope();
      const own = Object.values(router.native.gradients());
      gradients.push(own.flatMap((tensor) => [...(inner.keep(tensor).data() as Float64Array)]));
      return clearing.step(lane, { lr: 0, clipNorm: 0 });
    },
  } as unknown as AdamW;
  const update = new RouterUpdate(router, lane, parlOptions.parse(options));
  await update.learn(experiences, recorder, new Random(3, "rows"));
  return gradients;
}

const largest = (values: number[]) => values.reduce((max, value) => Math.max(max, Math.abs(value)), 0);
const difference = (a: number[], b: number[]) => largest(a.map((x, i) => x - b[i]!));
const meanOf = (all: number[][]) =>
  all[0]!.map((_, i) => all.reduce((sum, g) => sum + g[i]!, 0) / all.length);

describe("updates of the router", () => {
  test.each(["ppo", "k25"] as const)(
    "%s: the gradients of a pass's minibatches have the whole batch's as their mean",
    async (objective) => {
      using inner = new Scope();
      moveRouter(0.3);
      const experience = await experienceOf(inner);
      moveRouter(0.1);
      const options = { objective, klCoef: 0.3, entropyBonus: 0.05 };
      const [whole] = await gradientsOf(options, [experience]);
      const parts = await gradientsOf({ ...options, minibatches: 3 }, [experience]);
      expect(parts.length).toBe(3);
      expect(largest(whole!)).toBeGreaterThan(0.01);
      expect(difference(parts[0]!, whole!)).toBeGreaterThan(1e-3);
      expect(difference(meanOf(parts), whole!)).toBeLessThan(1e-12);
    },
  );

  test("several batches make one update, the mean of theirs", async () => {
    using inner = new Scope();
    const two = [await experienceOf(inner), await experienceOf(inner)];
    moveRouter(0.1);
    const [both] = await gradientsOf({}, two);
    const [first] = await gradientsOf({}, [two[0]!]);
    const [second] = await gradientsOf({}, [two[1]!]);
    expect(difference(both!, meanOf([first!, second!]))).toBeLessThan(1e-12);
    expect(difference(first!, second!)).toBeGreaterThan(1e-3);
  });

  test("at the policy that drew, PPO and K2.5 agree; far from it, K2.5's window and tau decide", async () => {
    using inner = new Scope();
    const experience = await experienceOf(inner);
    const gradient = async (options: ParlOptions) =>
      (await gradientsOf({ entropyBonus: 0, ...options }, [experience]))[0]!;
    const ppo = await gradient({});
    expect(largest(ppo)).toBeGreaterThan(0.01);
    expect(difference(ppo, await gradient({ objective: "k25" }))).toBeLessThan(1e-12);
    moveRouter(1.5);
    const window = { objective: "k25" as const, logAlpha: -15, logBeta: 15, tau: 0 };
    const narrow = await gradient({ ...window, logAlpha: 0, logBeta: 0 });
    const penalised = await gradient({ ...window, logAlpha: 0, logBeta: 0, tau: 0.1 });
    expect(difference(await gradient(window), narrow)).toBeGreaterThan(1e-3);
    expect(difference(penalised, narrow)).toBeGreaterThan(1e-3);
  });

  test("one update's distance is measured after it, and an adaptive coefficient follows it", async () => {
    using inner = new Scope();
    const experience = await experienceOf(inner);
    using optimizer = new AdamW([{ module: router.native }], { weightDecay: 0 });
    const far = new RouterUpdate(
      router,
      lane,
      parlOptions.parse({ routerLr: 0.3, klCoef: 0.1, klTarget: 1e-6 }),
    );
    const figures = await far.learn([experience], optimizer, new Random(1, "rows"));
    expect(figures.klOld).toBeGreaterThan(1e-3);
    expect(figures.maxLogRatio).toBeGreaterThan(0.1);
    expect(figures).toMatchObject({ klCoef: 0.1, routerUpdates: 1, routerSkipped: false });
    expect(far.state.kl).toBe(0.2);
  });

  test("a gradient that is not finite is told of and changes nothing", async () => {
    using inner = new Scope();
    const experience = await experienceOf(inner);
    const infinite = native().Tensor.full([rows, n], Number.POSITIVE_INFINITY, "f64");
    const broken = { ...experience, coefficients: inner.keep(infinite) };
    using optimizer = new AdamW([{ module: router.native }], { weightDecay: 0 });
    const values = () =>
      Object.values(router.native.stateDict()).flatMap((t) => [...(inner.keep(t).data() as Float64Array)]);
    const before = values();
    const update = new RouterUpdate(router, lane, parlOptions.parse({}));
    const figures = await update.learn([broken], optimizer, new Random(1, "rows"));
    expect(figures.routerSkipped).toBe(true);
    expect(values()).toEqual(before);
  });
});
