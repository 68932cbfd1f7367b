import type { NativeModule } from "../native/contract.js";
import { CriticalStepsMetric } from "../rl/parl.js";
import type { SwarmOrchestrator } from "../swarm/index.js";

/** Deterministic step counts of a swarm: the blocks that each model runs. */
export interface StepCounts {
  main: number;
  /** (n) */
  sub: readonly number[];
}

/** Blocks of the primary and of every specialist; one that runs no model has none. */
export function stepCounts({ primary, specialists }: SwarmOrchestrator): StepCounts {
  return {
    main: countBlocks(primary.native),
    sub: specialists.map(({ model }) => (model ? countBlocks(model.native) : 0)),
  };
}

/**
 * CriticalSteps = S_main + max over activated specialists of S_sub (docs/rl.md §6) of every routing.
 * @param actions (…,n)
 */
export function criticalStepsOf(actions: ArrayLike<number>, { main, sub }: StepCounts): number[] {
  const n = sub.length;
  const count = actions.length / n;
  const active = Array.from({ length: count }, (_, i) => [sub.map((s, j) => (actions[i * n + j] ? s : 0))]);
  return new CriticalStepsMetric().compute(Array(count).fill([main]), active);
}

const BLOCK = /^backbone\.stage\d+\.(?:encoder|decoder)\.\d+\./;

/** Blocks of a model. */
export function countBlocks(module: NativeModule): number {
  return blocksOf(module).length;
}

/** Blocks of a model's prefix: its first stage's encoder; of a flat model the first block. */
export function countPrefix(module: NativeModule): number {
  const blocks = blocksOf(module);
  const outer = blocks.filter((name) => name.startsWith("backbone.stage0."));
  if (outer.length === blocks.length) return Math.min(1, blocks.length - 1);
  return outer.filter((name) => name.includes(".encoder.")).length;
}

function blocksOf(module: NativeModule): string[] {
  return [...new Set(module.parameters().flatMap(({ name }) => BLOCK.exec(name) ?? []))];
}
