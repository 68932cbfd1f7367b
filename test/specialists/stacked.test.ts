import { join } from "node:path";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { Random } from "../../lib/data/random.js";
import type { Dataset } from "../../lib/data/types.js";
import { labelledRefs, scoresOf, trainStackedSpecialist } from "../../lib/specialists/index.js";
import type { StackedFeatures } from "../../lib/specialists/stackedFeatures.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { trainSpecialist } from "../../lib/train/specialistRun.js";
import { expectError } from "../swarm/support.js";
import { folder, tinyDataset } from "../train/support.js";
import { table } from "./support.js";

let dataset: Dataset;

beforeAll(async () => {
  dataset = await tinyDataset();
});

describe("a stacked specialist", () => {
  /** What another task knows: whether a table is of one kind or another, which no cell of the target says. */
  function twoTasks(): { cta: Dataset; other: Dataset } {
    const tables = Array.from({ length: 60 }, (_, i) => {
      const films = i % 2 === 0;
      const cells = (make: (row: number) => string) => Array.from({ length: 4 }, (_, row) => make(row));
      return table(
        `table ${i}`,
        cells((row) => `name ${(7 * i + row) % 23}`),
        cells((row) => (films ? "ab" : "cd").charAt(row % 2) + ((i * 31 + row * 17) % 97)),
      );
    });
    const split = (i: number) => (i < 40 ? "train" : i < 50 ? "validation" : "test");
    const of = (column: number, label: (i: number) => string): Dataset => {
      const splits: Dataset["splits"] = { train: [], validation: [], test: [] };
      for (const [i, each] of tables.entries())
        splits[split(i)].push({ table: each.name, column, label: label(i) });
      const labels = [
        ...new Set(
          Object.values(splits)
            .flat()
            .map((ref) => ref.label),
        ),
      ].sort();
      return { ...dataset, labels, tables: new Map(tables.map((each) => [each.name, each])), splits };
    };
    const kind = (i: number) => (i % 2 === 0 ? "film" : "book");
    return { cta: of(0, (i) => `${kind(i)}/name`), other: { ...of(1, kind), task: "cpa" } };
  }

  it("knows from another task's model what the column itself does not show", async () => {
    const { cta, other } = twoTasks();
    const options = { context: false, readOwn: false, places: false };
    const scores = await Promise.all(
      [[], [other]].map(async (others) =>
        scoresOf(
          await trainSpecialist({ kind: "stacked", dataset: cta, others, options }),
          labelledRefs(cta, "test"),
        ),
      ),
    );
    expect(scores[0]!.micro).toBeLessThan(0.8);
    expect(scores[1]!.micro).toBe(1);
    await expect(trainSpecialist({ kind: "ngram", dataset: cta, others: [other] })).rejects.toThrow(
      expectError("ERR_CONFIG", /others: a specialist of kind ngram reads no other task/),
    );
  });

  it("knows what a column and its table say together, which neither says by itself", async () => {
    // A name in a table of films or a code in one of books is "a"; what is left is "b".
    const random = new Random(3, "pairs");
    const word = (letters: string) =>
      Array.from({ length: 6 }, () => letters[random.int(letters.length)]).join("");
    const refs = Array.from({ length: 120 }, (_, i) => {
      const [name, film] = [i % 2 === 0, i % 4 < 2];
      const cells = (letters: string) => Array.from({ length: 4 }, () => word(letters));
      const each = table(
        `table ${i}`,
        cells(name ? "abcdefg" : "0123456"),
        cells(film ? "nopqrst" : "NOPQRST"),
      );
      return {
        table: each,
        column: 0,
        label: name === film ? "a" : "b",
        kind: film ? "film" : "book",
        what: name ? "name" : "code",
      };
    });
    // The other task knows both columns, and that is all that is read.
    const other = refs.flatMap(({ table, kind, what }) => [
      { table, column: 0, label: what },
      { table, column: 1, label: kind },
    ]);
    const options = {
      lowercase: false,
      context: false,
      readOwn: false,
      wordPairs: false,
      shapes: false,
      formats: false,
      places: false,
      folds: 0,
    };
    const scores = await Promise.all(
      [false, true].map(async (pairs) =>
        scoresOf(
          await trainStackedSpecialist(
            { train: refs.slice(0, 80), others: [{ name: "other", train: other.slice(0, 160) }] },
            { ...options, pairs },
          ),
          refs.slice(80),
        ),
      ),
    );
    expect(scores[0]!.micro).toBeLessThan(0.8);
    expect(scores[1]!.micro).toBe(1);
  });

  it("asks its readers about a table once, however many of its columns are asked about", async () => {
    const { cta } = twoTasks();
    const train = labelledRefs(cta, "train");
    const specialist = await trainStackedSpecialist({ train }, { folds: 0 });
    const [reader] = (specialist.extractor as StackedFeatures).parts.readers.map((each) =>
      each.of(train[0]!),
    );
    const asked = vi.spyOn(reader!, "logProbabilitiesOf");
    const wide = table("wide", ...Array.from({ length: 100 }, (_, i) => [`name ${i % 23}`, `ab${i}`]));
    const refs = wide.columns.map((_, column) => ({ table: wide, column }));
    const all = await specialist.logProbabilities(refs);
    expect(asked).toHaveBeenCalledTimes(1);
    // The same as of a column of the same table asked about by itself.
    const again = { ...wide, name: "again" };
    const one = await specialist.logProbabilities([{ table: again, column: 57 }]);
    expect(one).toEqual(all.subarray(57 * 2, 58 * 2));
  });

  it("learns from the tables of a single site too", async () => {
    const { cta } = twoTasks();
    const table = [...cta.tables.values()][0]!;
    const train = [0, 1].map((column) => ({ table, column, label: `column ${column}` }));
    const specialist = await trainStackedSpecialist({ train }, { folds: 0, minDf: 1 });
    expect((await scoresOf(specialist, train)).micro).toBe(1);
  });

  it("hears of other columns what is said most of any of them, and of an only column nothing", async () => {
    const { cta, other } = twoTasks();
    const train = labelledRefs(cta, "train");
    const others = [{ name: "other", train: labelledRefs(other, "train") }];
    const options = { readOwn: false, wordPairs: false, shapes: false, formats: false, pairs: false };
    const { extractor } = await trainStackedSpecialist(
      { train, others },
      { ...options, places: false, readerLength: 1, folds: 0 },
    );
    const { ngrams, readers } = (extractor as StackedFeatures).parts;
    const columns = [["name 1"], ["ab1"], ["cd2"], ["ab3"]];
    const probed = table("probed", ...columns);
    const refs = columns.map((_, column) => ({ table: probed, column }));
    const powers = refs.map((ref) => {
      const said = [...readers[0]!.of(ref).logProbabilitiesOf([ref])].map((logp) => Math.exp(0.75 * logp));
      return said.map((value) => value / Math.hypot(...said));
    });
    const rows = extractor.transform([...refs, { table: table("alone", ["ab1"]), column: 0 }]);
    const blocks = Array.from({ length: 5 }, (_, row) => {
      const dense = new Float32Array(rows.columns);
      for (let k = rows.starts[row]!; k < rows.starts[row + 1]!; k++)
        dense[rows.indices[k]!] = rows.values[k]!;
      return [...dense.subarray(ngrams.columns)];
    });
    for (const [column, own] of powers.entries()) {
      const most = [0, 1].map((k) =>
        Math.max(...powers.filter((_, i) => i !== column).map((row) => row[k]!)),
      );
      const expected = [...own, ...most.map((value) => value / Math.hypot(...most))];
      for (const [k, value] of expected.entries()) expect(blocks[column]![k]).toBeCloseTo(value, 5);
    }
    expect(blocks[4]!.slice(2)).toEqual([0, 0]);
  });

  it("reads n-grams' place in a latent space behind them, and as it was stored", async () => {
    const { cta } = twoTasks();
    const options = {
      latent: 3,
      readOwn: false,
      wordPairs: false,
      shapes: false,
      formats: false,
      places: false,
    };
    await using dir = await folder();
    const out = join(dir.path, "run");
    const trained = await trainSpecialist({ kind: "stacked", dataset: cta, options, out });
    const refs = labelledRefs(cta, "test");
    const rows = trained.extractor.transform(refs);
    const { ngrams } = (trained.extractor as StackedFeatures).parts;
    expect(rows.columns).toBe(ngrams.columns);
    for (let row = 0; row < rows.rows; row++) {
      const [from, to] = [rows.starts[row]!, rows.starts[row + 1]!];
      const latent = [...rows.values.slice(from, to)].filter(
        (_, k) => rows.indices[from + k]! >= rows.columns - 3,
      );
      expect(Math.hypot(...latent)).toBeCloseTo(1, 5);
    }
    using run = await loadRun(out);
    expect(run.specialist!.extractor.transform(refs)).toEqual(rows);
  });

  it("ends with one model a task that reads all columns, and two blocks of features for each", async () => {
    const { cta, other } = twoTasks();
    const train = labelledRefs(cta, "train");
    const others = [{ name: "other", train: labelledRefs(other, "train") }];
    const seen = await trainStackedSpecialist(
      { train, others },
      { places: false, formats: false, pairs: false, wordPairs: false, shapes: false },
    );
    const features = seen.extractor as StackedFeatures;
    expect(features.parts.readers.map(({ labels }) => labels)).toEqual([
      ["book/name", "film/name"],
      ["book", "film"],
    ]);
    expect(new Set(train.map((ref) => features.parts.readers[0]!.of(ref))).size).toBe(1);
    expect(features.columns).toBe(features.parts.ngrams.columns + 2 * 4);
  });
});
