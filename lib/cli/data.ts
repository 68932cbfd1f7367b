import { type Command, Option } from "commander";
import { writeDataset } from "../data/csvFolder.js";
import { LOCALES } from "../data/generator/source.js";
import {
  ALL_DOMAIN_NAMES,
  DOMAIN_NAMES,
  type GeneratorOptions,
  generateDataset,
  generatorOptions,
} from "../data/generator.js";
import type { Dataset } from "../data/types.js";
import { number } from "./settings.js";

interface GenerateFlags {
  out: string;
  domains?: string[];
  locales?: string[];
  overwrite?: boolean;
  json?: boolean;
}

/** Numeric options of the generator, as flags. */
const NUMBERS = [
  ["seed", "seed; the same options give the same tables"],
  ["tables", "number of tables"],
  ["rows", "rows of the longest tables"],
  ["variety", "share of columns written in any format of their type, 0 to 1"],
  ["missing", "share of missing cells, 0 to 1"],
  ["noise", "share of disturbed cells, 0 to 1"],
  ["wear", "share of columns with habits of real files, 0 to 1"],
  ["headers", "share of tables with headers, 0 to 1"],
  ["validation", "share of tables held out for validation, 0 to 1"],
  ["test", "share of tables held out for testing, 0 to 1"],
] as const;

/** `aegir-swarm data generate`. */
export function register(program: Command): void {
  const data = program.command("data").description("Labelled tables.");
  const generate = data
    .command("generate")
    .description("Write generated labelled tables: a folder of CSV files with a labels.csv.")
    .requiredOption("--out <dir>", "folder to write; it appears whole or not at all");
  const defaults = generatorOptions.parse({});
  for (const [name, description] of NUMBERS) {
    const option = new Option(`--${name} <n>`, `${description} (default: ${defaults[name]})`);
    generate.addOption(option.argParser(number));
  }
  generate
    .option(
      "--domains <list>",
      `comma-separated: ${ALL_DOMAIN_NAMES.join(", ")} (default: ${DOMAIN_NAMES.join(",")})`,
      list,
    )
    .option(
      "--locales <list>",
      `comma-separated: ${LOCALES.join(", ")} (default: ${defaults.locales.join(",")})`,
      list,
    )
    .option("--overwrite", "replace a data set that is there")
    .option("--json", "print the counts as JSON")
    .action(async (flags: GenerateFlags) => {
      const { out, overwrite, json, ...options } = flags;
      const dataset = await generateDataset(options as GeneratorOptions);
      await writeDataset(out, dataset, { overwrite });
      process.stdout.write(
        json ? `${JSON.stringify(counts(out, dataset), null, 2)}\n` : summary(out, dataset),
      );
    });
}

function list(text: string): string[] {
  return text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

function counts(out: string, { tables, labels, splits }: Dataset) {
  return {
    out,
    tables: tables.size,
    labels: labels.length,
    columns: { train: splits.train.length, validation: splits.validation.length, test: splits.test.length },
  };
}

function summary(out: string, dataset: Dataset): string {
  const { tables, labels, columns } = counts(out, dataset);
  return `${out}: ${tables} tables, ${labels} labels; labelled columns: ${columns.train} train, ${columns.validation} validation, ${columns.test} test\n`;
}
