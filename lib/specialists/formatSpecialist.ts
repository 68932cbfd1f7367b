import { z } from "zod";
import { parseOptions } from "../config.js";
import { FORMAT_FEATURES, formatRows } from "./formatFeatures.js";
import type { Extractor, LinearSpecialist } from "./linearSpecialist.js";
import { type LinearData, linearSettings, type Running, trainLinear } from "./linearTraining.js";

export const formatSpecialistOptions = z.strictObject({ ...linearSettings.shape });
export type FormatSpecialistOptions = z.input<typeof formatSpecialistOptions>;

/** How cells are written: `formatRows`. It learns nothing by itself. */
export const formatExtractor: Extractor = {
  kind: "format",
  columns: FORMAT_FEATURES,
  options: {},
  tensors: () => ({}),
  transform: formatRows,
};

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
  return trainLinear(id, formatExtractor, formatRows(data.train), data, settings, running);
}
