import { describe, expect, it } from "vitest";
import { AegirForColumnAnnotation } from "../../lib/model/index.js";
import { isolatedCriticalPath, SwarmOrchestrator } from "../../lib/swarm/index.js";
import { randomOf } from "../rl/support.js";
import { PRIMARY, randomInputs, specialist, WIDER } from "./support.js";

describe("execution", () => {
  it("keeps all activated specialists in flight together in streams, and apart in series", async () => {
    const primary = new AegirForColumnAnnotation(WIDER, { seed: 1 });
    const swarm = new SwarmOrchestrator({
      primaryModel: primary,
      specialists: [specialist(2, "first", WIDER), specialist(3, "second", WIDER)],
    });
    using inputs = randomInputs(randomOf(1), 16, 256);
    const timings = [];
    for (const execution of ["streams", "serial"] as const) {
      swarm.execution = execution;
      using result = await swarm.forward({ ...inputs, routingHidden: "auto", routing: "all-on" });
      timings.push(result.timing);
    }
    const overlaps = timings.map(({ nodes }) => {
      const [a, b] = nodes.filter((node) => node.role === "specialist");
      return Math.min(a!.end, b!.end) - Math.max(a!.start, b!.start);
    });
    expect(overlaps[0]).toBeGreaterThan(0);
    expect(overlaps[1]).toBeLessThanOrEqual(0);
    const [streams, serial] = timings as [(typeof timings)[0], (typeof timings)[0]];
    const isolated = isolatedCriticalPath(streams, serial);
    expect(isolated.work).toBeCloseTo(serial.criticalPath.work, 6);
    expect(isolated.ideal).toBeLessThan(isolated.work);
  });

  it.each([
    [1, [8]],
    [2, [4, 4]],
    [3, [2, 2, 2]],
    [9, Array(9).fill(1)],
  ])("shares the threads among the specialists of a forward: %i", async (count, shares) => {
    const primary = new AegirForColumnAnnotation(PRIMARY, { seed: 1 });
    const asked: (number | undefined)[] = [];
    const specialists = Array.from({ length: count }, (_, i) => {
      const one = specialist(2 + i, `${i}`);
      const forward = one.forward.bind(one);
      one.forward = (rows, options) => {
        asked.push(options?.threads);
        return forward(rows, options);
      };
      return one;
    });
    const swarm = new SwarmOrchestrator({ primaryModel: primary, specialists, threads: 8 });
    using inputs = randomInputs(randomOf(3), 2, 8);
    const everyone = Array(2).fill(Array(count).fill(true));
    for (const each of await swarm.runSpecialists(inputs, everyone)) each.dispose();
    expect(asked).toEqual(shares);
    swarm.execution = "serial";
    for (const each of await swarm.runSpecialists(inputs, everyone)) each.dispose();
    expect(asked.slice(count)).toEqual(Array(count).fill(8));
    for (const each of [swarm, primary, ...specialists.map(({ model }) => model)]) each.dispose();
  });

  it("serves several forwards at once", async () => {
    const primary = new AegirForColumnAnnotation(PRIMARY, { seed: 1 });
    const swarm = new SwarmOrchestrator({ primaryModel: primary, specialists: [specialist(2, "one")] });
    using inputs = randomInputs(randomOf(2), 4, 20);
    const run = () => swarm.forward({ ...inputs, routingHidden: "auto", routing: "all-on" });
    const [first, ...others] = await Promise.all([run(), run(), run()]);
    for (const other of others) expect(other.output.logits.equal(first!.output.logits)).toBe(true);
  });
});
