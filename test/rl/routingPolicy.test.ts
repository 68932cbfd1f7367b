import { describe, expect, it } from "vitest";
import { native } from "../../lib/native/load.js";
import { batchAdvantages } from "../../lib/rl/advantages.js";
import { ppoClipLoss } from "../../lib/rl/loss.js";
import { CappedBernoulli } from "../../lib/rl/policy.js";
import { RoutingPolicy, restrictLogits, weightedSum } from "../../lib/rl/routingPolicy.js";
import { numbers, useLane } from "./nativeSupport.js";
import { chiSquare, chiSquareQuantile, expectClose, randomOf, testSeed, vector } from "./support.js";

const t = useLane();
const on = () => ({ lane: t.lane });

/** Gradient of Σ x·coefficients in `leaf`; the leaf's earlier gradient is not there yet. */
async function gradientOf(
  leaf: ReturnType<typeof t.leaf>,
  x: ReturnType<typeof t.leaf>,
  coefficients: number[],
) {
  const loss = t.keep(await weightedSum(x, t.tensor(coefficients, x.shape), on()));
  return t.gradient(leaf, loss);
}

interface V6 {
  inputs: { z: number[] };
  expected: {
    K: number;
    action: number[];
    logp: number;
    marginals_mu: number[];
    grad_logp_z: number[];
    entropy: number;
    grad_entropy_z: number[];
    z_old: number[];
    kl_new_old: number;
    grad_kl_z: number[];
    mode: number[];
  }[];
}
const v6 = vector<V6>("V6_capped_bernoulli");

describe("golden values", () => {
  it.each(v6.expected)("capped Bernoulli, K = $K", async (row) => {
    const leaf = () => t.leaf(v6.inputs.z, [1, 4]);
    const z = leaf();
    const logp = t.keep(
      await new RoutingPolicy(z, row.K, on()).logProb(t.tensor(row.action, [1, 4], "bool")),
    );
    expectClose(numbers(logp), [row.logp]);
    expectClose(await gradientOf(z, logp, [1]), row.grad_logp_z);

    const old = t.tensor(row.z_old, [1, 4]);
    for (const [output, value, gradient] of [
      ["entropy", row.entropy, row.grad_entropy_z],
      ["kl", row.kl_new_old, row.grad_kl_z],
    ] as const) {
      const at = leaf();
      const stats = await new RoutingPolicy(at, row.K, on()).stats(old);
      for (const tensor of Object.values(stats)) t.keep(tensor!);
      expectClose(numbers(stats.marginals), row.marginals_mu);
      expectClose(numbers(stats[output]!), [value]);
      expectClose(await gradientOf(at, stats[output]!, [1]), gradient);
    }
    expect(numbers(t.keep(await new RoutingPolicy(z, row.K, on()).mode()))).toEqual(row.mode);
  });

  it("routing loss: clipped policy, entropy and KL, all weighted token means", async () => {
    const { inputs, params, expected } = vector<{
      inputs: Record<"z" | "z_old" | "a", number[][][]> & Record<"adv" | "mask" | "w", number[][]>;
      params: { eps_lo: number; eps_hi: number; c: number; ent_coef: number; kl_coef: number };
      expected: {
        logp: number[][];
        logp_old: number[][];
        policy_loss: number;
        loss: number;
        grad_z: number[][][];
      };
    }>("V5_bernoulli_router");
    const z = t.leaf(inputs.z.flat(2), [4, 3]);
    const zOld = t.tensor(inputs.z_old.flat(2), [4, 3]);
    const actions = t.tensor(inputs.a.flat(2), [4, 3], "bool");
    const policy = new RoutingPolicy(z, 3, on());
    const logp = t.keep(await policy.logProb(actions));
    const logpOld = t.keep(await new RoutingPolicy(zOld, 3, on()).logProb(actions));
    expectClose(numbers(logp), expected.logp.flat());
    expectClose(numbers(logpOld), expected.logp_old.flat());
    const weights = inputs.w.flat();
    const policyLoss = await ppoClipLoss(
      {
        logp,
        logpOld,
        advantages: t.tensor(inputs.adv.flat(), [4]),
        weights: t.tensor(weights, [4]),
        mask: t.tensor(inputs.mask.flat(), [4], "bool"),
      },
      { epsLow: params.eps_lo, epsHigh: params.eps_hi, dualClip: params.c },
      on(),
    );
    t.keep(policyLoss.loss);
    expectClose([policyLoss.loss.item()], [expected.policy_loss]);
    const stats = await policy.stats(zOld);
    for (const tensor of Object.values(stats)) t.keep(tensor!);
    const total = weights.reduce((sum, w) => sum + w, 0);
    const scaled = (factor: number) =>
      t.tensor(
        weights.map((w) => (factor * w) / total),
        [4],
      );
    const entropy = t.keep(await weightedSum(stats.entropy, scaled(-params.ent_coef), on()));
    const kl = t.keep(await weightedSum(stats.kl!, scaled(params.kl_coef), on()));
    expectClose([policyLoss.loss.item() + entropy.item() + kl.item()], [expected.loss]);
    expectClose(await t.gradient(z, policyLoss.loss, entropy, kl), expected.grad_z.flat(2));
  });

  const v12 = vector<{
    inputs: { z: number[]; subsets: number[][]; reward: number[] };
    expected: { K: number; J: number; grad_z: number[]; probs: number[] }[];
  }>("V12_exact_gradient_oracle");

  it.each(v12.expected)("exact gradient by enumeration, K = $K", async ({ K, J, grad_z, probs }) => {
    const z = t.leaf(v12.inputs.z, [1, 3]);
    const possible = v12.inputs.subsets.flatMap((s, i) => (s.reduce((a, b) => a + b) <= K ? [i] : []));
    const actions = t.tensor(
      possible.flatMap((i) => v12.inputs.subsets[i]!),
      [possible.length, 1, 3],
      "bool",
    );
    const logp = t.keep(await new RoutingPolicy(z, K, on()).logProb(actions));
    const pi = numbers(logp).map(Math.exp);
    expectClose(
      pi,
      possible.map((i) => probs[i]!),
    );
    const weighted = pi.map((p, i) => p * v12.inputs.reward[possible[i]!]!);
    expect(weighted.reduce((a, b) => a + b)).toBeCloseTo(J, 5);
    expectClose(await gradientOf(z, logp, weighted), grad_z);
  });

  it.each(v12.expected)("the sampled RLOO gradient has the exact one as its mean, K = $K", async (row) => {
    const seed = testSeed(`RLOO K=${row.K}`);
    const generator = t.keep(new (native().Generator)(seed));
    const rows = 4000;
    const draws = 8;
    const z = t.leaf(Array.from({ length: rows }, () => v12.inputs.z).flat(), [rows, 3]);
    const policy = new RoutingPolicy(z, row.K, on());
    const actions = t.keep(await policy.sample(draws, generator));
    const logp = t.keep(await policy.logProb(actions));
    const chosen = numbers(actions);
    const rewards = Array.from({ length: draws * rows }, (_, i) => {
      const [a, b, c] = chosen.slice(3 * i, 3 * i + 3);
      return v12.inputs.reward[a! * 4 + b! * 2 + c!]!;
    });
    const { loss } = await ppoClipLoss(
      {
        logp,
        logpOld: t.keep(logp.detach()),
        advantages: t.tensor(batchAdvantages(rewards, rows, "rloo"), [draws, rows]),
      },
      {},
      on(),
    );
    // The loss is a mean over rows: a row's own gradient is rows times its part.
    const gradient = (await t.gradient(z, t.keep(loss))).map((g) => -g * rows);
    for (let n = 0; n < 3; n++) {
      const column = gradient.filter((_, i) => i % 3 === n);
      const mean = column.reduce((sum, g) => sum + g, 0) / rows;
      const variance = column.reduce((sum, g) => sum + (g - mean) ** 2, 0) / (rows - 1);
      expect(Math.abs(mean - row.grad_z[n]!)).toBeLessThan(5 * Math.sqrt(variance / rows));
    }
  });
});

describe("agreement with the plain policy", () => {
  const cases = [
    { n: 1, cap: 1 },
    { n: 3, cap: 2 },
    { n: 6, cap: 3 },
    { n: 12, cap: 12 },
    { n: 40, cap: 5 },
    { n: 128, cap: 4 },
  ];
  it.each(cases)("n = $n, K = $cap, some specialists forbidden", async ({ n, cap }) => {
    const random = randomOf(n);
    const rows = 4;
    const values = Array.from({ length: rows * n }, () => (random() < 0.15 ? -Infinity : 6 * random() - 3));
    const oldValues = values.map((z) => z + random() - 0.5);
    const policy = new RoutingPolicy(t.tensor(values, [rows, n]), cap, on());
    const generator = t.keep(new (native().Generator)(n));
    const actions = t.keep(await policy.sample(2, generator));
    const logp = numbers(t.keep(await policy.logProb(actions)));
    const stats = await policy.stats(t.tensor(oldValues, [rows, n]));
    for (const tensor of Object.values(stats)) t.keep(tensor!);
    const mode = numbers(t.keep(await policy.mode(0.3)));
    const drawn = numbers(actions);
    for (let r = 0; r < rows; r++) {
      const row = (x: number[]) => x.slice(r * n, (r + 1) * n);
      const plain = new CappedBernoulli(row(values), cap);
      for (let g = 0; g < 2; g++) {
        const action = drawn.slice((g * rows + r) * n, (g * rows + r + 1) * n);
        expectClose([logp[g * rows + r]!], [plain.logProb(action)], 1e-9);
      }
      expectClose(row(numbers(stats.marginals)), plain.marginals(), 1e-10);
      expectClose([numbers(stats.entropy)[r]!], [plain.entropy()], 1e-9);
      expectClose([numbers(stats.kl!)[r]!], [plain.kl(new CappedBernoulli(row(oldValues), cap))], 1e-9);
      expect(row(mode)).toEqual([...plain.mode(0.3)]);
    }
  });
});

describe("gradients against central differences in f64", () => {
  it.each([1, 2, 5])("marginals, entropy and KL together, K = %i", async (cap) => {
    const random = randomOf(testSeed(`stats gradient K=${cap}`));
    const draw = (count: number) => Array.from({ length: count }, () => 4 * random() - 2);
    const shape = [2, 5];
    const values = draw(10);
    values[7] = -Infinity;
    const zOld = t.tensor(draw(10), shape);
    const [cMarginals, cEntropy, cKl] = [draw(10), draw(2), draw(2)];
    const scalar = async (z: ReturnType<typeof t.tensor>) => {
      const stats = await new RoutingPolicy(z, cap, on()).stats(zOld);
      for (const tensor of Object.values(stats)) t.keep(tensor!);
      return Promise.all([
        weightedSum(stats.marginals, t.tensor(cMarginals, shape), on()),
        weightedSum(stats.entropy, t.tensor(cEntropy, [2]), on()),
        weightedSum(stats.kl!, t.tensor(cKl, [2]), on()),
      ]);
    };
    const z = t.leaf(values, shape);
    const losses = await scalar(z);
    for (const loss of losses) t.keep(loss);
    const gradient = await t.gradient(z, ...losses);
    const h = 1e-5;
    for (let i = 0; i < 10; i++) {
      const at = async (delta: number) => {
        const parts = await scalar(
          t.tensor(
            values.map((x, j) => (i === j ? x + delta : x)),
            shape,
          ),
        );
        return parts.reduce((sum, part) => sum + t.keep(part).item(), 0);
      };
      const numerical = i === 7 ? 0 : ((await at(h)) - (await at(-h))) / (2 * h);
      expectClose([gradient[i]!], [numerical], 1e-8);
    }
  });
});

describe("samples", () => {
  it.each([1, 2, 4])("follow the enumeration, K = %i", async (cap) => {
    const seed = testSeed(`native samples K=${cap}`);
    const generator = t.keep(new (native().Generator)(seed));
    const plain = new CappedBernoulli(v6.inputs.z, cap);
    const all = plain.enumerate();
    const draws = 50_000;
    const policy = new RoutingPolicy(t.tensor(v6.inputs.z, [1, 4]), cap, on());
    const actions = numbers(t.keep(await policy.sample(draws, generator)));
    const code = (a: ArrayLike<number>, at = 0) => a[at]! * 8 + a[at + 1]! * 4 + a[at + 2]! * 2 + a[at + 3]!;
    const observed = new Float64Array(16);
    for (let i = 0; i < draws; i++) observed[code(actions, 4 * i)]! += 1;
    const cells = all.map(({ action }) => observed[code(action)]!);
    expect(cells.reduce((a, b) => a + b)).toBe(draws);
    const expected = all.map(({ probability }) => draws * probability);
    expect(chiSquare(cells, expected)).toBeLessThan(chiSquareQuantile(all.length - 1));
  });

  it("repeat with the seed, go on with the generator, and never use a forbidden specialist", async () => {
    const z = t.tensor([1, -Infinity, 2, 0.5, 0, -Infinity], [2, 3]);
    const policy = new RoutingPolicy(z, 2, on());
    const draw = async (generator: InstanceType<ReturnType<typeof native>["Generator"]>) =>
      numbers(t.keep(await policy.sample(200, generator)));
    const first = t.keep(new (native().Generator)(42));
    const again = t.keep(new (native().Generator)(42));
    const drawn = await draw(first);
    expect(await draw(again)).toEqual(drawn);
    expect(await draw(again)).not.toEqual(drawn);
    expect(drawn.filter((a, i) => a && (i % 6 === 1 || i % 6 === 5))).toEqual([]);
    expect(drawn.some((a) => a)).toBe(true);
  });
});

describe("decision tokens", () => {
  const [B, T, n, cap] = [2, 3, 4, 2];
  const random = randomOf(23);
  const z = Array.from({ length: B * T * n }, () => 3 * random() - 1.5);
  /** A masked token holds NaN; token (0,1) may not activate specialist 2, nor (1,0) anybody. */
  const mask = [1, 1, 0, 1, 1, 1];
  const allowed = z.map((_, i) => (i === (0 * T + 1) * n + 2 || Math.floor(i / n) === T ? 0 : 1));
  const poisoned = z.map((x, i) => (mask[Math.floor(i / n)] ? x : Number.NaN));
  const actions = z.map((_, i) => (i % n === 0 && mask[Math.floor(i / n)] && allowed[i] ? 1 : 0));

  async function policyOf(shape: number[], rows = shape.slice(0, -1)) {
    const leaf = t.leaf(poisoned, shape);
    const sets = { allowed: t.tensor(allowed, shape, "bool"), mask: t.tensor(mask, rows, "bool") };
    const logits = t.keep(await restrictLogits(leaf, sets, { lane: t.lane }));
    return { leaf, policy: new RoutingPolicy(logits, cap, { lane: t.lane }) };
  }

  it("are the rows (B·T,n) in another shape, in values, draws and gradients", async () => {
    const results: number[][][] = [];
    for (const shape of [
      [B, T, n],
      [B * T, n],
    ]) {
      const rows = shape.slice(0, -1);
      const { leaf, policy } = await policyOf(shape);
      const logp = t.keep(await policy.logProb(t.tensor(actions, shape, "bool")));
      expect(logp.shape).toEqual(rows);
      const stats = await policy.stats(t.tensor(Array(z.length).fill(0), shape));
      for (const x of [stats.marginals, stats.entropy, stats.kl!]) t.keep(x);
      expect(stats.marginals.shape).toEqual(shape);
      expect(stats.entropy.shape).toEqual(rows);
      using generator = new (native().Generator)(3);
      const draws = t.keep(await policy.sample(5, generator));
      expect(draws.shape).toEqual([5, ...shape]);
      const again = t.keep(await policy.logProb(draws));
      expect(again.shape).toEqual([5, ...rows]);
      const mode = t.keep(await policy.mode());
      const sum = t.keep(t.keep(logp.reduce("sum")).add(t.keep(stats.entropy.reduce("sum"))));
      results.push([
        numbers(logp),
        numbers(stats.marginals),
        numbers(stats.entropy),
        numbers(draws),
        numbers(again),
        numbers(mode),
        await t.gradient(leaf, sum),
      ]);
    }
    expect(results[0]).toEqual(results[1]);
  });

  it("a masked token and one that allows nothing act all-off with certainty; NaN in it is never read", async () => {
    const { leaf, policy } = await policyOf([B, T, n]);
    const logp = t.keep(await policy.logProb(t.tensor(actions, [B, T, n], "bool")));
    const { marginals, entropy } = await policy.stats();
    t.keep(marginals);
    t.keep(entropy);
    for (const token of [2, 3]) {
      expect(numbers(logp)[token]).toBe(0);
      expect(numbers(entropy)[token]).toBe(0);
      expect(numbers(marginals).slice(token * n, (token + 1) * n)).toEqual([0, 0, 0, 0]);
    }
    const gradient = await t.gradient(leaf, t.keep(logp.reduce("sum")), t.keep(entropy.reduce("sum")));
    expect(gradient.every(Number.isFinite)).toBe(true);
    expect(gradient.slice(2 * n, 4 * n)).toEqual(Array(2 * n).fill(0));
    expect(numbers(marginals)[1 * n + 2]).toBe(0);
    const one = new CappedBernoulli([z[n]!, z[n + 1]!, Number.NEGATIVE_INFINITY, z[n + 3]!], cap);
    expectClose(numbers(marginals).slice(n, 2 * n), one.marginals(), 1e-12);
  });

  it("an allowed set (n) holds for every token; sets of another shape are refused", async () => {
    const logits = t.tensor(z, [B, T, n]);
    const options = { lane: t.lane };
    const one = t.keep(
      await restrictLogits(logits, { allowed: t.tensor([1, 0, 1, 1], [n], "bool") }, options),
    );
    expect(numbers(one).filter((x) => x === Number.NEGATIVE_INFINITY).length).toBe(B * T);
    await expect(restrictLogits(logits, { mask: t.tensor(mask, [B * T], "bool") }, options)).rejects.toThrow(
      /mask/,
    );
    await expect(restrictLogits(logits, { allowed: t.tensor(z, [B, T, n]) }, options)).rejects.toThrow(
      /allowed: expected bool/,
    );
  });
});

describe("errors", () => {
  it("names what is wrong", async () => {
    const z = t.tensor([0, 1, 2], [1, 3]);
    const policy = new RoutingPolicy(z, 1, on());
    await expect(policy.logProb(t.tensor([1, 1, 0], [1, 3], "bool"))).rejects.toThrow(
      /activates 2 specialists, the cap is 1/,
    );
    await expect(policy.logProb(t.tensor([1, 1], [1, 2], "bool"))).rejects.toMatchObject({
      code: "ERR_SHAPE",
    });
    await expect(policy.logProb(t.tensor([1, 0, 0], [1, 3]))).rejects.toMatchObject({ code: "ERR_DTYPE" });
    const nan = new RoutingPolicy(t.tensor([0, Number.NaN], [1, 2]), 1, on());
    await expect(nan.mode()).rejects.toMatchObject({ code: "ERR_NON_FINITE" });
    expect(() => new RoutingPolicy(z, -1, on())).toThrow(/cap/);
    await expect(weightedSum(z, t.tensor([1], [1]), on())).rejects.toThrow(/coefficients/);
  });
});
