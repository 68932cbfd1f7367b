import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Generator, memory, Tensor, tidy } from "../../lib/tensor/index.js";
import { expectAegirError } from "./support.js";

let liveBefore = 0;
beforeEach(() => {
  liveBefore = memory().liveTensors;
});
afterEach(() => {
  expect(memory().liveTensors).toBe(liveBefore);
});

describe("dtypes", () => {
  it("f32, f64, u8 and bool come back as they went in", () =>
    tidy(() => {
      const f32 = new Float32Array([1.5, -0, Number.NaN, Number.POSITIVE_INFINITY, 3e-45, 7]);
      expect(Tensor.from(f32, { shape: [2, 3] }).data()).toEqual(f32);
      const f64 = new Float64Array([Math.PI, -Number.MIN_VALUE]);
      expect(Tensor.from(f64).data()).toEqual(f64);
      const u8 = new Uint8Array([0, 1, 255]);
      expect(Tensor.from(u8).data()).toEqual(u8);
      expect(
        Tensor.from(
          u8.map((v) => v % 2),
          { dtype: "bool" },
        ).data(),
      ).toEqual(new Uint8Array([0, 1, 1]));
    }));

  it("i64 keeps 64 bits from BigInt64Array and takes Int32Array and whole numbers", () =>
    tidy(() => {
      const big = new BigInt64Array([2n ** 62n, -1n]);
      expect(Tensor.from(big).data()).toEqual(big);
      const ints = Tensor.from(new Int32Array([-5, 6]));
      expect([ints.dtype, ints.data()]).toEqual(["i64", new BigInt64Array([-5n, 6n])]);
      expect(Tensor.from([7, 8], { dtype: "i64" }).toArray()).toEqual([7, 8]);
    }));

  it("views of shared memory are copied as others", () =>
    tidy(() => {
      const shared = new Float32Array(new SharedArrayBuffer(16), 4, 2);
      shared.set([3, 4]);
      expect(Tensor.from(shared).toArray()).toEqual([3, 4]);
    }));

  it("bf16 comes out as bit patterns and takes them back", () =>
    tidy(() => {
      const bits = new Uint16Array([0x3f80, 0xc000, 0x7fc1]);
      const tensor = Tensor.from(bits);
      expect(tensor.dtype).toBe("bf16");
      expect(tensor.data()).toEqual(bits);
      expect(tensor.to("f32").slice(0, 0, 2).toArray()).toEqual([1, -2]);
      expect(Tensor.from([1.00390625], { dtype: "bf16" }).toArray()).toEqual([1]);
    }));

  it("knows shape, element count, bytes and device", () =>
    tidy(() => {
      const tensor = Tensor.zeros([2, 0, 3], { dtype: "f64" });
      expect([tensor.shape, tensor.numel, tensor.bytes, tensor.device]).toEqual([[2, 0, 3], 0, 0, "cpu"]);
      expect(Tensor.ones([2, 3], { dtype: "bf16" }).bytes).toBe(12);
      expect(tensor instanceof Tensor).toBe(true);
      expect({} instanceof Tensor).toBe(false);
    }));

  it("reads nested arrays and gives them back", () =>
    tidy(() => {
      const nested = [
        [
          [1, 2],
          [3, 4],
          [5, 6],
        ],
        [
          [7, 8],
          [9, 10],
          [11, 12],
        ],
      ];
      expect(Tensor.from(nested).shape).toEqual([2, 3, 2]);
      expect(Tensor.from(nested).toArray()).toEqual(nested);
      const flags = Tensor.from([[true, false]]);
      expect([flags.dtype, flags.toArray()]).toEqual(["bool", [[true, false]]]);
      expect(Tensor.from(4.5).shape).toEqual([]);
      expect(Tensor.from(4.5).toArray()).toBe(4.5);
      expect(Tensor.from([]).shape).toEqual([0]);
    }));

  it("copies: later writes to the array do not reach the tensor, nor the other way", () =>
    tidy(() => {
      const values = new Float32Array([1, 2]);
      const tensor = Tensor.from(values);
      values[0] = 9;
      (tensor.data() as Float32Array)[1] = 9;
      expect(tensor.toArray()).toEqual([1, 2]);
    }));

  it("reads a typed array that starts inside its buffer", () =>
    tidy(() => {
      const window = new Float32Array(new Float32Array([0, 1, 2, 3]).buffer, 4, 2);
      expect(Tensor.from(window).toArray()).toEqual([1, 2]);
    }));
});

describe("operations", () => {
  it("add, sub, mul, div broadcast tensors and take numbers", () =>
    tidy(() => {
      const a = Tensor.from([
        [1, 2],
        [3, 4],
      ]);
      const row = Tensor.from([10, 20]);
      expect(a.add(row).toArray()).toEqual([
        [11, 22],
        [13, 24],
      ]);
      expect(a.sub(row).toArray()).toEqual([
        [-9, -18],
        [-7, -16],
      ]);
      expect(a.mul(row).toArray()).toEqual([
        [10, 40],
        [30, 80],
      ]);
      expect(row.div(a).toArray()).toEqual([[10, 10], [10 / 3, 5].map(Math.fround)]);
      expect(a.add(0.5).sub(0.5).mul(2).div(2).equal(a)).toBe(true);
    }));

  it("whole numbers keep an i64 tensor i64, fractions do not", () =>
    tidy(() => {
      const ids = Tensor.from([1, 2], { dtype: "i64" });
      expect(ids.add(1).dtype).toBe("i64");
      expect(ids.mul(3).toArray()).toEqual([3, 6]);
      expect(ids.mul(0.5).toArray()).toEqual([0.5, 1]);
    }));

  it("matmul multiplies matrices, batches and vectors", () =>
    tidy(() => {
      const a = Tensor.from([
        [1, 2],
        [3, 4],
      ]);
      expect(a.matmul(a).toArray()).toEqual([
        [7, 10],
        [15, 22],
      ]);
      expect(a.matmul(Tensor.from([1, 1])).toArray()).toEqual([3, 7]);
      expect(Tensor.stack([a, a]).matmul(a).shape).toEqual([2, 2, 2]);
    }));

  it.each([
    ["neg", (x: number) => -x],
    ["exp", Math.exp],
    ["log", Math.log],
    ["sqrt", Math.sqrt],
    ["abs", Math.abs],
    ["sigmoid", (x: number) => 1 / (1 + Math.exp(-x))],
    ["tanh", Math.tanh],
    ["relu", (x: number) => Math.max(0, x)],
  ] as const)("%s", (op, expected) =>
    tidy(() => {
      const values = [0.25, 1, 2.5, 17];
      const tensor = Tensor.from(values, { dtype: "f64" });
      const wanted = Tensor.from(values.map(expected), { dtype: "f64" });
      expect(tensor[op]().maxAbsDiff(wanted)).toBeLessThan(1e-7);
      expect(tensor.unary(op).equal(tensor[op]())).toBe(true);
    }),
  );

  it("isfinite tells NaN and infinities", () =>
    tidy(() => {
      const tensor = Tensor.from([1, Number.NaN, Number.NEGATIVE_INFINITY]);
      expect(tensor.isfinite().toArray()).toEqual([true, false, false]);
    }));

  it("reductions over everything and along a dimension", () =>
    tidy(() => {
      const a = Tensor.from([
        [1, 5, 3],
        [4, 2, 6],
      ]);
      expect([a.sum().item(), a.mean().item(), a.max().item(), a.min().item()]).toEqual([21, 3.5, 6, 1]);
      expect(a.argmax().item()).toBe(5);
      expect(a.sum(0).toArray()).toEqual([5, 7, 9]);
      expect(a.mean(-1).toArray()).toEqual([3, 4]);
      expect(a.max(1, true).toArray()).toEqual([[5], [6]]);
      expect(a.min(0).toArray()).toEqual([1, 2, 3]);
      expect(a.argmax(1).toArray()).toEqual([1, 2]);
      expect(a.reduce("sum", 1).toArray()).toEqual([9, 12]);
      const flags = Tensor.from([
        [true, false],
        [true, true],
      ]);
      expect([flags.all().item(), flags.any().item()]).toEqual([0, 1]);
      expect(flags.all(1).toArray()).toEqual([false, true]);
      expect(Tensor.zeros([0]).sum().item()).toBe(0);
    }));

  it("softmax and logSoftmax sum to one, also far from zero", () =>
    tidy(() => {
      const a = Tensor.from(
        [
          [1000, 1001],
          [-5, 5],
        ],
        { dtype: "f64" },
      );
      const ones = Tensor.ones([2], { dtype: "f64" });
      expect(a.softmax(1).sum(1).maxAbsDiff(ones)).toBeLessThan(1e-12);
      expect(a.logSoftmax(1).exp().maxAbsDiff(a.softmax(1))).toBeLessThan(1e-12);
      const odds = (a.softmax(-1).toArray() as number[][])[0]!;
      expect(odds[1]! / odds[0]!).toBeCloseTo(Math.E, 10);
    }));

  it("reshape, transpose, slice, indexSelect, cat and stack move values", () =>
    tidy(() => {
      const a = Tensor.from([
        [1, 2, 3],
        [4, 5, 6],
      ]);
      expect(a.reshape([3, 2]).toArray()).toEqual([
        [1, 2],
        [3, 4],
        [5, 6],
      ]);
      expect(a.transpose(0, 1).toArray()).toEqual([
        [1, 4],
        [2, 5],
        [3, 6],
      ]);
      expect(a.slice(1, 1, 3).toArray()).toEqual([
        [2, 3],
        [5, 6],
      ]);
      expect(a.slice(0, 1, 1).shape).toEqual([0, 3]);
      const rows = Tensor.from([1, 0, 1], { dtype: "i64" });
      expect(a.indexSelect(0, rows).toArray()).toEqual([
        [4, 5, 6],
        [1, 2, 3],
        [4, 5, 6],
      ]);
      expect(Tensor.cat([a, a], 1).shape).toEqual([2, 6]);
      expect(Tensor.stack([a, a], -1).shape).toEqual([2, 3, 2]);
      expect(a.transpose(0, 1).data()).toEqual(new Float32Array([1, 4, 2, 5, 3, 6]));
    }));

  it("clone is independent, detach and views share storage", () =>
    tidy(() => {
      const a = Tensor.zeros([1024, 256]);
      const { liveBytes } = memory();
      a.detach();
      a.slice(0, 0, 10);
      expect(memory().liveBytes).toBe(liveBytes);
      a.clone();
      expect(memory().liveBytes).toBe(liveBytes + a.bytes);
    }));

  it("equal compares bits, maxAbsDiff values", () =>
    tidy(() => {
      const a = Tensor.from([Number.NaN, 0]);
      expect(a.equal(a.clone())).toBe(true);
      expect(a.equal(Tensor.from([Number.NaN, -0]))).toBe(false);
      expect(a.equal(Tensor.from([Number.NaN, 0], { dtype: "f64" }))).toBe(false);
      expect(a.maxAbsDiff(a)).toBeNaN();
      const infinite = Tensor.from([Number.POSITIVE_INFINITY, 1]);
      expect(infinite.maxAbsDiff(infinite.add(1))).toBe(1);
      expect(Tensor.zeros([0]).maxAbsDiff(Tensor.zeros([0]))).toBe(0);
    }));
});

describe("generators", () => {
  it("equal seeds give equal draws, other seeds others, and a state restores the stream", () =>
    tidy(() => {
      using one = new Generator(7);
      using same = new Generator(7);
      using other = new Generator(8);
      const first = Tensor.randn([5], one);
      expect(first.equal(Tensor.randn([5], same))).toBe(true);
      expect(first.equal(Tensor.randn([5], other))).toBe(false);
      const state = one.getState();
      const next = Tensor.rand([40], one, { dtype: "f64" });
      expect(next.equal(Tensor.rand([40], one, { dtype: "f64" }))).toBe(false);
      one.setState(state);
      expect(next.equal(Tensor.rand([40], one, { dtype: "f64" }))).toBe(true);
      expect(one.seed).toBe(7);
      expect([next.min().item() >= 0, next.max().item() < 1]).toEqual([true, true]);
    }));

  it("refuses seeds and states that are none", () => {
    expectAegirError(() => new Generator(-1), "ERR_ARGUMENT", /seed: expected an integer from 0/);
    expectAegirError(() => new Generator(1.5), "ERR_ARGUMENT", /seed/);
    using generator = new Generator(1);
    expectAegirError(
      () => generator.setState(new Uint8Array(3)),
      "ERR_ARGUMENT",
      /state: expected \d+ bytes.*got 3/,
    );
    generator.dispose();
    expectAegirError(() => Tensor.rand([1], generator), "ERR_DISPOSED", /generator.*disposed/);
  });
});

it("device auto falls back to the CPU with one warning", async () => {
  const warnings: string[] = [];
  const listen = (warning: Error) => {
    if (warning.name === "AegirWarning") warnings.push(warning.message);
  };
  process.on("warning", listen);
  tidy(() => {
    expect(Tensor.zeros([1], { device: "auto" }).device).toBe("cpu");
    Tensor.zeros([1], { device: "auto" });
  });
  await new Promise(setImmediate);
  process.off("warning", listen);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toMatch(/running on the CPU: ./);
});
