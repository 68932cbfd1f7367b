import { describe, expect, it } from "vitest";
import type { Dtype } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { k25ClipLoss, ppoClipLoss, type TokenClipLossOptions, tokenClipLoss } from "../../lib/rl/loss.js";
import { numbers, useLane } from "./nativeSupport.js";
import { expectClose, randomOf, testSeed, vector } from "./support.js";

const t = useLane();

type Grid = (number | "nan")[][];
interface ClipVector {
  inputs: { logp: Grid; logp_old: Grid; adv: Grid; mask: Grid; w?: Grid; ref?: Grid };
  params: {
    kind: "ppo" | "k25";
    eps_lo?: number;
    eps_hi?: number;
    c?: number;
    kl_coef?: number;
    alpha?: number;
    beta?: number;
    tau?: number;
    mask_pen?: boolean;
    mode?: TokenClipLossOptions["aggregation"];
    norm?: number | null;
  };
  expected: {
    loss: number;
    grad_logp: number[][];
    stats: Record<
      "n_valid" | "clip_low" | "clip_high" | "dual_clipped" | "approx_kl_k1" | "approx_kl_k3",
      number
    >;
  };
}

const flat = (grid: Grid) => grid.flat().map((x) => (x === "nan" ? Number.NaN : x));

interface Values {
  logp: number[];
  logpOld: number[];
  advantages: number[];
  mask?: number[];
  weights?: number[];
  correction?: number[];
  logpRef?: number[];
}

/** Loss, gradient and statistics of plain values of a shape. */
async function evaluate(
  values: Values,
  shape: number[],
  options: TokenClipLossOptions,
  dtype: Dtype = "f64",
) {
  const logp = t.leaf(values.logp, shape, dtype);
  const optional = (x: number[] | undefined, type = dtype) => x && t.tensor(x, shape, type);
  const { loss, stats } = await tokenClipLoss(
    {
      logp,
      logpOld: t.tensor(values.logpOld, shape, dtype),
      advantages: t.tensor(values.advantages, shape, dtype),
      mask: optional(values.mask, "bool"),
      weights: optional(values.weights),
      correction: optional(values.correction),
      logpRef: optional(values.logpRef),
    },
    options,
    { lane: t.lane },
  );
  t.keep(loss);
  return { loss: loss.item(), grad: await t.gradient(logp, loss), stats };
}

/** Values away from the corners of every window, where a derivative exists. */
function smoothValues(random: () => number, count: number, bounds: number[]): Values {
  const draw = () => Array.from({ length: count }, () => 2 * random() - 1);
  const logpOld = draw().map((x) => x - 2);
  const logRatio = draw().map((x) => {
    let l = x;
    while (bounds.some((b) => Math.abs(l - b) < 1e-3)) l += 2e-3;
    return l;
  });
  return {
    logp: logpOld.map((x, i) => x + logRatio[i]!),
    logpOld,
    advantages: draw(),
    mask: draw().map((x) => (x > -0.6 ? 1 : 0)),
    weights: draw().map((x) => x + 1.5),
    correction: draw().map((x) => x + 1.2),
    logpRef: draw().map((x) => x - 2),
  };
}

describe("golden values", () => {
  const names = [
    "V1_ppo_basic",
    "V2_ppo_full",
    "V3_k25",
    "V3b_k25_masked_penalty",
    "V4_agg_token-mean",
    "V4_agg_seq-mean-token-mean",
    "V4_agg_seq-mean-token-sum",
    "V4_agg_seq-mean-token-sum-norm",
    "V4_agg_all_masked",
  ];
  it.each(names.flatMap((name) => (["f64", "f32"] as const).map((dtype) => ({ name, dtype }))))(
    "$name in $dtype",
    async ({ name, dtype }) => {
      const { inputs, params, expected } = vector<ClipVector>(name);
      const { loss, grad, stats } = await evaluate(
        {
          logp: flat(inputs.logp),
          logpOld: flat(inputs.logp_old),
          advantages: flat(inputs.adv),
          mask: flat(inputs.mask),
          weights: inputs.w && flat(inputs.w),
          logpRef: inputs.ref && flat(inputs.ref),
        },
        [inputs.logp.length, inputs.logp[0]!.length],
        {
          kind: params.kind,
          epsLow: params.eps_lo,
          epsHigh: params.eps_hi,
          dualClip: params.c,
          klCoef: params.kl_coef,
          logAlpha: params.alpha,
          logBeta: params.beta,
          tau: params.tau,
          maskPenalty: params.mask_pen,
          aggregation: params.mode,
          norm: params.norm ?? undefined,
        },
        dtype,
      );
      // In f32: 1e-6 absolute or 1e-5 relative, beside the rounding of the vectors to 6 digits.
      const tolerance = (x: number) => 0.51e-6 + (dtype === "f32" ? Math.max(1e-6, 1e-5 * Math.abs(x)) : 0);
      expectClose([loss], [expected.loss], tolerance(expected.loss));
      expected.grad_logp.flat().forEach((g, i) => {
        expectClose([grad[i]!], [g], tolerance(g));
      });
      expect(stats).toMatchObject({
        nValid: expected.stats.n_valid,
        clipLow: expected.stats.clip_low,
        clipHigh: expected.stats.clip_high,
        dual: expected.stats.dual_clipped,
      });
      const kl = [expected.stats.approx_kl_k1, expected.stats.approx_kl_k3];
      expectClose([stats.kl1, stats.kl3], kl, tolerance(kl[1]!));
    },
  );
});

describe("gradient against central differences in f64", () => {
  const cases: { name: string; options: TokenClipLossOptions; bounds: number[] }[] = [
    { name: "ppo", options: { epsLow: 0.2, epsHigh: 0.3 }, bounds: [Math.log(0.8), Math.log(1.3)] },
    {
      name: "ppo with dual clip and k3",
      options: { epsLow: 0.2, epsHigh: 0.2, dualClip: 1.5, klCoef: 0.3 },
      bounds: [Math.log(0.8), Math.log(1.2), Math.log(1.5)],
    },
    {
      name: "k25 with k2, seq-mean-token-mean",
      options: { kind: "k25", klCoef: 0.2, klForm: "k2", aggregation: "seq-mean-token-mean" },
      bounds: [-0.25, 0.25],
    },
    {
      name: "k25 with k1, seq-mean-token-sum",
      options: { kind: "k25", tau: 0.4, klCoef: 0.2, klForm: "k1", aggregation: "seq-mean-token-sum" },
      bounds: [-0.25, 0.25],
    },
  ];
  it.each(cases)("$name", async ({ name, options, bounds }) => {
    const shape = [3, 5];
    const values = smoothValues(randomOf(testSeed(name)), 15, bounds);
    const { grad } = await evaluate(values, shape, options);
    const h = 1e-6;
    for (let i = 0; i < 15; i++) {
      const at = async (delta: number) => {
        const logp = values.logp.map((x, j) => (i === j ? x + delta : x));
        return (await evaluate({ ...values, logp }, shape, options)).loss;
      };
      expectClose([grad[i]!], [((await at(h)) - (await at(-h))) / (2 * h)], 1e-7);
    }
  });
});

describe("laws", () => {
  it("outside its window a token has no gradient", async () => {
    const low = Math.log(0.8) - 0.01;
    const high = Math.log(1.2) + 0.01;
    const logRatio = [high, low, high, low, 0.9, 25, -25, 0];
    const advantages = [1, -1, -1, 1, -1, -1, 1, 1];
    const values = { logp: logRatio, logpOld: Array(8).fill(0), advantages };
    const ppo = await evaluate(values, [8], { dualClip: 2 });
    expect(ppo.grad.map((g) => g !== 0)).toEqual([false, false, true, true, false, false, false, true]);
    const k25 = await evaluate(values, [8], { kind: "k25", logAlpha: -0.1, logBeta: 0.1, maskPenalty: true });
    expect(k25.grad.map((g) => g !== 0)).toEqual([false, false, false, false, false, false, false, true]);
  });

  it("both forms are REINFORCE at the old policy", async () => {
    const random = randomOf(3);
    const logp = Array.from({ length: 6 }, () => -random());
    const advantages = Array.from({ length: 6 }, () => random() - 0.5);
    for (const kind of ["ppo", "k25"] as const) {
      const { grad } = await evaluate({ logp, logpOld: logp, advantages }, [6], { kind });
      expectClose(
        grad,
        advantages.map((a) => -a / 6),
        1e-15,
      );
    }
  });

  it("what masked slots hold changes no bit, NaN included", async () => {
    const values = smoothValues(randomOf(5), 12, []);
    const poisoned = Object.fromEntries(
      Object.entries(values).map(([key, list]) => [
        key,
        key === "mask" ? list : (list as number[]).map((x, i) => (values.mask![i] ? x : Number.NaN)),
      ]),
    ) as unknown as Values;
    const options = { klCoef: 0.1, dualClip: 3 };
    expect(await evaluate(poisoned, [3, 4], options)).toEqual(await evaluate(values, [3, 4], options));
  });

  it("padding with masked tokens changes nothing", async () => {
    const values = smoothValues(randomOf(6), 8, []);
    const widen = (x: number[] | undefined) => x && [...x.slice(0, 4), 9, 9, ...x.slice(4), 9, 9];
    const wide = Object.fromEntries(
      Object.entries(values).map(([key, list]) => [key, widen(list as number[])]),
    ) as unknown as Values;
    wide.mask = wide.mask!.map((m) => (m === 9 ? 0 : m));
    for (const aggregation of ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"] as const) {
      const narrow = await evaluate(values, [2, 4], { aggregation });
      const padded = await evaluate(wide, [2, 6], { aggregation });
      // The order of the sums follows the shape, so that the last bits may differ.
      expectClose([padded.loss], [narrow.loss], 1e-15);
      const kept = padded.grad.filter((_, i) => i % 6 < 4);
      expectClose(kept, narrow.grad, 1e-15);
    }
  });

  it("micro-batches with the whole batch's denominator sum to its loss and gradient", async () => {
    const values = smoothValues(randomOf(7), 12, []);
    const whole = await evaluate(values, [3, 4], {});
    const denominator = values.weights!.reduce((sum, w, i) => sum + w * values.mask![i]!, 0);
    let loss = 0;
    const grad: number[] = [];
    for (let row = 0; row < 3; row++) {
      const part = Object.fromEntries(
        Object.entries(values).map(([key, list]) => [key, (list as number[]).slice(row * 4, row * 4 + 4)]),
      ) as unknown as Values;
      const result = await evaluate(part, [1, 4], { denominator });
      loss += result.loss;
      grad.push(...result.grad);
    }
    expect(loss).toBeCloseTo(whole.loss, 12);
    expectClose(grad, whole.grad, 1e-14);
  });

  it("the behaviour correction scales the advantage and leaves denominator and KL alone", async () => {
    const values = smoothValues(randomOf(8), 6, []);
    const { correction, ...plain } = values;
    const scaled = values.advantages.map((a, i) => a * correction![i]!);
    const options = { klCoef: 0.2 };
    expect(await evaluate(values, [6], options)).toEqual(
      await evaluate({ ...plain, advantages: scaled }, [6], options),
    );
  });

  it("reports the effective sample size, the sampled entropy and the log-ratio before the clamp", async () => {
    const { stats } = await evaluate(
      { logp: [-1, -2, -30], logpOld: [-1, -2.5, -0.5], advantages: [1, 1, 1], mask: [1, 1, 1] },
      [3],
      {},
    );
    const ratios = [1, Math.exp(0.5), Math.exp(-20)];
    const sum = ratios.reduce((a, b) => a + b);
    expect(stats.ess).toBeCloseTo(sum ** 2 / ratios.reduce((a, b) => a + b * b, 0), 12);
    expect(stats.entropy).toBeCloseTo(11, 12);
    expect(stats.maxAbsLogRatio).toBeCloseTo(29.5, 12);
  });

  it("bf16 inputs are computed in f32", async () => {
    const { Tensor } = native();
    const rounded = (x: number[]) => {
      const narrow = t.keep(Tensor.fromData(x, [x.length], "bf16"));
      return numbers(t.keep(narrow.to("f32")));
    };
    const logp = rounded([-0.31, -1.27, -0.98]);
    const logpOld = rounded([-0.5, -1.1, -1.4]);
    const advantages = rounded([0.7, -0.6, 0.25]);
    const narrow = await evaluate({ logp, logpOld, advantages }, [3], {}, "f32");
    const leaf = t.leaf(logp, [3], "bf16");
    const { loss } = await ppoClipLoss(
      {
        logp: leaf,
        logpOld: t.tensor(logpOld, [3], "bf16"),
        advantages: t.tensor(advantages, [3], "f32"),
      },
      {},
      { lane: t.lane },
    );
    expect(t.keep(loss).dtype).toBe("f32");
    expect(loss.item()).toBe(narrow.loss);
    await native().backward(t.lane, [loss], [1]);
    const grad = t.keep(leaf.grad()!);
    expect(grad.dtype).toBe("bf16");
    const wide = numbers(t.keep(grad.to("f32")));
    wide.forEach((g, i) => {
      expect(Math.abs(g - narrow.grad[i]!)).toBeLessThanOrEqual(2 ** -8 * Math.abs(narrow.grad[i]!));
    });
  });

  it("gives the same bits again, with any number of threads", async () => {
    const count = 20_000;
    const random = randomOf(9);
    const draw = () => Float32Array.from({ length: count }, () => random() - 0.5);
    const [logp, logpOld, advantages] = [draw(), draw(), draw()];
    const results: { loss: number; grad: number[] }[] = [];
    for (const threads of [1, 1, 2, 3]) {
      const lane = new (native().Lane)({ name: `threads ${threads}`, threads });
      const leaf = t.leaf(logp, [count], "f32");
      const { loss } = await ppoClipLoss(
        {
          logp: leaf,
          logpOld: t.tensor(logpOld, [count], "f32"),
          advantages: t.tensor(advantages, [count], "f32"),
        },
        {},
        { lane },
      );
      results.push({ loss: t.keep(loss).item(), grad: await t.gradient(leaf, loss) });
      await lane.close();
    }
    for (const result of results) expect(result).toEqual(results[0]);
  });
});

describe("errors", () => {
  const good = { logp: [0, 0], logpOld: [0, 0], advantages: [1, 1] };

  it("names an unknown option with the nearest known one, and an impossible value", async () => {
    const input = {
      logp: t.tensor([0], [1]),
      logpOld: t.tensor([0], [1]),
      advantages: t.tensor([0], [1]),
    };
    const on = { lane: t.lane };
    const misspelt = { epsHihg: 0.3 } as TokenClipLossOptions;
    await expect(tokenClipLoss(input, misspelt, on)).rejects.toThrow(/'epsHihg'; did you mean 'epsHigh'/);
    await expect(ppoClipLoss(input, { dualClip: 0.5 }, on)).rejects.toMatchObject({ code: "ERR_CONFIG" });
    await expect(k25ClipLoss(input, { logBeta: -1 }, on)).rejects.toThrow(/logBeta/);
  });

  it("names the first valid token that is not finite", async () => {
    await expect(evaluate({ ...good, logp: [0, Number.NaN] }, [1, 2], {})).rejects.toMatchObject({
      code: "ERR_NON_FINITE",
      message: expect.stringContaining("[0, 1]"),
    });
  });

  it("names every value of such a token, and says where only the sum is not finite", async () => {
    const token = { logp: [0], logpOld: [0], advantages: [1], correction: [Number.NaN] };
    await expect(evaluate(token, [1, 1], {})).rejects.toThrow(
      /logpOld 0, advantage 1, weight 1, correction nan/,
    );
    const large = Array<number>(4096).fill(-1e38);
    const zeros = large.map(() => 0);
    const sums = { logp: zeros, logpOld: zeros, advantages: large };
    await expect(evaluate(sums, [1, 4096], {}, "f32")).rejects.toMatchObject({
      code: "ERR_NON_FINITE",
      message: expect.stringContaining("sum of the losses is not finite"),
    });
  });

  it("names tensors of another shape or dtype", async () => {
    const input = {
      logp: t.tensor([0, 0], [2]),
      logpOld: t.tensor([0, 0], [1, 2]),
      advantages: t.tensor([1, 1], [2]),
    };
    await expect(ppoClipLoss(input, {}, { lane: t.lane })).rejects.toThrow(/logpOld: expected the shape/);
    const typed = { ...input, logpOld: t.tensor([0, 0], [2]), mask: t.tensor([1, 1], [2], "u8") };
    await expect(ppoClipLoss(typed, {}, { lane: t.lane })).rejects.toMatchObject({ code: "ERR_DTYPE" });
  });
});
