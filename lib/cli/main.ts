#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { Command, InvalidArgumentError } from "commander";
import { AegirError } from "../errors.js";
import { register as registerAnnotate } from "./annotate.js";
import { register as registerData } from "./data.js";
import { register as registerDemo } from "./demo.js";
import { register as registerDoctor } from "./doctor.js";
import { errorLine } from "./errorLine.js";
import { register as registerEvaluate } from "./evaluate.js";
import { register as registerExperiment } from "./experiment.js";
import { register as registerRewards } from "./rewards.js";
import { register as registerSetup } from "./setup.js";
import { register as registerTrain } from "./train.js";

/** Every command stands in a file of its own and adds itself here. */
const commands = [
  registerSetup,
  registerDoctor,
  registerTrain,
  registerEvaluate,
  registerRewards,
  registerExperiment,
  registerAnnotate,
  registerDemo,
  registerData,
];

const json = process.argv.includes("--json");

/** One line on stderr; with `--json` also an object on stdout, so that a program reading it always finds JSON. */
function report(code: string, message: string): void {
  process.stderr.write(errorLine(code, message));
  if (json) process.stdout.write(`${JSON.stringify({ error: { code, message } })}\n`);
}

/** The exit code: 130 after an interrupt, as shells have it. */
function fail(error: unknown): number {
  if (error instanceof AegirError) {
    report(error.code, error.message);
    return error.code === "ERR_ABORTED" ? 130 : 1;
  }
  if (error instanceof Error && "syscall" in error) report("ERR_DATA", error.message);
  else report("ERR_INTERNAL", error instanceof Error ? (error.stack ?? error.message) : String(error));
  return 1;
}

/** `--out --quiet` forgot a value, and is no folder of that name; `./--quiet` is. */
function refuseOptionsAsValues(command: Command): void {
  for (const option of command.options.filter(({ required }) => required)) {
    const parse = option.parseArg;
    option.argParser((text, former: unknown) => {
      if (text === "-h" || text.startsWith("--"))
        throw new InvalidArgumentError(`it looks like an option; give --${option.name()} a value`);
      if (parse) return parse(text, former);
      if (!option.variadic) return text;
      return Array.isArray(former) && former !== option.defaultValue ? [...former, text] : [text];
    });
  }
  command.commands.forEach(refuseOptionsAsValues);
}

function build(): Command {
  const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  const program = new Command("aegir-swarm")
    .description(manifest.description)
    .version(manifest.version)
    .showHelpAfterError("(add --help for the options)")
    .configureOutput({
      outputError: (text, write) => {
        if (text.startsWith("error: "))
          report("ERR_ARGUMENT", text.slice("error: ".length).trim().replaceAll("\n", " "));
        else write(text);
      },
    });
  for (const register of commands) register(program);
  refuseOptionsAsValues(program);
  return program;
}

// A reader that closes early (`| head`) ends the command quietly.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  process.stderr.write(`error [ERR_DATA]: the output cannot be written (${error.message})\n`);
  process.exit(1);
});
// Where messages cannot be written, the exit code still tells.
process.stderr.on("error", () => {});

try {
  await build().parseAsync();
} catch (error) {
  process.exitCode = fail(error);
}
