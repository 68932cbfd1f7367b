import { AegirError } from "../errors.js";
import type { RunConfig } from "./runFolder.js";

/**
 * A run may have a part where sites are held out only if its own training left out the same ones.
 * @param config of the run; absent: nothing is known of it
 * @param holdOut the share; absent: nothing is held out
 * @param argument what the run was given as
 * @throws AegirError ERR_CONFIG
 */
export function checkHeldOut(
  config: Pick<RunConfig, "options"> | undefined,
  holdOut: number | undefined,
  argument: string,
): void {
  if (holdOut === undefined || config === undefined || config.options.holdOut === holdOut) return;
  const own = config.options.holdOut;
  throw new AegirError(
    "ERR_CONFIG",
    `${argument}: a run that ${own === undefined ? "held out nothing" : `held out ${own} of the sites`} has seen columns that are held out here; train it with holdOut ${holdOut} (--hold-out ${holdOut})`,
  );
}
