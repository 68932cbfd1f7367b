import type { Random } from "../data/random.js";

/** Every action of n specialists with at most `cap` activated, (G,n) row-major, all-off first. */
export function enumerateActions(n: number, cap: number): { actions: Uint8Array; count: number } {
  const chosen: number[] = [];
  for (let bits = 0; bits < 2 ** n; bits++) if (popcount(bits) <= cap) chosen.push(bits);
  const actions = Uint8Array.from(
    chosen.flatMap((bits) => Array.from({ length: n }, (_, i) => (bits >> i) & 1)),
  );
  return { actions, count: chosen.length };
}

/** The same actions for every row: (G,n) → (G,R,n). */
export function repeatActions(actions: Uint8Array, n: number, rows: number): Uint8Array {
  const draws = actions.length / n;
  const out = new Uint8Array(draws * rows * n);
  for (let g = 0; g < draws; g++) {
    const action = actions.subarray(g * n, (g + 1) * n);
    for (let r = 0; r < rows; r++) out.set(action, (g * rows + r) * n);
  }
  return out;
}

/** Independent activations with probability p, (R,n). */
export function randomActions(rows: number, n: number, p: number, random: Random): Uint8Array {
  return Uint8Array.from({ length: rows * n }, () => (random.chance(p) ? 1 : 0));
}

/**
 * The routing that the pathwise loss runs with: the policy's draw, but for a share of the rows, which get random
 * activations so that the primary stays sound under every routing.
 * @param draw (R,n)
 */
export function mixRandomRows(draw: Uint8Array, n: number, share: number, random: Random): Uint8Array {
  const mixed = Uint8Array.from(draw);
  for (let row = 0; row < draw.length / n; row++) {
    if (!random.chance(share)) continue;
    for (let i = 0; i < n; i++) mixed[row * n + i] = random.chance(0.5) ? 1 : 0;
  }
  return mixed;
}

/** Activated specialists of row r of (R,n). */
export function activated(actions: ArrayLike<number>, row: number, n: number): number {
  let count = 0;
  for (let i = 0; i < n; i++) if (actions[row * n + i]) count++;
  return count;
}

/** Share of rows that activate each specialist, (R,n) → (n). */
export function activationRates(actions: ArrayLike<number>, n: number): number[] {
  const counts = new Array<number>(n).fill(0);
  for (let i = 0; i < actions.length; i++) if (actions[i]) counts[i % n]!++;
  return counts.map((count) => (count * n) / actions.length);
}

/** The rows of (R,n) in another order: the same rates, but not given to the rows that chose them. */
export function shuffleRows(actions: Uint8Array, n: number, random: Random): Uint8Array {
  const order = random.shuffle(Array.from({ length: actions.length / n }, (_, row) => row));
  const out = new Uint8Array(actions.length);
  for (const [to, from] of order.entries()) out.set(actions.subarray(from * n, (from + 1) * n), to * n);
  return out;
}

function popcount(bits: number): number {
  let count = 0;
  for (let rest = bits; rest > 0; rest >>= 1) count += rest & 1;
  return count;
}
