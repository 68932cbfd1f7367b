import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { ColumnRef, Dataset } from "../../lib/data/types.js";
import {
  type LinearSpecialist,
  labelledRefs,
  ngramBaselines,
  SPECIALIST_KINDS,
  type SpecialistKind,
  trainNgramSpecialist,
  withoutHeldOutSites,
} from "../../lib/specialists/index.js";
import { annotateTable } from "../../lib/train/annotate.js";
import { loadCheckpoint, saveCheckpoint } from "../../lib/train/checkpoint.js";
import { evaluateRun } from "../../lib/train/evaluateRun.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { loadSpecialist, saveSpecialist, trainSpecialist } from "../../lib/train/specialistRun.js";
import { expectError } from "../swarm/support.js";
import { folder, tinyDataset } from "../train/support.js";
import { table } from "./support.js";

const KINDS = Object.keys(SPECIALIST_KINDS) as SpecialistKind[];
let dataset: Dataset;

beforeAll(async () => {
  dataset = await tinyDataset();
});

/** What text may hold at worst. */
const ODD: ColumnRef[] = [
  { table: table("empty", []), column: 0 },
  { table: table("blank", ["", "  ", "\t"], ["x"]), column: 0 },
  { table: table("surrogates", ["\ud800", "a\udc00b", "😀"], ["\udfff"]), column: 0 },
  { table: table("controls", ["\u0000\u0001", "\u202e", "\ufffd"], ["é", "e\u0301"]), column: 1 },
  { table: table("long", ["9".repeat(100_000), `${"a ".repeat(50_000)}`]), column: 0 },
  { table: table("big", ["1e999", "-1,234,567.891", `${"1".repeat(400)}`]), column: 0 },
  {
    table: table(
      "many",
      Array.from({ length: 5000 }, (_, i) => `v${i}`),
    ),
    column: 0,
  },
];

function train(kind: SpecialistKind, options: object = {}): Promise<LinearSpecialist> {
  const data = { train: labelledRefs(dataset, "train"), validation: labelledRefs(dataset, "validation") };
  return SPECIALIST_KINDS[kind].train(data, options);
}

function expectDistributions(values: Float32Array, classes: number): void {
  for (let from = 0; from < values.length; from += classes) {
    const sum = values.subarray(from, from + classes).reduce((total, logp) => total + Math.exp(logp), 0);
    expect(sum).toBeCloseTo(1, 5);
  }
}

describe.each(KINDS)("a specialist of kind %s", (kind) => {
  it("is deterministic, beats the most frequent label, and says distributions of odd columns", async () => {
    const [one, other] = [await train(kind), await train(kind)];
    expect(other.weightsHash()).toBe(one.weightsHash());
    expect(other.learned.held).toEqual(one.learned.held);
    const classes = one.labels.length;
    const test = labelledRefs(dataset, "test");
    const said = await one.logProbabilities(test);
    expectDistributions(said, classes);
    const right = test.filter(({ label }, i) => {
      const row = said.subarray(i * classes, (i + 1) * classes);
      return one.labels[row.indexOf(Math.max(...row))] === label;
    });
    expect(right.length / test.length).toBeGreaterThan(0.3);
    expectDistributions(await one.logProbabilities(ODD), classes);
    expect(await one.logProbabilities([])).toEqual(new Float32Array(0));
  });

  it("says of a training column what a fit without its table says", async () => {
    const [held, seen] = [await train(kind, { tau: 0 }), await train(kind, { tau: 0, folds: 0 })];
    const columns = labelledRefs(dataset, "train");
    expect(held.learned.held.size).toBe(columns.length);
    expect(held.learned.weight).toEqual(seen.learned.weight);
    const mean = async (specialist: LinearSpecialist, refs: typeof columns) => {
      const said = await specialist.logProbabilities(refs);
      const classes = specialist.labels.length;
      const own = refs.map(({ label }, i) => said[i * classes + specialist.labels.indexOf(label)]!);
      return own.reduce((sum, logp) => sum + logp, 0) / own.length;
    };
    expect(await mean(held, columns)).toBeLessThan(await mean(seen, columns));
    const renamed = columns.map((ref) => ({
      ...ref,
      table: { ...ref.table, name: `other ${ref.table.name}` },
    }));
    expect(await held.logProbabilities(renamed)).toEqual(await seen.logProbabilities(renamed));
  });

  it("is the same after saving and loading, and evaluates and annotates as a run", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    const specialist = await trainSpecialist({ kind, dataset, out });
    const loaded = await loadSpecialist(out, "other name");
    expect(loaded.id).toBe("other name");
    expect(loaded.weightsHash()).toBe(specialist.weightsHash());
    const columns = [
      ...labelledRefs(dataset, "train").slice(0, 20),
      ...labelledRefs(dataset, "test"),
      ...ODD,
    ];
    expect(await loaded.logProbabilities(columns)).toEqual(await specialist.logProbabilities(columns));
    using run = await loadRun(out);
    expect(run.labels).toEqual(specialist.labels);
    const { macroF1, n } = await evaluateRun(run, dataset, { split: "test", unknownLabels: "skip" });
    expect(n).toBeGreaterThan(0);
    expect(macroF1).toBeGreaterThan(0.2);
    const one = [...dataset.tables.values()][0]!;
    const annotations = await annotateTable(run, one);
    expect(annotations.length).toBe(one.columns.length);
    await expect(trainSpecialist({ kind, dataset, out })).rejects.toThrow(
      expectError("ERR_CONFIG", /already holds a run/),
    );
    await expect(saveSpecialist(out, specialist, "cta")).rejects.toThrow(
      expectError("ERR_CONFIG", /already holds/),
    );
  });
});

describe("errors", () => {
  it("name the option, the column or the file", async () => {
    const data = { train: labelledRefs(dataset, "train") };
    await expect(trainNgramSpecialist(data, { buckets: 1000 })).rejects.toThrow(
      expectError("ERR_CONFIG", /buckets: expected a power of two/),
    );
    for (const kind of ["ngram", "stacked"] as const)
      await expect(train(kind, { minN: 5 })).rejects.toThrow(
        expectError("ERR_CONFIG", /minN \(--min-n\): was 5, above maxN \(--max-n\) 4/),
      );
    await expect(train("stacked", { readerLength: 1e300, folds: 0 })).rejects.toThrow(
      expectError("ERR_NON_FINITE", /'stacked': its weights are not finite/),
    );
    await expect(trainNgramSpecialist(data, { bucket: 4 } as object)).rejects.toThrow(
      expectError("ERR_CONFIG", /unknown option 'bucket'; did you mean 'buckets'/),
    );
    await expect(trainNgramSpecialist({ train: [] })).rejects.toThrow(
      expectError("ERR_DATA", /no columns to train on/),
    );
    await expect(trainNgramSpecialist({ ...data, labels: ["one"] })).rejects.toThrow(
      expectError("ERR_DATA", /not among/),
    );
    const signal = AbortSignal.abort();
    await expect(trainNgramSpecialist(data, {}, { signal })).rejects.toThrow(
      expectError("ERR_ABORTED", /interrupted/),
    );
    const specialist = await trainNgramSpecialist(data, { folds: 0, context: false });
    await expect(specialist.logProbabilities([{ table: table("t", ["a"]), column: 1 }])).rejects.toThrow(
      expectError("ERR_DATA", /column was 1, but table 't' has columns 0 to 0/),
    );
  });

  it("say what is wrong with a stored specialist", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    await trainSpecialist({ kind: "ngram", dataset, out, options: { folds: 0 } });
    const config = join(out, "config.json");
    const text = await readFile(config, "utf8");
    await writeFile(config, text.replace('"ngram"', '"rules"'));
    await expect(loadSpecialist(out)).rejects.toThrow(
      expectError("ERR_CHECKPOINT", /expected a specialist: ngram or format/),
    );
    await writeFile(config, text.replace('"context": true', '"context": false'));
    await expect(loadSpecialist(out)).rejects.toThrow(
      expectError("ERR_CHECKPOINT", /weights of \d+ values, expected \d+/),
    );
    expect(existsSync(join(out, "best"))).toBe(true);
  });

  it("find every damaged part of a stored specialist when it is loaded", async () => {
    await using dir = await folder();
    const out = join(dir.path, "run");
    await trainSpecialist({ kind: "stacked", dataset, out, options: { folds: 2 } });
    const best = join(out, "best");
    const floats = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);
    const whole = (...values: bigint[]) => new Uint8Array(BigInt64Array.from(values).buffer);
    type Stored = { data: Uint8Array; shape: number[]; dtype: string };
    const count = ({ shape }: Stored) => shape.reduce((a, b) => a * b);
    const asWhole = (t: Stored) => Object.assign(t, { dtype: "i64", data: new Uint8Array(8 * count(t)) });
    const asReal = (t: Stored) => Object.assign(t, { dtype: "f32", data: new Uint8Array(4 * count(t)) });
    const cases: [string, (tensor: Stored) => void, RegExp][] = [
      ["weight", asWhole, /weights of another type than f32/],
      ["features.ngrams.own.idf", asWhole, /idf\) of another type than f32/],
      ["features.ngrams.own.buckets", asReal, /buckets of n-grams of another type than whole numbers/],
      [
        "logPrior",
        (t) => Object.assign(t, { data: t.data.subarray(4), shape: [t.shape[0]! - 1] }),
        /prior of \d+ values/,
      ],
      ["weight", (t) => t.data.set(floats(Number.NaN)), /weights, expected finite/],
      ["features.pairs.kept", (t) => t.data.set(whole(5n, 5n)), /pairs, expected ascending/],
      ["features.pairs.kept", (t) => t.data.set(whole(-1n)), /pairs, expected ascending/],
      [
        "features.ngrams.own.buckets",
        (t) => t.data.set(whole(2n ** 30n)),
        /buckets of n-grams, expected ascending/,
      ],
      [
        "features.ngrams.own.idf",
        (t) => Object.assign(t, { data: t.data.subarray(4), shape: [t.shape[0]! - 1] }),
        /idf\) of \d+ values/,
      ],
      ["features.ngrams.own.idf", (t) => t.data.set(floats(0)), /\(idf\) under 1/],
      [
        "features.formats.deviation",
        (t) => Object.assign(t, { data: t.data.subarray(4), shape: [t.shape[0]! - 1] }),
        /formats of \d+ values/,
      ],
      [
        "features.reader0.bias",
        (t) => Object.assign(t, { data: t.data.subarray(4), shape: [t.shape[0]! - 1] }),
        /reader0 of \d+ values/,
      ],
    ];
    const sound = await loadCheckpoint<{ tau: number; held?: string[] }>(best);
    const model = sound.groups.model!;
    for (const [name, damage, message] of cases) {
      const tensor = model.get(name)!;
      const damaged = { ...tensor, data: tensor.data.slice() };
      damage(damaged);
      await saveCheckpoint(best, {
        ...sound,
        groups: { ...sound.groups, model: new Map([...model, [name, damaged]]) },
      });
      await expect(loadSpecialist(out), name).rejects.toThrow(expectError("ERR_CHECKPOINT", message));
    }
    for (const [state, message] of [
      [{ ...sound.state, tau: "x" as never }, /tau was x/],
      [{ tau: 0 }, /names no columns/],
    ] as const) {
      await saveCheckpoint(best, { ...sound, state });
      await expect(loadSpecialist(out)).rejects.toThrow(expectError("ERR_CHECKPOINT", message));
    }
    await saveCheckpoint(best, sound);
    const config = join(out, "config.json");
    const text = await readFile(config, "utf8");
    await writeFile(config, text.replace('"readers"', '"others"'));
    await expect(loadSpecialist(out)).rejects.toThrow(expectError("ERR_CHECKPOINT", /without readers/));
    const older = JSON.parse(text, (key, value) => (key === "words" && value?.unit ? undefined : value));
    await writeFile(config, JSON.stringify(older));
    await expect(loadSpecialist(out)).rejects.toThrow(
      expectError("ERR_CHECKPOINT", /an older version.*train it again/),
    );
    await writeFile(config, text);
    await loadSpecialist(out);
  });
});

describe("baselines", () => {
  it("score the same files, with a CPA model of other sites' tables", async () => {
    const cpa: Dataset = { ...dataset, task: "cpa" };
    const all = await ngramBaselines(dataset, { other: cpa, splits: ["validation", "test"] });
    expect(all.map(({ name }) => name)).toEqual(["own", "context", "context, τ", "context + CPA, τ"]);
    for (const { scores, parameters, cpuSeconds } of all) {
      expect(scores.validation!.macro).toBeGreaterThan(0.2);
      expect(scores.test!.micro).toBeLessThanOrEqual(1);
      expect(Math.min(parameters, cpuSeconds)).toBeGreaterThan(0);
    }
  });

  it("leave out every table of a site in the validation or test split", () => {
    const name = (site: string, i: number) => `Book_${site}_September2020_CPA_${i}.json.gz`;
    const tables = [name("a.org", 0), name("b.org", 1), name("a.org", 2)].map((of) => table(of, ["x"]));
    const labelled = tables.map(({ name: of }) => ({ table: of, column: 0, label: "x" }));
    const set = (splits: Partial<Dataset["splits"]>): Dataset => ({
      ...dataset,
      tables: new Map(tables.map((each) => [each.name, each])),
      splits: { train: [], validation: [], test: [], ...splits },
    });
    const other = set({ train: labelled.slice(0, 2) });
    for (const split of ["validation", "test"] as const) {
      const kept = withoutHeldOutSites(other, set({ [split]: labelled.slice(2) }));
      expect(kept.map(({ table: { name: of } }) => of)).toEqual([name("b.org", 1)]);
    }
  });
});
