import { z } from "zod";
import { parseOptions } from "../config.js";
import type { ColumnRef } from "../data/types.js";
import type { LinearSpecialist } from "./linearSpecialist.js";
import { type LinearData, linearSettings, type Running, trainLinear } from "./linearTraining.js";
import { NgramFeatures } from "./ngramFeatures.js";
import { ngramOptions } from "./ngrams.js";

export const ngramSpecialistOptions = z.strictObject({
  ...ngramOptions.shape,
  minDf: z.int().min(1).default(2).describe("leave out n-grams of fewer training columns"),
  context: z.boolean().default(true).describe("read the other columns of the table"),
  contextWeight: z
    .number()
    .positive()
    .default(0.5)
    .describe("length of the features of the other columns, the column's own being 1"),
  headers: z.boolean().default(false).describe("ngram, stacked: read the column's header too"),
  latent: z
    .int()
    .min(0)
    .max(1000)
    .default(0)
    .describe("read the n-grams' place in a latent space of as many dimensions too; 0: not"),
  ...linearSettings.shape,
});
export type NgramSpecialistOptions = z.input<typeof ngramSpecialistOptions>;

/**
 * Trains a linear classifier over TF-IDF-weighted hashed n-grams of a column and of its table's other columns.
 * @throws AegirError ERR_CONFIG naming the option; ERR_DATA; ERR_ABORTED
 */
export async function trainNgramSpecialist(
  data: LinearData,
  options: NgramSpecialistOptions & { id?: string } = {},
  running: Running = {},
): Promise<LinearSpecialist> {
  const { id = "ngram", ...given } = options;
  const settings = parseOptions("NgramSpecialist options", ngramSpecialistOptions, given);
  const refs: readonly ColumnRef[] = data.train;
  const { features, rows } = await NgramFeatures.fit(refs, settings, running.signal);
  return trainLinear(id, features, rows, data, settings, running);
}
