import type { Interval } from "../native/contract.js";
import { type CriticalPath, criticalPath, type NodeRole, type PathNode } from "../rl/criticalPath.js";

/**
 * When each part of one swarm forward ran, and its critical path (docs/rl.md §6). Milliseconds. Of work on a GPU the times are read
 * from the device when they are asked for, which waits for its end.
 */
export interface SwarmTiming {
  nodes: PathNode[];
  criticalPath: CriticalPath;
}

/** Collects the nodes of one forward. */
export class SwarmTrace {
  readonly nodes: PathNode[] = [];

  add(id: string, role: NodeRole, interval: Interval, deps: string[], agent?: string): void {
    const known = deps.filter((dep) => this.nodes.some((node) => node.id === dep));
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
      ...(agent === undefined ? {} : { agent }),
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
