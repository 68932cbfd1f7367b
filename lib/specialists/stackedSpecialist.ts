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
  wordPairs: z
    .boolean()
    .default(true)
    .describe("stacked: read words of the column and pairs of neighbouring words"),
  shapes: z.boolean().default(true).describe("stacked: read n-grams of what digits and letters look like"),
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

/** Over an n-gram specialist's options: words by themselves and with the next, and what text looks like. */
const OF_CELLS = { context: false, headers: false, latent: 0 } as const;
const WORDS = { ...OF_CELLS, unit: "words", minN: 1, maxN: 2 } as const;
const SHAPES = { ...OF_CELLS, unit: "shapes", minN: 1, maxN: 5, words: false } as const;

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
  const { readOwn, places, pairs: withPairs, readerLength, ...written } = settings;
  const { wordPairs, shapes: withShapes, formats: withFormats, ...ngram } = written;
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
      const plain = { ...ngram, context, latent: 0, folds: 0, tau: 0 };
      models.push(await trainNgramSpecialist(first, plain, { signal: running.signal }));
      progress();
    }
    readers.push(new FoldedReader(models, foldOf));
  }
  const ngramsOf = async (options: object) =>
    (await NgramFeatures.fit(data.train, { ...ngram, ...options }, running.signal)).features;
  const parts = {
    ngrams: await ngramsOf({}),
    words: wordPairs ? await ngramsOf(WORDS) : null,
    shapes: withShapes ? await ngramsOf(SHAPES) : null,
    formats: withFormats ? FormatFeatures.fit(data.train) : null,
    readerLength,
    places,
  };
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
  const { places, formats, pairs, readerLength, ngrams, words, shapes, readers } = options as StoredOptions;
  checkStored(Array.isArray(readers), "options without readers");
  if (words === undefined) {
    throw new AegirError(
      "ERR_CHECKPOINT",
      "options without words: written by an older version, to which readers said another thing; train it again",
    );
  }
  const features = (of: FeatureOptions, prefix: string) =>
    NgramFeatures.restore(of, (name) => take(`${prefix}.${name}`));
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
  const said = models.reduce((sum, { labels }) => sum + labels.length, 0);
  const kept = pairs ? (take("pairs.kept") as Int32Array) : new Int32Array(0);
  checkAscending(kept, said * said, "pairs");
  return stackedFeatures({
    ngrams: features(ngrams, "ngrams"),
    words: words && features(words, "words"),
    shapes: shapes && features(shapes, "shapes"),
    formats: formats ? FormatFeatures.restore(take("formats.deviation") as Float32Array) : null,
    models,
    pairs: pairs ? new ReaderPairs(kept) : null,
    readerLength,
    places,
  });
}

interface StoredOptions {
  places: boolean;
  formats: boolean;
  pairs: boolean;
  readerLength: number;
  ngrams: FeatureOptions;
  words: FeatureOptions | null;
  shapes: FeatureOptions | null;
  readers: { labels: readonly string[]; options: FeatureOptions }[];
}

/** With models that read any column, and with what is stored of them. */
function stackedFeatures({
  models,
  ...parts
}: Omit<StackedParts, "readers"> & { models: readonly LinearSpecialist[] }): StackedFeatures {
  const { ngrams, words, shapes, formats, pairs, readerLength, places } = parts;
  const options: StoredOptions = {
    places,
    formats: formats !== null,
    pairs: pairs !== null,
    readerLength,
    ngrams: ngrams.options,
    words: words?.options ?? null,
    shapes: shapes?.options ?? null,
    readers: models.map(({ labels, extractor }) => ({
      labels,
      options: extractor.options as FeatureOptions,
    })),
  };
  const tensors = () => {
    const first: Record<string, Int32Array | Float32Array> = {
      ...named("ngrams", ngrams.tensors()),
      ...(words && named("words", words.tensors())),
      ...(shapes && named("shapes", shapes.tensors())),
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
