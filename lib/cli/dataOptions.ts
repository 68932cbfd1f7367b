import { type Command, Option } from "commander";
import type { Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import { type DataSource, folderSource, generatedSource } from "../train/dataSource.js";
import { number } from "./settings.js";

export interface DataFlags {
  data?: string;
  task?: Task;
  trainFile?: string;
  tables?: number;
  dataSeed?: number;
}

/** `--data`, `--task`, and the generator's options for where no folder is given. */
export function addDataOptions(command: Command): Command {
  return command
    .option(
      "--data <dir>",
      "folder of labelled tables (SOTAB's layout, or CSV files with a labels.csv); absent: generated",
    )
    .addOption(new Option("--task <task>", "what is annotated").choices(["cta", "cpa"]).default("cta"))
    .option(
      "--train-file <name>",
      "SOTAB's layout: full, small, or a training ground-truth file (default: full)",
    )
    .addOption(
      new Option("--tables <n>", "generated tables (default: 600)").argParser(number).conflicts("data"),
    )
    .addOption(
      new Option("--data-seed <n>", "seed of the generated tables (default: 0)")
        .argParser(number)
        .conflicts("data"),
    );
}

export function sourceFrom({ data, task, trainFile, tables, dataSeed }: DataFlags): DataSource {
  if (data !== undefined) return folderSource(data, task, trainFile);
  if (task === "cpa")
    throw new AegirError(
      "ERR_CONFIG",
      "--task cpa: generated tables have labels of cta alone; give --data, a folder with CPA's labels",
    );
  return generatedSource({
    ...(tables === undefined ? {} : { tables }),
    ...(dataSeed === undefined ? {} : { seed: dataSeed }),
  });
}
