/**
 * The pseudo-random generator of the TypeScript side: xoshiro128** (Blackman and Vigna, 2018), seeded through splitmix32.
 * Its whole state is four 32-bit words, so a run that stores them resumes on the same numbers.
 */
export class Random {
  #a = 0;
  #b = 0;
  #c = 0;
  #d = 0;

  /**
   * @param seed any safe integer
   * @param stream names of an independent stream of that seed: `new Random(7, "batches", epoch)`
   */
  constructor(seed: number, ...stream: (string | number)[]) {
    const text = [seed, ...stream].join("\u0000");
    let h = 0x811c9dc5;
    for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
    const word = () => {
      h = (h + 0x9e3779b9) | 0;
      let z = Math.imul(h ^ (h >>> 16), 0x21f0aaad);
      z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
      return (z ^ (z >>> 15)) >>> 0;
    };
    this.setState([word(), word(), word(), word() | 1]);
  }

  /** Uniform over 0 … 2^32 - 1. */
  uint32(): number {
    const scaled = Math.imul(this.#b, 5);
    const result = Math.imul((scaled << 7) | (scaled >>> 25), 9) >>> 0;
    const t = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= t;
    this.#d = (this.#d << 11) | (this.#d >>> 21);
    return result;
  }

  /** Uniform in [0, 1) with 53 bits. */
  next(): number {
    const high = this.uint32() >>> 5;
    return (high * 67108864 + (this.uint32() >>> 6)) / 9007199254740992;
  }

  /** Uniform over the integers 0 … n - 1, without bias. */
  int(n: number): number {
    const limit = 4294967296 - (4294967296 % n);
    let word = this.uint32();
    while (word >= limit) word = this.uint32();
    return word % n;
  }

  /** Uniform over the integers low … high, both included. */
  range(low: number, high: number): number {
    return low + this.int(high - low + 1);
  }

  /** True with probability p. */
  chance(p: number): boolean {
    return this.next() < p;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.int(items.length)]!;
  }

  /** Standard normal (Box-Muller, one value a call so that the state stays four words). */
  gaussian(): number {
    return Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
  }

  /** Shuffles in place (Fisher-Yates) and returns the array. */
  shuffle<T>(items: T[]): T[] {
    for (let i = items.length - 1; i > 0; i--) {
      const j = this.int(i + 1);
      const held = items[i]!;
      items[i] = items[j]!;
      items[j] = held;
    }
    return items;
  }

  /** k distinct items in their original order; all of them where there are no more than k. */
  sample<T>(items: readonly T[], k: number): T[] {
    if (items.length <= k) return [...items];
    const chosen: T[] = [];
    for (let i = 0; i < items.length && chosen.length < k; i++) {
      if (this.int(items.length - i) < k - chosen.length) chosen.push(items[i]!);
    }
    return chosen;
  }

  getState(): [number, number, number, number] {
    return [this.#a >>> 0, this.#b >>> 0, this.#c >>> 0, this.#d >>> 0];
  }

  setState(state: readonly [number, number, number, number]): void {
    [this.#a, this.#b, this.#c, this.#d] = state;
  }
}
