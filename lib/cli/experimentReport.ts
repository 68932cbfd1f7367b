import { withInterrupt } from "./interrupt.js";
import { progressView } from "./progress.js";

/** What every experiment's command has. */
export interface ExperimentFlags {
  out: string;
  quiet?: boolean;
  json?: boolean;
}

/** Runs an experiment under Ctrl-C, writes its report into its folder, and prints it. */
export async function reportExperiment<R>(
  { out, quiet, json }: ExperimentFlags,
  run: (signal: AbortSignal, view: ReturnType<typeof progressView>) => Promise<R>,
  { write, text }: { write: (dir: string, report: R) => Promise<void>; text: (report: R) => string },
): Promise<void> {
  const view = progressView({ quiet });
  try {
    const report = await withInterrupt((signal) => run(signal, view));
    view.stop();
    await write(out, report);
    process.stdout.write(
      json ? `${JSON.stringify(report)}\n` : `${text(report)}\n\nRuns and report: ${out}\n`,
    );
  } finally {
    view.stop();
  }
}
