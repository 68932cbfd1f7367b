import { afterEach, describe, expect, it, vi } from "vitest";
import { progressView } from "../../lib/cli/progress.js";

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Lines on stderr, which is no terminal, of a job of so many seconds that reports every second. */
function linesOf(seconds: number): string[] {
  vi.useFakeTimers({ toFake: ["performance"] });
  const lines: string[] = [];
  vi.spyOn(process.stderr, "write").mockImplementation((text) => lines.push(String(text)) > 0);
  const { isTTY } = process.stderr;
  process.stderr.isTTY = false;
  try {
    const view = progressView();
    for (let step = 1; step <= seconds; step++) {
      view.update({
        task: "job",
        step,
        total: seconds,
        perSecond: 1,
        secondsLeft: seconds - step,
        figures: {},
      });
      vi.advanceTimersByTime(1000);
    }
    view.stop();
  } finally {
    process.stderr.isTTY = isTTY;
  }
  return lines;
}

describe("progress without a terminal", () => {
  it("prints a line every five seconds at first", () => {
    const lines = linesOf(61);
    expect(lines[0]).toBe("job: 1/61  1.0/s  1:00 left\n");
    expect(lines).toHaveLength(13);
    expect(lines.at(-1)).toBe("job: 61/61  1.0/s\n");
  });

  it("prints no more of a job of hours than can be read", () => {
    const lines = linesOf(3 * 3600);
    expect(lines.length).toBeLessThan(250);
    expect(lines.length).toBeGreaterThan(100);
  });
});
