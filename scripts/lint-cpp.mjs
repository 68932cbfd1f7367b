// Checks the format of every tracked C++ file; `--fix` formats them.
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";

const tracked = spawnSync("git", ["ls-files", "*.cc", "*.h", "*.cu"], { encoding: "utf8" });
const files = tracked.stdout.split("\n").filter(Boolean);
const binary = createRequire(import.meta.url)("clang-format").getNativeBinary();
const args = process.argv.includes("--fix") ? ["-i"] : ["--dry-run", "-Werror"];
const run = spawnSync(binary, [...args, ...files], { stdio: "inherit" });
console.log(`clang-format: ${files.length} files`);
process.exitCode = run.status ?? 1;
