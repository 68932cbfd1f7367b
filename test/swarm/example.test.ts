import { expect, it, vi } from "vitest";
import type { CriticalPath } from "../../lib/rl/criticalPath.js";

it("examples/swarm.mjs prints probabilities of both labels and the critical path of three models", async () => {
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  await import("../../examples/swarm.mjs");
  expect(log).toHaveBeenCalledTimes(1);
  const [probabilities, path] = log.mock.calls[0] as [Float32Array, CriticalPath];
  expect(probabilities.length).toBe(2);
  expect(probabilities[0]! + probabilities[1]!).toBeCloseTo(1, 5);
  expect(path.work).toBeGreaterThan(path.ideal);
  log.mockRestore();
});
