import { expect, test } from "vitest";
import { RowClock } from "../../lib/train/rowClock.js";

test("a row's time is the median of the batches, of unequal ones too, and of the first where none was kept", () => {
  let now = 100;
  const clock = new RowClock(() => now);
  now = 130;
  expect(clock.perRow(10)).toBe(3);
  for (const [at, rows] of [
    [150, 10],
    [170, 20],
    [470, 30],
    [480, 35],
    [490, 40],
  ] as const) {
    now = at;
    clock.done(rows);
  }
  now = 1000;
  expect(clock.perRow(10)).toBe(2);
});
