import { describe, expect, it } from "vitest";
import {
  backward,
  keep,
  Lane,
  memory,
  Tensor,
  type Tensor as TensorType,
  tidy,
  untracked,
} from "../../lib/tensor/index.js";

const live = () => memory().liveTensors;

describe("tidy", () => {
  it("frees what was made inside and passes on what is returned", () => {
    const before = live();
    const { sum, parts } = tidy(() => {
      const a = Tensor.ones([3]);
      const b = a.mul(2);
      return { sum: a.add(b), parts: [b] };
    });
    expect(live()).toBe(before + 2);
    expect([sum.toArray(), parts[0]!.toArray()]).toEqual([
      [3, 3, 3],
      [2, 2, 2],
    ]);
    sum.dispose();
    parts[0]!.dispose();
    expect(live()).toBe(before);
  });

  it("nests: a returned tensor belongs to the outer scope", () => {
    const before = live();
    let inner: TensorType | undefined;
    tidy(() => {
      inner = tidy(() => Tensor.ones([2]).add(1));
      expect(inner.toArray()).toEqual([2, 2]);
    });
    expect(inner!.disposed).toBe(true);
    expect(live()).toBe(before);
  });

  it("frees everything where the function throws or rejects", async () => {
    const before = live();
    const boom = new Error("boom");
    expect(() =>
      tidy(() => {
        Tensor.ones([2]);
        throw boom;
      }),
    ).toThrow(boom);
    await expect(
      tidy(async () => {
        Tensor.ones([2]);
        await null;
        Tensor.ones([2]);
        throw boom;
      }),
    ).rejects.toBe(boom);
    expect(live()).toBe(before);
  });

  it("keep and untracked take tensors out", () => {
    const before = live();
    let held: TensorType[] = [];
    tidy(() => {
      held = [keep(Tensor.ones([1])), untracked(() => Tensor.ones([1]))];
    });
    expect(held.map((tensor) => tensor.disposed)).toEqual([false, false]);
    for (const tensor of held) tensor.dispose();
    expect(live()).toBe(before);
  });

  it("leaves tensors from before alone, and disposing inside is fine", () => {
    const outer = Tensor.ones([1]);
    tidy(() => {
      outer.add(1).dispose();
    });
    expect(outer.disposed).toBe(false);
    outer.dispose();
  });

  it("interleaved async scopes keep their own tensors apart", async () => {
    const before = live();
    const turns: string[] = [];
    const run = async (name: string) => {
      for (let i = 0; i < 3; i++) {
        Tensor.ones([1]);
        turns.push(name);
        await new Promise(setImmediate);
      }
      return Tensor.full([1], name === "a" ? 1 : 2);
    };
    const [a, b] = await Promise.all([tidy(() => run("a")), tidy(() => run("b"))]);
    expect(turns.join("")).toBe("ababab");
    expect(live()).toBe(before + 2);
    expect([a.item(), b.item()]).toEqual([1, 2]);
    a.dispose();
    b.dispose();
  });

  it("works across jobs on a lane", async () => {
    const before = live();
    await using lane = new Lane();
    const gradient = await tidy(async () => {
      const x = Tensor.from([1, 2, 3]);
      x.requiresGrad = true;
      await backward([x.mul(x).sum()], undefined, { lane });
      return x.grad()!.toArray();
    });
    expect(gradient).toEqual([2, 4, 6]);
    expect(live()).toBe(before);
  });
});

it("a using block disposes its tensor", () => {
  const before = live();
  {
    using tensor = Tensor.ones([4]);
    expect([tensor.disposed, live()]).toEqual([false, before + 1]);
  }
  expect(live()).toBe(before);
});
