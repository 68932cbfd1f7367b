import { type Command, InvalidArgumentError, Option } from "commander";
import type { z } from "zod";
import { AegirError } from "../errors.js";
import type { AnnotatorOptions, ArchLayout } from "../model/index.js";
import { defined } from "../train/defined.js";

/** Adds one option per field of a schema: `batchRows` becomes `--batch-rows <n>`, with the field's description and default. */
export function addSettings(command: Command, schema: z.ZodObject, leaveOut: string[] = []): Command {
  for (const [name, field] of Object.entries(schema.shape)) {
    if (leaveOut.includes(name)) continue;
    const { inner, defaultValue } = unwrap(field as z.ZodType);
    const what = (field as z.ZodType).description ?? "";
    const shown = defaultValue === undefined ? "" : ` (default: ${JSON.stringify(defaultValue)})`;
    const description = defaultValue === true ? `switch off: ${what}` : `${what}${shown}`;
    command.addOption(optionOf(kebab(name), inner, defaultValue, description));
  }
  return command;
}

/** The values of a schema's fields that stand on the command line. */
export function settingsFrom(command: Command, schema: z.ZodObject): Record<string, unknown> {
  const given = Object.keys(schema.shape).filter((name) => command.getOptionValueSource(name) === "cli");
  return Object.fromEntries(given.map((name) => [name, command.getOptionValue(name)]));
}

export function addModelOptions(command: Command): Command {
  return command
    .option("--preset <name>", "geometry of the model: tiny, small or base (default: tiny)")
    .option("--layout <json>", 'nested layout, as in \'["w1",["w2"],"w1"]\'', parseLayout)
    .option("--d-model <n,…>", "width of each stage, outermost first", numbers)
    .option("--head-size <n>", "channels of a head", number)
    .option("--channel-mix-ratio <x>", "hidden width of the channel mix over the width (default: 4)", number)
    .option("--ngrams <n>", "rows of a table of hashed byte n-gram embeddings (default: none)", number)
    .option("--ngram-width <n>", "channels of its rows (default: 48)", number)
    .option("--ngram-sizes <n,…>", "lengths of its n-grams (default: 2,3,4,5,6)", numbers)
    .option("--ngram-lowercase", "its n-grams ignore the case of letters")
    .option(
      "--ngram-shapes",
      "its n-grams are also of what bytes look like: 9 a digit, A a capital, a a letter",
    )
    .option("--columns", "column-wise: encode each column by itself, and attend to the table's others")
    .option("--column-heads <n>", "heads of that attention (default: 3, or what divides the width)", number)
    .option("--column-positions <n>", "places in a table with a learned embedding (default: 0)", number)
    .option("--factor-labels", "labels such as Book/name share the logits of their parts")
    .option(
      "--pooling <name,…>",
      "what the head reads: mean, max (of the column), context (default: mean)",
      (text) => text.split(","),
    )
    .option("--pool-norm", "normalise each of these over its channels: learns several times faster");
}

/** Model options as given; undefined where none was. */
export function modelFrom(options: {
  preset?: AnnotatorOptions["preset"];
  layout?: ArchLayout;
  dModel?: number[];
  headSize?: number;
  channelMixRatio?: number;
  ngrams?: number;
  ngramWidth?: number;
  ngramSizes?: number[];
  ngramLowercase?: boolean;
  ngramShapes?: boolean;
  columns?: boolean;
  columnHeads?: number;
  columnPositions?: number;
  factorLabels?: boolean;
  pooling?: AnnotatorOptions["pooling"];
  poolNorm?: boolean;
}): Omit<AnnotatorOptions, "labels" | "numLabels"> | undefined {
  const { preset, layout, dModel, headSize, channelMixRatio, factorLabels, pooling, poolNorm } = options;
  const { ngrams, ngramWidth, ngramSizes, ngramLowercase, ngramShapes } = options;
  const ofNgrams = defined({
    width: ngramWidth,
    sizes: ngramSizes,
    lowercase: ngramLowercase,
    shapes: ngramShapes,
  });
  const ofColumns = defined({ heads: options.columnHeads, positions: options.columnPositions });
  checkMainOption("--ngrams", ngrams !== undefined, optionNames("ngram", ofNgrams));
  checkMainOption("--columns", options.columns !== undefined, optionNames("column", ofColumns));
  const given = defined({
    preset,
    archLayout: layout,
    dModel: dModel?.length === 1 ? dModel[0] : dModel,
    headSize,
    channelMixRatio,
    ngrams: ngrams === undefined ? undefined : { buckets: ngrams, ...ofNgrams },
    columns: options.columns ? ofColumns : undefined,
    factorLabels,
    pooling,
    poolNorm,
  });
  if (Object.keys(given).length === 0) return undefined;
  return layout === undefined ? { preset: "tiny", ...given } : given;
}

function optionNames(prefix: string, given: object): string[] {
  return Object.keys(given).map((name) => `--${prefix}-${name}`);
}

/** An option of a part says nothing without the option that has the part. @throws AegirError ERR_CONFIG for the first of `given` */
export function checkMainOption(main: string, isGiven: boolean, given: readonly string[]): void {
  const [first] = given;
  if (isGiven || first === undefined) return;
  throw new AegirError("ERR_CONFIG", `${first}: was given without ${main}; give ${main} too`);
}

export function number(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) throw new InvalidArgumentError("expected a number");
  return value;
}

function numbers(text: string): number[] {
  return text.split(",").map(number);
}

function namedNumbers(text: string): Record<string, number> {
  const pairs = text.split(",").map((part): [string, number] => {
    const [, name, value] = /^(.+)=(.+)$/.exec(part.trim()) ?? [];
    if (name === undefined) throw new InvalidArgumentError("expected name=number,… or time");
    return [name, number(value!)];
  });
  const twice = pairs.find(([name], i) => pairs.findIndex(([other]) => other === name) < i);
  if (twice) throw new InvalidArgumentError(`${twice[0]} stands there twice`);
  return Object.fromEntries(pairs);
}

function parseLayout(text: string): ArchLayout {
  try {
    return JSON.parse(text) as ArchLayout;
  } catch {
    throw new InvalidArgumentError('expected JSON, as in ["w1",["w2"],"w1"]');
  }
}

function optionOf(flag: string, inner: z.ZodType, defaultValue: unknown, description: string): Option {
  const { type, entries } = inner.def as { type: string; entries?: Record<string, string> };
  if (type === "boolean")
    return new Option(defaultValue === true ? `--no-${flag}` : `--${flag}`, description);
  if (type === "enum") return new Option(`--${flag} <name>`, description).choices(Object.values(entries!));
  if (type === "number") return new Option(`--${flag} <n>`, description).argParser(number);
  if (type === "union")
    return new Option(`--${flag} <name=n,…|time>`, description).argParser((text) =>
      text === "time" ? text : namedNumbers(text),
    );
  return new Option(`--${flag} <text>`, description);
}

function unwrap(field: z.ZodType): { inner: z.ZodType; defaultValue: unknown } {
  let inner = field;
  let defaultValue: unknown;
  for (;;) {
    const {
      type,
      innerType,
      defaultValue: value,
    } = inner.def as {
      type: string;
      innerType?: z.ZodType;
      defaultValue?: unknown;
    };
    if ((type !== "default" && type !== "optional") || !innerType) return { inner, defaultValue };
    if (type === "default") defaultValue = value;
    inner = innerType;
  }
}

function kebab(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
