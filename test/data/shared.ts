import { existsSync } from "node:fs";
import path from "node:path";

const folder = process.env.AEGIR_SHARED ?? path.resolve("..", "shared");

/** A folder of third-party tables beside the repository, or null with a printed reason: they are not part of it. */
export function sharedData(name: string): string | null {
  const dir = path.join(folder, "data", name);
  if (existsSync(dir)) return dir;
  console.log(`skipped: no ${dir} (set AEGIR_SHARED to the folder that holds data/)`);
  return null;
}
