import type { Figures } from "./loop.js";

/** Means of the figures of several batches, element by element where they are lists; what is no number is the first batch's. */
export function meanFigures(batches: readonly Figures[]): Figures {
  const [first = {}] = batches;
  if (batches.length <= 1) return { ...first };
  return Object.fromEntries(
    Object.entries(first).map(([name, value]) => {
      const values = batches.map((figures) => figures[name]);
      if (typeof value === "number") return [name, mean(values)];
      if (Array.isArray(value))
        return [name, value.map((_, i) => mean(values.map((v) => (v as number[])[i])))];
      return [name, value];
    }),
  );
}

function mean(values: readonly unknown[]): number {
  const numbers = values.filter((value) => typeof value === "number");
  return numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
}
