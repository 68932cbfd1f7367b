import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { brentBound, criticalPath, type NodeRole, type PathNode } from "../../lib/rl/criticalPath.js";
import { vector } from "./support.js";

/** Nodes of a graph run with unlimited resources: each starts when its last dependency ends. */
function schedule(nodes: Omit<PathNode, "start" | "end">[], durations: number[]): PathNode[] {
  const ends = new Map<string, number>();
  return nodes.map((node, i) => {
    const start = Math.max(0, ...node.deps.map((dep) => ends.get(dep)!));
    ends.set(node.id, start + durations[i]!);
    return { ...node, start, end: start + durations[i]! };
  });
}

describe("critical path", () => {
  it("agrees with the golden values", () => {
    const { inputs, expected } = vector<{
      inputs: { durations_ms: Record<string, number>; edges: [string, string][] };
      expected: {
        critical_path_ms: number;
        path: string[];
        work_ms: number;
        parallelism_work_over_cp: number;
        aegir_max_formula_ms: number;
        serial_fraction: number;
        brent_upper_P2_ms: number;
      };
    }>("V10_critical_path");
    const roleOf = (id: string): NodeRole => {
      if (id.startsWith("spec")) return "specialist";
      return id === "router" || id === "fusion" ? id : "primary";
    };
    const nodes = schedule(
      Object.keys(inputs.durations_ms).map((id) => ({
        id,
        role: roleOf(id),
        agent: id.startsWith("spec") ? id : undefined,
        deps: inputs.edges.filter(([, to]) => to === id).map(([from]) => from),
      })),
      Object.values(inputs.durations_ms),
    );
    const result = criticalPath(nodes);
    expect(result.ideal).toBeCloseTo(expected.critical_path_ms, 9);
    expect(result.path).toEqual(expected.path);
    expect(result.work).toBeCloseTo(expected.work_ms, 9);
    expect(result.speedupIdeal).toBeCloseTo(expected.parallelism_work_over_cp, 6);
    expect(result.seed).toBeCloseTo(expected.aegir_max_formula_ms, 9);
    expect(result.serialFraction).toBeCloseTo(expected.serial_fraction, 6);
    expect(brentBound(result, 2)).toBeCloseTo(expected.brent_upper_P2_ms, 9);
    // Five modules of the main agent and, beside each other, one step of each specialist.
    expect(result.steps).toBe(5 + 1);
  });

  it("uses isolated durations for what is ideal and this run's for what is measured", () => {
    const result = criticalPath([
      { id: "prefix", role: "primary", start: 0, end: 2, deps: [] },
      { id: "a", role: "specialist", agent: "a", start: 2, end: 10, isolated: 3, deps: ["prefix"] },
      { id: "b", role: "specialist", agent: "b", start: 2, end: 9, isolated: 5, deps: ["prefix"] },
      { id: "rest", role: "primary", start: 10, end: 11, deps: ["a", "b"] },
    ]);
    expect(result).toMatchObject({ ideal: 8, measured: 11, wall: 11, work: 11, seed: 5 });
    expect(result.path).toEqual(["prefix", "b", "rest"]);
  });

  it("adds the parts of one specialist and takes the slowest, per stage", () => {
    const node = (id: string, role: NodeRole, stage: number, steps: number, agent?: string): PathNode => ({
      ...{ id, role, stage, steps, agent },
      ...{ start: 0, end: 1, deps: [] },
    });
    const { steps, seed } = criticalPath([
      node("m0", "primary", 0, 2),
      node("a0", "specialist", 0, 3, "a"),
      node("a1", "specialist", 0, 4, "a"),
      node("b0", "specialist", 0, 5, "b"),
      node("m1", "fusion", 1, 1),
      node("b1", "specialist", 1, 6, "b"),
    ]);
    expect(steps).toBe(2 + 7 + (1 + 6));
    expect(seed).toBe(2);
  });

  it("holds longest node ≤ ideal ≤ work and measured ≤ wall on random graphs", () => {
    const graph = fc.array(fc.tuple(fc.nat(1000), fc.nat(2 ** 16 - 1), fc.nat(200)), {
      minLength: 1,
      maxLength: 16,
    });
    fc.assert(
      fc.property(graph, (spec) => {
        const nodes = schedule(
          spec.map(([, parents], i) => ({
            id: `n${i}`,
            role: "primary",
            deps: Array.from({ length: i }, (_, j) => j)
              .filter((j) => (parents >> j) & 1)
              .map((j) => `n${j}`),
          })),
          spec.map(([duration]) => duration / 7),
        );
        // Waiting for a processor: later starts of nodes that nothing depends on keep the graph's order.
        const last = nodes.at(-1)!;
        const late = [
          ...nodes.slice(0, -1),
          { ...last, start: last.start + spec[0]![2], end: last.end + spec[0]![2] },
        ];
        const result = criticalPath(late);
        const longest = Math.max(...late.map((node) => node.end - node.start));
        const slack = 1e-9 * (1 + result.work);
        expect(longest).toBeLessThanOrEqual(result.ideal + slack);
        expect(result.ideal).toBeLessThanOrEqual(result.work + slack);
        expect(result.measured).toBeLessThanOrEqual(result.wall + slack);
        expect(criticalPath(nodes).wall).toBeCloseTo(criticalPath(nodes).ideal, 6);
        // The path is a chain of dependencies whose durations sum to its length.
        const onPath = result.path.map((id) => late.find((node) => node.id === id)!);
        onPath.slice(1).forEach((node, i) => {
          expect(node.deps).toContain(onPath[i]!.id);
        });
        expect(onPath.reduce((sum, n) => sum + n.end - n.start, 0)).toBeCloseTo(result.ideal, 6);
      }),
    );
  });

  it("a chain has no parallelism and independent nodes have nothing else", () => {
    const chain = schedule(
      ["x", "y", "z"].map((id, i) => ({ id, role: "primary", deps: i ? [["x", "y", "z"][i - 1]!] : [] })),
      [1, 2, 3],
    );
    expect(criticalPath(chain)).toMatchObject({ ideal: 6, work: 6, speedupIdeal: 1, serialFraction: 1 });
    const apart = chain.map((node) => ({ ...node, deps: [] }));
    expect(criticalPath(apart)).toMatchObject({ ideal: 3, work: 6, speedupIdeal: 2, serialFraction: 0.5 });
    expect(criticalPath([])).toMatchObject({ ideal: 0, work: 0, wall: 0, steps: 0, seed: 0 });
  });

  it("refuses graphs that are none", () => {
    const node = (id: string, deps: string[]): PathNode => ({ id, role: "primary", start: 0, end: 1, deps });
    expect(() => criticalPath([node("a", ["b"]), node("b", ["a"])])).toThrow(/cycle among a, b/);
    expect(() => criticalPath([node("a", ["x"])])).toThrow(/'x', which is not a node/);
    expect(() => criticalPath([node("a", []), node("a", [])])).toThrow(/two nodes/);
    expect(() => criticalPath([{ ...node("a", []), end: -1 }])).toThrow(/before it starts/);
    expect(() => criticalPath([{ ...node("a", []), role: "specialist" }])).toThrow(/agent/);
  });
});
