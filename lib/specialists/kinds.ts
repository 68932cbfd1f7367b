import type { z } from "zod";
import { FormatFeatures } from "./formatFeatures.js";
import { formatSpecialistOptions, trainFormatSpecialist } from "./formatSpecialist.js";
import type { Extractor, LinearSpecialist } from "./linearSpecialist.js";
import type { Running } from "./linearTraining.js";
import { type FeatureOptions, NgramFeatures } from "./ngramFeatures.js";
import { ngramSpecialistOptions, trainNgramSpecialist } from "./ngramSpecialist.js";
import {
  restoreStacked,
  type StackedData,
  stackedSpecialistOptions,
  trainStackedSpecialist,
} from "./stackedSpecialist.js";

export type SpecialistKind = "ngram" | "format" | "stacked";

interface Kind {
  options: z.ZodObject;
  /** @param data of which stacked alone reads other tasks */
  train(data: StackedData, options: object, running?: Running): Promise<LinearSpecialist>;
  /** @param options as the extractor gave them @param take a tensor of its by name */
  restore(options: object, take: (name: string) => Int32Array | Float32Array): Extractor;
}

/** The kinds that can be trained by name and stored in a run. */
export const SPECIALIST_KINDS: Record<SpecialistKind, Kind> = {
  ngram: {
    options: ngramSpecialistOptions,
    train: trainNgramSpecialist,
    restore: (options, take) => NgramFeatures.restore(options as FeatureOptions, take),
  },
  format: {
    options: formatSpecialistOptions,
    train: trainFormatSpecialist,
    restore: (_, take) => FormatFeatures.restore(take("deviation") as Float32Array),
  },
  stacked: {
    options: stackedSpecialistOptions,
    train: trainStackedSpecialist,
    restore: restoreStacked,
  },
};
