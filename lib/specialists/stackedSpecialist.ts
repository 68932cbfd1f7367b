import { z } from "zod";
import { parseOptions } from "../config.js";
import { siteOf } from "../data/sotab.js";
import type { ColumnRef } from "../data/types.js";
import { AegirError } from "../errors.js";
import { checkAscending, checkNumbers, checkStored } from "./checkStored.js";
import { FormatFeatures } from "./formatFeatures.js";
import { LinearSpecialist } from "./linearSpecialist.js";
import { type LabelledRef, type LinearData, labelsOf, type Running, trainLinear } from "./linearTraining.js";
import { type FeatureOptions, NgramFeatures } from "./ngramFeatures.js";
import { ngramSpecialistOptions, trainNgramSpecialist } from "./ngramSpecialist.js";
import { ReaderPairs } from "./readerPairs.js";
import { type Reader, StackedFeatures, type StackedParts } from "./stackedFeatures.js";

export const stackedSpecialistOptions = z.strictObject({
  ...ngramSpecialistOptions.shape,
  places: z
    .boolean()
    .default(true)
    .describe("stacked: read a column's place in its table and the number of columns"),
  formats: z.boolean().default(true).describe("stacked: read how a column is written"),
  readerLength: z
    .number()
    .positive()
    .default(0.5)
    .describe(
      "stacked: length of what each model says, and of the column's place, the column's own n-grams having length 1",
    ),
  pairs: z
    .boolean()
    .default(true)
    .describe("stacked: read pairs of what the models say of the column and of the others of its table"),
  readOwn: z.boolean().default(true).describe("stacked: read what an n-gram model of the same task says"),
});
export type StackedSpecialistOptions = z.input<typeof stackedSpecialistOptions>;

/** Labelled columns of another task, on tables of other sites than those that are judged by. */
export interface OtherTask {
  name: string;
  train: readonly LabelledRef[];
}

export interface StackedData extends LinearData {
  others?: readonly OtherTask[];
}

/** Parts of the sites: while the second level learns, a column is read by models that saw no table of its site. */
const SITE_FOLDS = 5;

/**
 * Stacked generalisation (Wolpert 1992): a linear classifier over n-grams, formats and what n-gram models of the same task and of other tasks
 * say of the column, of the other columns of its table, and of both together.
 * @throws AegirError ERR_CONFIG naming the option; ERR_DATA; ERR_ABORTED
 */
export async function trainStackedSpecialist(
  data: StackedData,
  options: StackedSpecialistOptions & { id?: string } = {},
  running: Running = {},
): Promise<LinearSpecialist> {
  const { id = "stacked", ...given } = options;
  if (data.train.length === 0) throw new AegirError("ERR_DATA", `specialist '${id}': no columns to train on`);
  const settings = parseOptions("StackedSpecialist options", stackedSpecialistOptions, given);
  const { readOwn, places, formats: withFormats, pairs: withPairs, readerLength, ...ngram } = settings;
  const tasks = [
    ...(readOwn ? [{ train: data.train, labels: data.labels, context: settings.context }] : []),
    ...(data.others ?? []).map(({ train }) => ({ train, labels: undefined, context: false })),
  ];
  const total = tasks.length * (SITE_FOLDS + 1) + 1 + settings.folds;
  let done = 0;
  const progress = () => running.onProgress?.(++done, total);
  const foldOf = siteFolds(tasks.flatMap(({ train }) => train));
  const readers: FoldedReader[] = [];
  for (const { train, labels, context } of tasks) {
    const models: LinearSpecialist[] = [];
    for (let fold = 0; fold <= SITE_FOLDS; fold++) {
      const without = train.filter(({ table }) => foldOf.get(siteOf(table.name)) !== fold);
      // Of a single site nothing is left.
      const columns = without.length > 0 ? without : train;
      const first = { train: columns, labels: labels ?? labelsOf(train) };
      const plain = { ...ngram, context, folds: 0, tau: 0 };
      models.push(await trainNgramSpecialist(first, plain, { signal: running.signal }));
      progress();
    }
    readers.push(new FoldedReader(models, foldOf));
  }
  const ngrams = NgramFeatures.fit(data.train, ngram).features;
  const formats = withFormats ? FormatFeatures.fit(data.train) : null;
  const parts = { ngrams, formats, readerLength, places };
  const { features, rows } = StackedFeatures.fit(data.train, { ...parts, readers, withPairs });
  const { learned } = await trainLinear(id, features, rows, data, settings, {
    signal: running.signal,
    onProgress: progress,
  });
  const models = readers.map(({ whole }) => whole);
  const whole = stackedFeatures({ ...parts, models, pairs: features.parts.pairs });
  return new LinearSpecialist(id, whole, learned);
}

/** The features of a trained specialist. @param options and @param take as `Kind.restore` */
export function restoreStacked(
  options: object,
  take: (name: string) => Int32Array | Float32Array,
): StackedFeatures {
  const {
    places,
    formats: written = false,
    pairs: paired = false,
    readerLength = 1,
    ngrams,
    readers,
  } = options as StoredOptions;
  const features = (of: FeatureOptions, prefix: string) =>
    NgramFeatures.restore(of, (name) => take(`${prefix}.${name}`));
  checkStored(Array.isArray(readers), "options without readers");
  const models = readers.map(({ labels, options: of }, i) => {
    const prefix = `reader${i}`;
    const floats = (name: string) => take(`${prefix}.${name}`) as Float32Array;
    const [weight, bias] = [floats("weight"), floats("bias")];
    const extractor = features(of, prefix);
    checkNumbers(weight, extractor.columns * labels.length, `weights of ${prefix}`);
    checkNumbers(bias, labels.length, `biases of ${prefix}`);
    const learned = { labels, weight, bias, logPrior: new Float32Array(bias.length), tau: 0 };
    return new LinearSpecialist(prefix, extractor, { ...learned, held: new Map() });
  });
  const formats = written ? FormatFeatures.restore(take("formats.deviation") as Float32Array) : null;
  const pairs = paired ? new ReaderPairs(take("pairs.kept") as Int32Array) : null;
  const said = models.reduce((sum, { labels }) => sum + labels.length, 0);
  checkAscending(pairs?.kept ?? [], said * said, "pairs");
  return stackedFeatures({
    ngrams: features(ngrams, "ngrams"),
    formats,
    models,
    pairs,
    readerLength,
    places,
  });
}

interface StoredOptions {
  places: boolean;
  /** Absent in runs older than it: false. */
  formats?: boolean;
  /** Absent in runs older than it: false. */
  pairs?: boolean;
  /** Absent in runs older than it: 1. */
  readerLength?: number;
  ngrams: FeatureOptions;
  readers: { labels: readonly string[]; options: FeatureOptions }[];
}

/** With models that read any column, and with what is stored of them. */
function stackedFeatures({
  models,
  ...parts
}: Omit<StackedParts, "readers"> & { models: readonly LinearSpecialist[] }): StackedFeatures {
  const { ngrams, formats, pairs, readerLength, places } = parts;
  const options: StoredOptions = {
    places,
    formats: formats !== null,
    pairs: pairs !== null,
    readerLength,
    ngrams: ngrams.options,
    readers: models.map(({ labels, extractor }) => ({
      labels,
      options: extractor.options as FeatureOptions,
    })),
  };
  const tensors = () => {
    const first: Record<string, Int32Array | Float32Array> = {
      ...named("ngrams", ngrams.tensors()),
      ...(formats && named("formats", formats.tensors())),
      ...(pairs && { "pairs.kept": pairs.kept }),
    };
    const all = new Map(Object.entries(first));
    for (const [i, { extractor, learned }] of models.entries()) {
      const { weight, bias } = learned;
      for (const [name, values] of Object.entries(
        named(`reader${i}`, { ...extractor.tensors(), weight, bias }),
      ))
        all.set(name, values);
    }
    return Object.fromEntries(all);
  };
  const readers = models.map((model) => ({ labels: model.labels, of: () => model }));
  return new StackedFeatures({ ...parts, readers }, options, tensors);
}

function named<T>(prefix: string, values: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [`${prefix}.${name}`, value]));
}

class FoldedReader implements Reader {
  /** @param models one for each fold, which left it out, and at the end one of all */
  constructor(
    private readonly models: readonly LinearSpecialist[],
    private readonly foldOf: ReadonlyMap<string, number>,
  ) {}

  get whole(): LinearSpecialist {
    return this.models.at(-1)!;
  }

  get labels(): readonly string[] {
    return this.whole.labels;
  }

  of({ table }: ColumnRef): LinearSpecialist {
    return this.models[this.foldOf.get(siteOf(table.name)) ?? this.models.length - 1]!;
  }
}

function siteFolds(refs: readonly ColumnRef[]): Map<string, number> {
  const sites = [...new Set(refs.map(({ table }) => siteOf(table.name)))].sort();
  return new Map(sites.map((site, i) => [site, i % SITE_FOLDS]));
}
