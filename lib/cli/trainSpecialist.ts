import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Command, Option } from "commander";
import { z } from "zod";
import type { Dataset, Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import { SPECIALIST_KINDS, type SpecialistKind } from "../specialists/index.js";
import { openDataSource } from "../train/dataSource.js";
import { defined } from "../train/defined.js";
import { holdOut } from "../train/loopOptions.js";
import { trainSpecialist } from "../train/specialistRun.js";
import { addDataOptions, type DataFlags, sourceFrom } from "./dataOptions.js";
import { withInterrupt } from "./interrupt.js";
import { progressView } from "./progress.js";
import { addSettings, settingsFrom } from "./settings.js";

interface SpecialistTrainFlags extends DataFlags {
  kind: SpecialistKind;
  otherTask?: Task;
  out: string;
  quiet?: boolean;
  json?: boolean;
}

/** Options of every kind, each once; those of another kind than --kind are errors. */
export function addSpecialist(train: Command): void {
  const kinds = Object.keys(SPECIALIST_KINDS);
  const ofKinds = z.strictObject(
    Object.assign({}, ...Object.values(SPECIALIST_KINDS).map((kind) => kind.options.shape)),
  );
  const shared = z.strictObject({ holdOut });
  const command = train
    .command("specialist")
    .description(
      "Train a specialist that reads columns and not tokens, in seconds to minutes; for train parl --specialist.",
    )
    .addOption(new Option("--kind <name>", "what it reads").choices(kinds).default("ngram"))
    .addOption(
      new Option("--other-task <task>", "stacked: labels of the same folder that are read too").choices([
        "cta",
        "cpa",
      ]),
    )
    .requiredOption("--out <run>", "run folder")
    .option("--quiet", "show no progress")
    .option("--json", "print the outcome as JSON");
  addDataOptions(command);
  addSettings(addSettings(command, ofKinds), shared).action(async (flags: SpecialistTrainFlags) => {
    const source = sourceFrom(flags);
    const view = progressView({ quiet: flags.quiet });
    try {
      const before = process.cpuUsage();
      const specialist = await withInterrupt(
        async (signal) =>
          trainSpecialist({
            kind: flags.kind,
            dataset: await openDataSource(source),
            others: flags.otherTask ? [await openOtherTask(flags, flags.otherTask)] : [],
            dataSource: { ...source },
            options: settingsFrom(command, ofKinds),
            ...settingsFrom(command, shared),
            out: flags.out,
            signal,
            onProgress: (progress) => view.update(progress),
          }),
        { saves: false },
      );
      view.stop();
      const { user, system } = process.cpuUsage(before);
      const { labels, learned, extractor } = specialist;
      const figures = {
        labels: labels.length,
        features: extractor.columns,
        tau: learned.tau,
        ...defined({ macroF1: learned.validationF1 }),
        cpuSeconds: (user + system) / 1e6,
      };
      const judge = "holdOut" in settingsFrom(command, shared) ? "the held-out sites" : "validation";
      const judged =
        learned.validationF1 === undefined
          ? ""
          : ` (chosen on ${judge}: macro F1 ${learned.validationF1.toFixed(3)})`;
      process.stdout.write(
        flags.json
          ? `${JSON.stringify({ out: flags.out, kind: flags.kind, ...figures })}\n`
          : `${flags.out}: ${flags.kind}, ${figures.labels} labels, ${figures.features} features, ` +
              `tau ${figures.tau}${judged}, ${figures.cpuSeconds.toFixed(1)} CPU seconds\n`,
      );
    } finally {
      view.stop();
    }
  });
}

/** @throws AegirError ERR_CONFIG where the folder has one task's labels alone */
function openOtherTask(flags: SpecialistTrainFlags, task: Task): Promise<Dataset> {
  const { data } = flags;
  if (data === undefined || task === flags.task) {
    throw new AegirError(
      "ERR_CONFIG",
      `--other-task ${task}: expected another task than --task ${flags.task}, and a folder of tables in --data; generated tables have labels of cta alone`,
    );
  }
  if (!existsSync(join(data, task.toUpperCase()))) {
    throw new AegirError(
      "ERR_CONFIG",
      `--other-task ${task}: ${data} has no labels of it; expected folders CTA and CPA in ${data}, each with the tables and labels of its task`,
    );
  }
  return openDataSource(sourceFrom({ ...flags, task }));
}
