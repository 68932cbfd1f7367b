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

describe("bad input", () => {
  it("shapes that do not fit", () =>
    tidy(() => {
      const a = Tensor.zeros([2, 3]);
      expectAegirError(() => a.add(Tensor.zeros([4])), "ERR_SHAPE", /other: shapes \[2, 3\] and \[4\]/);
      expectAegirError(() => a.matmul(Tensor.zeros([2, 3])), "ERR_SHAPE", /other: .* cannot be multiplied/);
      expectAegirError(() => a.reshape([5]), "ERR_SHAPE", /shape: \[5\] does not hold the 6 elements/);
      expectAegirError(() => a.sum(2), "ERR_SHAPE", /dim: 2 is outside the 2 dimensions/);
      expectAegirError(() => a.item(), "ERR_SHAPE", /item: expected one element, got shape \[2, 3\]/);
      expectAegirError(
        () => Tensor.from([1, 2, 3], { shape: [2] }),
        "ERR_SHAPE",
        /data: shape \[2\] takes 2 elements, got 3/,
      );
      expectAegirError(
        () => Tensor.from([[1, 2], [3]]),
        "ERR_SHAPE",
        /data\[1\]: expected 2 elements, got an array of 1/,
      );
      expectAegirError(() => Tensor.from([1, [2]]), "ERR_SHAPE", /data\[1\]: expected a number/);
      expectAegirError(() => Tensor.cat([a, Tensor.zeros([2])]), "ERR_SHAPE", /./);
      expectAegirError(() => Tensor.zeros([0]).max(), "ERR_SHAPE", /no elements/);
      expectAegirError(
        () => a.maxAbsDiff(Tensor.zeros([6])),
        "ERR_SHAPE",
        /other: expected shape \[2, 3\], got \[6\]/,
      );
      expectAegirError(() => Tensor.zeros([2 ** 40, 2 ** 40]), "ERR_SHAPE", /too many elements/);
    }));

  it("nesting and dimensions without end", () =>
    tidy(() => {
      const within: unknown[] = [];
      within.push(within);
      expectAegirError(() => Tensor.from(within as number[]), "ERR_SHAPE", /data: nested deeper than 64/);
      expect(Tensor.zeros(new Array(64).fill(1)).numel).toBe(1);
      expectAegirError(
        () => Tensor.zeros(new Array(65).fill(1)),
        "ERR_SHAPE",
        /shape: 65 dimensions, expected at most 64/,
      );
    }));

  it("values that a dtype does not hold, in full as in from", () => {
    expectAegirError(() => Tensor.full([1], 1.5, { dtype: "i64" }), "ERR_DTYPE", /value: 1.5 is no i64/);
    expectAegirError(() => Tensor.full([1], Number.NaN, { dtype: "i64" }), "ERR_DTYPE", /value: nan/);
    expectAegirError(() => Tensor.full([1], -1, { dtype: "u8" }), "ERR_DTYPE", /value: -1 is no u8/);
    expectAegirError(() => Tensor.full([1], 5, { dtype: "bool" }), "ERR_DTYPE", /value: 5 is no bool/);
  });

  it("generators that are none, and states that no generator gave", () => {
    const generator = new Generator(1);
    const expected = /generator: expected a Generator, got undefined/;
    expectAegirError(() => Tensor.randn([1], undefined as never), "ERR_ARGUMENT", expected);
    const state = generator.getState().fill(255);
    expectAegirError(() => generator.setState(state), "ERR_ARGUMENT", /state: not the bytes/);
    generator.dispose();
  });

  it("dtypes that do not fit", () =>
    tidy(() => {
      expectAegirError(
        () => Tensor.from(new Float32Array(1), { dtype: "i64" }),
        "ERR_DTYPE",
        /data: floating-point/,
      );
      expectAegirError(
        () => Tensor.from([1.5], { dtype: "i64" }),
        "ERR_DTYPE",
        /data\[0\]: 1.5 is no i64 value/,
      );
      expectAegirError(
        () => Tensor.from([256], { dtype: "u8" }),
        "ERR_DTYPE",
        /data\[0\]: 256 is no u8 value/,
      );
      expectAegirError(
        () => Tensor.from(new Uint16Array(1), { dtype: "f32" }),
        "ERR_DTYPE",
        /bf16 bit patterns/,
      );
      expectAegirError(() => Tensor.from([1, 2], { dtype: "i64" }).mean(), "ERR_DTYPE", /./);
      expectAegirError(() => Tensor.from([1], { dtype: "i64" }).softmax(0), "ERR_DTYPE", /./);
      const flags = Tensor.from([true]);
      expectAegirError(() => flags.sub(flags), "ERR_DTYPE", /./);
      expectAegirError(
        () => Tensor.zeros([2]).indexSelect(0, Tensor.zeros([1])),
        "ERR_DTYPE",
        /index: expected i64, got f32/,
      );
      expectAegirError(
        () => {
          flags.requiresGrad = true;
        },
        "ERR_DTYPE",
        /requiresGrad: a tensor of dtype bool/,
      );
    }));

  it("values that are something else", () =>
    tidy(() => {
      const a = Tensor.zeros([3]);
      const untyped = a as unknown as { add(other: unknown): void; unary(op: string): void };
      expectAegirError(() => untyped.add("x"), "ERR_ARGUMENT", /other: expected a Tensor, got 'x'/);
      expectAegirError(() => untyped.add(null), "ERR_ARGUMENT", /other: expected a Tensor, got null/);
      const forged = Object.create(Object.getPrototypeOf(a));
      expectAegirError(() => untyped.add(forged), "ERR_ARGUMENT", /other: expected a Tensor/);
      expectAegirError(() => untyped.unary("cosh"), "ERR_ARGUMENT", /op: expected one of .*got 'cosh'/);
      expectAegirError(() => a.slice(0, 2, 1), "ERR_ARGUMENT", /end: expected an integer from 2 to 3, got 1/);
      expectAegirError(
        () => a.indexSelect(0, Tensor.from([3], { dtype: "i64" })),
        "ERR_ARGUMENT",
        /index: expected values from 0 to 2/,
      );
      expectAegirError(
        () => Tensor.from(["a"] as unknown as number[]),
        "ERR_ARGUMENT",
        /data\[0\]: expected a number/,
      );
      expectAegirError(
        () => Tensor.zeros([1], { dtyp: "f32" } as object),
        "ERR_CONFIG",
        /did you mean 'dtype'/,
      );
      expectAegirError(() => Tensor.zeros([-1]), "ERR_ARGUMENT", /shape\[0\]: expected an integer from 0/);
    }));

  it("a disposed tensor, as receiver and as argument; disposing twice is fine", () => {
    const a = Tensor.zeros([2]);
    const b = Tensor.zeros([2]);
    b.dispose();
    b.dispose();
    expect(b.disposed).toBe(true);
    expectAegirError(() => b.shape, "ERR_DISPOSED", /disposed/);
    expectAegirError(() => b.data(), "ERR_DISPOSED", /disposed/);
    expectAegirError(() => a.add(b), "ERR_DISPOSED", /other: this Tensor has been disposed/);
    a.dispose();
  });

  it("more memory than there is", () => {
    expectAegirError(() => Tensor.zeros([2 ** 45]), "ERR_OUT_OF_MEMORY", /cannot allocate \d+ bytes/);
  });

  it("devices that are not there", () => {
    expectAegirError(
      () => Tensor.zeros([1], { device: "cuda" }),
      "ERR_DEVICE",
      /"cuda" is not usable here: ./,
    );
    expectAegirError(() => Tensor.zeros([1], { device: "cuda:1" }), "ERR_DEVICE", /cuda:1/);
    expectAegirError(() => Tensor.zeros([1], { device: "tpu" as "cpu" }), "ERR_DEVICE", /expected "cpu"/);
  });
});
