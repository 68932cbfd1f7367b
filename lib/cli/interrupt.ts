/**
 * Runs `work` with a signal that Ctrl-C (SIGINT) or SIGTERM aborts: the work saves what it can be resumed from, where it `saves`, and rejects with
 * ERR_ABORTED, which the command turns into exit code 130. A second Ctrl-C ends the process at once.
 */
export async function withInterrupt<T>(
  work: (signal: AbortSignal) => Promise<T>,
  { saves = true }: { saves?: boolean } = {},
): Promise<T> {
  const leaving = saves ? "saving and leaving" : "leaving, and nothing is kept";
  const controller = new AbortController();
  const interrupt = (name: NodeJS.Signals) => {
    if (controller.signal.aborted) {
      // As if nobody listened: process.exit would wait for reads that never end, as of a pipe that nobody writes to.
      process.off(name, interrupt);
      process.kill(process.pid, name);
      return;
    }
    process.stderr.write(`\nInterrupted: ${leaving}; once more to leave at once.\n`);
    controller.abort();
  };
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", interrupt);
  try {
    return await work(controller.signal);
  } finally {
    process.off("SIGINT", interrupt);
    process.off("SIGTERM", interrupt);
  }
}
