import type { Interval } from "../native/contract.js";
import { type CriticalPath, criticalPath, type NodeRole, type PathNode } from "../rl/criticalPath.js";

export interface SwarmNode extends PathNode {
  /** Of specialists that ran as one: their ids. */
  members?: readonly string[];
}

/**
 * When each part of one swarm forward ran, and its critical path (docs/rl.md §6). Milliseconds. Of work on a GPU the times are read
 * from the device when they are asked for, which waits for its end.
 */
export interface SwarmTiming {
  nodes: SwarmNode[];
  criticalPath: CriticalPath;
}

type NodeDetails = Pick<SwarmNode, "agent" | "members" | "steps">;

/** The id of the node of a specialist, or of several that ran as one. */
export function specialistNode(ids: readonly string[]): string {
  return ids.length === 1 ? `specialist:${ids[0]}` : `specialists:${ids.join("+")}`;
}

/** Collects the nodes of one forward. */
export class SwarmTrace {
  readonly nodes: SwarmNode[] = [];

  /** Dependencies that did not run are left out; one that is a member of a node stands for that node. */
  add(id: string, role: NodeRole, interval: Interval, deps: string[], of: NodeDetails = {}): void {
    const known = this.nodes
      .filter(
        (node) => deps.includes(node.id) || node.members?.some((m) => deps.includes(specialistNode([m]))),
      )
      .map((node) => node.id);
    this.nodes.push({
      id,
      role,
      get start() {
        return interval.start;
      },
      get end() {
        return interval.end;
      },
      deps: known,
      ...Object.fromEntries(Object.entries(of).filter(([, value]) => value !== undefined)),
    });
  }

  timing(): SwarmTiming {
    const { nodes } = this;
    let path: CriticalPath | undefined;
    return {
      nodes,
      get criticalPath() {
        path ??= criticalPath(nodes);
        return path;
      },
    };
  }
}

/**
 * Critical path of a concurrent forward with the isolated durations of a serial one of the same rows: in a concurrent run
 * every node's duration also holds its waiting for processors.
 */
export function isolatedCriticalPath(concurrent: SwarmTiming, serial: SwarmTiming): CriticalPath {
  const durations = new Map(serial.nodes.map((node) => [node.id, node.end - node.start]));
  return criticalPath(
    concurrent.nodes.map((node) => ({ ...node, isolated: durations.get(node.id) ?? node.end - node.start })),
  );
}
