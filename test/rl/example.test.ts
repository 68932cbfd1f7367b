import { expect, it, vi } from "vitest";

it("examples/parl.mjs runs open-parl's quick start: totals are the sums of their components", async () => {
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  await import("../../examples/parl.mjs");
  const printed = Object.fromEntries(log.mock.calls) as Record<string, number[]> & { λ: number };
  log.mockRestore();
  expect(printed.λ).toBeCloseTo(0.05, 12);
  printed["parallelism component"]!.forEach((part, i) => {
    expect(part).toBeCloseTo(0.05 * [0.25, 0.3, 0.4][i]!, 12);
    expect(printed["total reward"]![i]).toBeCloseTo(part + printed["task component"]![i]!, 12);
  });
  expect(printed["task component"]![2]).toBe(0);
  for (const steps of printed["critical steps"]!) {
    expect(steps).toBeGreaterThan(0.5);
    expect(steps).toBeLessThan(5.5);
  }
});
