import { describe, expect, it } from "vitest";
import { Random } from "../../lib/data/random.js";

describe("Random", () => {
  it("is xoshiro128**: the reference sequence from state 1, 2, 3, 4", () => {
    const random = new Random(0);
    random.setState([1, 2, 3, 4]);
    expect([random.uint32(), random.uint32(), random.uint32(), random.uint32()]).toEqual([
      11520, 0, 5927040, 70819200,
    ]);
  });

  it("goes on from a stored state, and streams of one seed differ", () => {
    const random = new Random(7, "a", 1);
    for (let i = 0; i < 10; i++) random.next();
    const other = new Random(1);
    other.setState(random.getState());
    const draws = (from: Random) => Array.from({ length: 50 }, () => from.next());
    expect(draws(other)).toEqual(draws(random));
    const starts = [new Random(7), new Random(8), new Random(7, "a"), new Random(7, "a", 1), new Random(-7)];
    expect(new Set(starts.map((start) => start.uint32())).size).toBe(starts.length);
  });

  it("is uniform: chi-squared of ten bins, mean and variance of the normal", () => {
    const random = new Random(11);
    const n = 100_000;
    const bins = new Array<number>(10).fill(0);
    let sum = 0;
    let squares = 0;
    for (let i = 0; i < n; i++) {
      bins[random.int(10)]! += 1;
      const normal = random.gaussian();
      sum += normal;
      squares += normal * normal;
    }
    const chi2 = bins.reduce((total, count) => total + (count - n / 10) ** 2 / (n / 10), 0);
    // 99.9 % quantile of chi-squared with nine degrees of freedom.
    expect(chi2).toBeLessThan(27.9);
    expect(Math.abs(sum / n)).toBeLessThan(5 / Math.sqrt(n));
    expect(Math.abs(squares / n - 1)).toBeLessThan(5 * Math.sqrt(2 / n));
  });

  it("shuffles to permutations and samples in order, every item alike", () => {
    const random = new Random(3);
    const items = Array.from({ length: 20 }, (_, i) => i);
    expect([...random.shuffle([...items])].sort((a, b) => a - b)).toEqual(items);
    const times = new Array<number>(20).fill(0);
    for (let i = 0; i < 4000; i++) {
      const sample = random.sample(items, 5);
      expect(sample).toHaveLength(5);
      expect(sample).toEqual([...new Set(sample)].sort((a, b) => a - b));
      for (const item of sample) times[item]! += 1;
    }
    // Expected 1000 each, standard deviation 27.
    for (const count of times) expect(Math.abs(count - 1000)).toBeLessThan(140);
    expect(random.sample(items, 50)).toEqual(items);
  });
});
