import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { AegirError } from "../errors.js";
import { writeFileAtomic } from "./atomic.js";
import { priceShares } from "./rolloutRewards.js";

const schema = z.record(z.string(), z.number().min(0));

/**
 * What each specialist costs by its time: measured once for a run, whose router would learn towards other prices every time it is
 * resumed.
 * @param dir folder of the run, which keeps them in `prices.json`; undefined: it has none
 * @param times milliseconds that each took for a column; null: it failed, and costs as much as the dearest of the others
 * @returns milliseconds by name
 * @throws AegirError ERR_CHECKPOINT where the file is damaged
 */
export async function timePrices(
  dir: string | undefined,
  names: readonly string[],
  times: readonly (number | null)[],
): Promise<Record<string, number>> {
  const recorded = dir === undefined ? null : await recordedPrices(dir, names);
  if (recorded) return recorded;
  const dearest = Math.max(...times.map((time) => time ?? 0));
  const prices = Object.fromEntries(names.map((name, n) => [name, times[n] ?? dearest]));
  if (dir !== undefined) await writeFileAtomic(fileOf(dir), `${JSON.stringify(prices, null, 2)}\n`);
  return prices;
}

/** Null where the run has none. @throws AegirError ERR_CHECKPOINT for a file that is damaged, or of other specialists */
export async function recordedPrices(
  dir: string,
  names?: readonly string[],
): Promise<Record<string, number> | null> {
  const path = fileOf(dir);
  if (!existsSync(path)) return null;
  try {
    const prices = schema.parse(JSON.parse(await readFile(path, "utf8")));
    priceShares(names ?? Object.keys(prices), prices);
    return prices;
  } catch (cause) {
    throw new AegirError("ERR_CHECKPOINT", `${path} is damaged: remove it, and prices are measured again`, {
      cause,
    });
  }
}

function fileOf(dir: string): string {
  return join(dir, "prices.json");
}
