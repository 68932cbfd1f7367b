/**
 * Critical path of a swarm forward (docs/rl.md §6) from the intervals of its nodes and their real dependencies.
 * Times are in milliseconds.
 */
import { AegirError } from "../errors.js";
import { CriticalStepsMetric } from "./parl.js";

/** `primary`: a part of the primary's own forward; `specialist` needs `agent`; the rest is orchestration. */
export type NodeRole = "primary" | "router" | "specialist" | "alignment" | "fusion";

export interface PathNode {
  id: string;
  role: NodeRole;
  start: number;
  end: number;
  /** Ids of the nodes whose results this one needs. */
  deps: readonly string[];
  /** The specialist that a `specialist` or `alignment` node belongs to. */
  agent?: string;
  /** Duration with the machine to itself, where it was measured; default end − start. */
  isolated?: number;
  /** Deterministic cost for `steps`; default 1: one module call. */
  steps?: number;
  /** The t of CriticalSteps = Σ_t(…) that this node belongs to; default 0. */
  stage?: number;
}

export interface CriticalPath {
  /** max(primary, max over activated specialists), the definition of Aegir's design: orchestration is left out. */
  seed: number;
  /** Kimi K2.5's Σ_t(S_main + max_i S_sub,i) in step counts: deterministic, the one that a reward may use. */
  steps: number;
  /** Longest path through the dependencies with isolated durations: what unlimited resources would give. */
  ideal: number;
  /** Longest path through the dependencies with the durations of this run. */
  measured: number;
  /** Last end − first start. */
  wall: number;
  /** Σ of the (isolated) durations. */
  work: number;
  /** Ids along `ideal`. */
  path: string[];
  /** work / ideal: the bound on any speedup of this graph. */
  speedupIdeal: number;
  /** Share of work that lies on `path` outside the specialists: what running them in parallel cannot shorten. */
  serialFraction: number;
}

/**
 * Laws: longest node ≤ ideal ≤ work, and measured ≤ wall where every node started after its dependencies ended.
 * An empty list gives zeros.
 * @throws AegirError ERR_ARGUMENT for a repeated id, an unknown dependency, a cycle, an end before its start, a
 * specialist without `agent`
 */
export function criticalPath(nodes: readonly PathNode[]): CriticalPath {
  const order = topologicalOrder(nodes);
  const isolated = longestPath(order, isolatedDuration);
  const work = nodes.reduce((sum, node) => sum + isolatedDuration(node), 0);
  const serial = nodes
    .filter((node) => node.role !== "specialist" && isolated.path.includes(node.id))
    .reduce((sum, node) => sum + isolatedDuration(node), 0);
  return {
    seed: seedPath(nodes),
    steps: criticalSteps(nodes),
    ideal: isolated.length,
    measured: longestPath(order, (node) => node.end - node.start).length,
    wall: nodes.length
      ? Math.max(...nodes.map((node) => node.end)) - Math.min(...nodes.map((node) => node.start))
      : 0,
    work,
    path: isolated.path,
    speedupIdeal: isolated.length > 0 ? work / isolated.length : 1,
    serialFraction: work > 0 ? serial / work : 0,
  };
}

/** Brent's bound on the time on `processors` equal processors: work/P + ideal·(1 − 1/P). */
export function brentBound(
  { work, ideal }: Pick<CriticalPath, "work" | "ideal">,
  processors: number,
): number {
  return work / processors + ideal * (1 - 1 / processors);
}

function isolatedDuration(node: PathNode): number {
  return node.isolated ?? node.end - node.start;
}

/** Kahn's algorithm; the order among ready nodes is that of the list, so the result is deterministic. */
function topologicalOrder(nodes: readonly PathNode[]): PathNode[] {
  const byId = indexById(nodes);
  const missing = new Map(nodes.map((node) => [node.id, new Set(node.deps).size]));
  const dependents = new Map<string, string[]>(nodes.map((node) => [node.id, []]));
  for (const node of nodes) for (const dep of new Set(node.deps)) dependents.get(dep)!.push(node.id);
  const order = nodes.filter((node) => missing.get(node.id) === 0);
  for (const node of order) {
    for (const id of dependents.get(node.id)!) {
      missing.set(id, missing.get(id)! - 1);
      if (missing.get(id) === 0) order.push(byId.get(id)!);
    }
  }
  if (order.length < nodes.length) {
    const stuck = nodes.filter((node) => missing.get(node.id)! > 0).map((node) => node.id);
    throw new AegirError(
      "ERR_ARGUMENT",
      `criticalPath: the dependencies form a cycle among ${stuck.join(", ")}`,
    );
  }
  return order;
}

function indexById(nodes: readonly PathNode[]): Map<string, PathNode> {
  const byId = new Map<string, PathNode>();
  for (const node of nodes) {
    if (byId.has(node.id))
      throw new AegirError("ERR_ARGUMENT", `criticalPath: two nodes have the id '${node.id}'`);
    if (!(node.end >= node.start))
      throw new AegirError(
        "ERR_ARGUMENT",
        `node '${node.id}': ends (${node.end}) before it starts (${node.start})`,
      );
    if (node.role === "specialist" && node.agent === undefined)
      throw new AegirError("ERR_ARGUMENT", `node '${node.id}': a specialist's node needs 'agent'`);
    byId.set(node.id, node);
  }
  for (const node of nodes)
    for (const dep of node.deps)
      if (!byId.has(dep))
        throw new AegirError("ERR_ARGUMENT", `node '${node.id}': depends on '${dep}', which is not a node`);
  return byId;
}

function longestPath(
  order: readonly PathNode[],
  duration: (node: PathNode) => number,
): { length: number; path: string[] } {
  const finish = new Map<string, number>();
  const previous = new Map<string, string | undefined>();
  let last: string | undefined;
  for (const node of order) {
    let ready = 0;
    let via: string | undefined;
    for (const dep of node.deps) {
      if (via === undefined || finish.get(dep)! > ready) {
        ready = finish.get(dep)!;
        via = dep;
      }
    }
    finish.set(node.id, ready + duration(node));
    previous.set(node.id, via);
    if (last === undefined || finish.get(node.id)! > finish.get(last)!) last = node.id;
  }
  const path: string[] = [];
  for (let id = last; id !== undefined; id = previous.get(id)) path.unshift(id);
  return { length: last === undefined ? 0 : finish.get(last)!, path };
}

function seedPath(nodes: readonly PathNode[]): number {
  const primary = nodes.reduce(
    (sum, node) => sum + (node.role === "primary" ? isolatedDuration(node) : 0),
    0,
  );
  return Math.max(primary, ...sumByAgent(nodes, isolatedDuration).values());
}

/** Specialists' nodes are the subagents' steps, everything else (alignment and fusion too) the main agent's. */
function criticalSteps(nodes: readonly PathNode[]): number {
  const stages = [...new Set(nodes.map((node) => node.stage ?? 0))];
  const stepsOf = (node: PathNode) => node.steps ?? 1;
  const inStage = (stage: number) => nodes.filter((node) => (node.stage ?? 0) === stage);
  const main = stages.map((stage) =>
    inStage(stage).reduce((sum, node) => sum + (node.role === "specialist" ? 0 : stepsOf(node)), 0),
  );
  const sub = stages.map((stage) => [...sumByAgent(inStage(stage), stepsOf).values()]);
  return new CriticalStepsMetric().compute([main], [sub])[0]!;
}

function sumByAgent(nodes: readonly PathNode[], value: (node: PathNode) => number): Map<string, number> {
  const sums = new Map<string, number>();
  for (const node of nodes)
    if (node.role === "specialist") sums.set(node.agent!, (sums.get(node.agent!) ?? 0) + value(node));
  return sums;
}
