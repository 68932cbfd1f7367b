import { spawnSync } from "node:child_process";

/** Tests that start the command line or worker threads run dist/: it is compiled from the sources under test first. */
export default function setup(): void {
  const run = spawnSync("npx", ["--no-install", "tsc", "-p", "tsconfig.build.json"], { encoding: "utf8" });
  if (run.status !== 0) throw new Error(`tsc -p tsconfig.build.json failed:\n${run.stdout}${run.stderr}`);
}
