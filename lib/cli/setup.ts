import type { Command } from "commander";
import { setUp } from "../../scripts/build/setup.mjs";
import { asAegirError } from "../native/libtorch.js";
import { diagnose, printDiagnosis } from "./doctor.js";

export function register(program: Command): void {
  program
    .command("setup")
    .description("find or get libtorch, and make the addon loadable on it")
    .option("--libtorch <dir>", "use the libtorch in this directory (with include/ and lib/)")
    .option("--rebuild", "compile the addon even where a binary fits")
    .option("--json", "print what doctor --json prints")
    .action((options: { libtorch?: string; rebuild?: boolean; json?: boolean }) => {
      const { libtorch: option, rebuild } = options;
      asAegirError(() => setUp({ option, ...(rebuild ? { rebuild } : {}) }));
      const diagnosis = diagnose();
      if (options.json) process.stdout.write(`${JSON.stringify(diagnosis, null, 2)}\n`);
      else printDiagnosis(diagnosis);
      if (!diagnosis.ok) process.exitCode = 1;
    });
}
