import { join } from "node:path";
import { type Command, Option } from "commander";
import type { Split, Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import { rewardText, writeRewardReport } from "../report/rewardReport.js";
import { openDataSource, recordedSource } from "../train/dataSource.js";
import { evaluationSet } from "../train/evaluate.js";
import { loadRun } from "../train/loadRun.js";
import { checkRewards, type RewardReport, withLane } from "../train/rewardChecks.js";
import { routingTable } from "../train/routingTable.js";
import { sourceFrom } from "./dataOptions.js";
import { withInterrupt } from "./interrupt.js";
import { progressView } from "./progress.js";
import { number } from "./settings.js";

interface CheckFlags {
  data?: string;
  task?: Task;
  split: Split;
  limit: number;
  abstainBelow: number;
  seed: number;
  out?: string;
  threads: number;
  json?: boolean;
  quiet?: boolean;
}

/** `aegir-swarm rewards check RUN --data DIR`. */
export function register(program: Command): void {
  program
    .command("rewards")
    .description("The rewards of a swarm.")
    .command("check")
    .description(
      "Check that every reward can teach the router: gradient, polarity, independence, scale (exit code 1 where a check fails).",
    )
    .argument("<run>", "run folder of train parl")
    .option("--data <dir>", "folder of labelled tables; absent: the data that the run was trained on")
    .addOption(new Option("--task <task>", "task of --data (default: the run's)").choices(["cta", "cpa"]))
    .addOption(
      new Option("--split <split>", "columns to use")
        .choices(["train", "validation", "test"])
        .default("validation"),
    )
    .option("--limit <n>", "columns at most, evenly spaced; 256 fill r_finish's window", number, 256)
    .option("--abstain-below <p>", "confidence below which the head abstains", number, 0)
    .option("--seed <n>", "seed of routers and draws", number, 0)
    .option(
      "--out <dir>",
      "folder for report.md, report.json and checks.svg (default: rewards-check in the run)",
    )
    .option("--threads <n>", "threads of each lane", number, 1)
    .option("--json", "print JSON")
    .option("--quiet", "show no progress")
    .action(checkCommand);
}

async function checkCommand(dir: string, flags: CheckFlags): Promise<void> {
  const view = progressView({ quiet: flags.quiet });
  try {
    const report = await withInterrupt((signal) => runChecks(dir, flags, signal, view), { saves: false });
    view.stop();
    await writeRewardReport(flags.out ?? join(dir, "rewards-check"), report);
    process.stdout.write(flags.json ? `${JSON.stringify(report)}\n` : `${rewardText(report)}\n`);
    if (!report.passed) process.exitCode = 1;
  } finally {
    view.stop();
  }
}

async function runChecks(
  dir: string,
  flags: CheckFlags,
  signal: AbortSignal,
  view: ReturnType<typeof progressView>,
): Promise<RewardReport> {
  using run = await loadRun(dir, { threads: flags.threads });
  const { swarm } = run;
  if (!swarm) {
    throw new AegirError(
      "ERR_CONFIG",
      `${dir} is a run of kind ${run.config.kind}, which has no router; expected one of train parl`,
    );
  }
  const source =
    flags.data === undefined
      ? await recordedSource(dir)
      : sourceFrom({ data: flags.data, task: flags.task ?? run.task });
  const { split, limit, abstainBelow, seed, threads } = flags;
  const dataset = await openDataSource(source);
  const set = await evaluationSet(dataset, split, run.labels, run.serialiser, {
    unknownLabels: "skip",
    limit,
  });
  using table = await routingTable(swarm, set, {
    abstainBelow,
    signal,
    onProgress: (progress) => view.update(progress),
  });
  return await withLane(threads, (lane) => checkRewards(table, swarm.router.dModel, lane, { seed }));
}
