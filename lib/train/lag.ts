import { monitorEventLoopDelay } from "node:perf_hooks";

const RESOLUTION_MS = 10;

export interface TimerLag {
  /** 99th percentile of the lateness of a timer, milliseconds. */
  p99: number;
  /** The longest lateness, milliseconds. */
  max: number;
}

/** Samples how late timers fire until `stop`: what a long native call on the JS thread would show as. */
export function monitorLag(): { stop(): TimerLag } {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  histogram.enable();
  return {
    stop() {
      histogram.disable();
      // The histogram holds whole intervals between firings: the sampling interval itself is no lateness.
      const late = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS);
      return { p99: late(histogram.percentile(99)), max: late(histogram.max) };
    },
  };
}
