import { existsSync } from "node:fs";
import path from "node:path";

const folder = process.env.AEGIR_SHARED ?? path.resolve("..", "shared");

/** Why tests on third-party tables are skipped: the tables are not part of the repository. */
export const SHARED_ABSENT = `no ${path.join(folder, "data")}; set AEGIR_SHARED to the folder that holds data/`;

/** A folder of third-party tables beside the repository, or null with a printed reason. */
export function sharedData(name: string): string | null {
  const dir = path.join(folder, "data", name);
  if (existsSync(dir)) return dir;
  console.log(`skipped: ${SHARED_ABSENT}`);
  return null;
}
