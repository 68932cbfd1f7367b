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
  const path = dir && join(dir, "prices.json");
  if (path && existsSync(path)) return recorded(path, names);
  const dearest = Math.max(...times.map((time) => time ?? 0));
  const prices = Object.fromEntries(names.map((name, n) => [name, times[n] ?? dearest]));
  if (path) await writeFileAtomic(path, `${JSON.stringify(prices, null, 2)}\n`);
  return prices;
}

async function recorded(path: string, names: readonly string[]): Promise<Record<string, number>> {
  try {
    const prices = schema.parse(JSON.parse(await readFile(path, "utf8")));
    priceShares(names, prices);
    return prices;
  } catch (cause) {
    throw new AegirError("ERR_CHECKPOINT", `${path} is damaged: remove it, and prices are measured again`, {
      cause,
    });
  }
}
