import { z } from "zod";
import { parseOptions } from "../config.js";
import { FormatFeatures } from "./formatFeatures.js";
import type { LinearSpecialist } from "./linearSpecialist.js";
import { type LinearData, linearSettings, type Running, trainLinear } from "./linearTraining.js";

export const formatSpecialistOptions = z.strictObject({ ...linearSettings.shape });
export type FormatSpecialistOptions = z.input<typeof formatSpecialistOptions>;

/**
 * Trains a linear classifier over the formats of a column's numbers, dates and codes.
 * @throws AegirError ERR_CONFIG naming the option; ERR_DATA; ERR_ABORTED
 */
export async function trainFormatSpecialist(
  data: LinearData,
  options: FormatSpecialistOptions & { id?: string } = {},
  running: Running = {},
): Promise<LinearSpecialist> {
  const { id = "format", ...given } = options;
  const settings = parseOptions("FormatSpecialist options", formatSpecialistOptions, given);
  const features = FormatFeatures.fit(data.train);
  return trainLinear(id, features, features.transform(data.train), data, settings, running);
}
