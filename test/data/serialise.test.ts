import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cellText, chooseCells, utf8Prefix } from "../../lib/data/cells.js";
import { columnVector, contextCandidates, maximalMarginalRelevance } from "../../lib/data/context.js";
import { Random } from "../../lib/data/random.js";
import { Serialiser, type SerialiserOptions } from "../../lib/data/serialise.js";
import type { EncodedExample, Table } from "../../lib/data/types.js";
import { numRoles, Role, Token, vocabSize } from "../../lib/data/vocabulary.js";
import { formatFeatures } from "../../lib/specialists/formatFeatures.js";
import { countNgrams, ngramOptions } from "../../lib/specialists/ngrams.js";

const tableOf = (...columns: (string[] | { header: string; cells: string[] })[]): Table => ({
  name: "t",
  columns: columns.map((column) => (Array.isArray(column) ? { header: null, cells: column } : column)),
});

/** An example as text: specials by name, roles as one digit a token. */
function shown({ ids, roles }: EncodedExample): [string, string] {
  const names = Object.entries(Token);
  let text = "";
  let bytes: number[] = [];
  const flush = () => {
    text += Buffer.from(bytes).toString("utf8");
    bytes = [];
  };
  for (const id of ids) {
    if (id < 256) bytes.push(id);
    else {
      flush();
      text += `<${names.find(([, value]) => value === id)![0]}>`;
    }
  }
  flush();
  return [text, [...roles].join("")];
}

const tables = fc
  .tuple(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 0, max: 9 }))
  .chain(([width, rows]) =>
    fc.array(
      fc.record({
        header: fc.option(fc.string({ maxLength: 30 })),
        cells: fc.array(
          fc.oneof(fc.string({ unit: "binary", maxLength: 80 }), fc.constant(""), fc.constant("same")),
          {
            minLength: rows,
            maxLength: rows,
          },
        ),
      }),
      { minLength: width, maxLength: width },
    ),
  )
  .map((columns): Table => ({ name: "t", columns }));

const options = fc.record({
  maxTokens: fc.integer({ min: 8, max: 300 }),
  targetShare: fc.double({ min: 0.1, max: 1, noNaN: true }),
  maxContext: fc.integer({ min: 0, max: 5 }),
  targetCells: fc.integer({ min: 1, max: 12 }),
  contextCells: fc.integer({ min: 1, max: 5 }),
  cellBytes: fc.integer({ min: 4, max: 60 }),
  headers: fc.boolean(),
  shuffle: fc.boolean(),
  dropRate: fc.double({ min: 0, max: 1, noNaN: true }),
  pool: fc.constantFrom("mean" as const, "decision" as const),
  seed: fc.integer(),
});

describe("laws of serialisation", () => {
  it("keeps to the budget, uses valid ids and roles, ends with the decision token, pools the target alone", () => {
    fc.assert(
      fc.property(tables, options, fc.nat(), fc.option(fc.nat()), (table, settings, at, main) => {
        const width = table.columns.length;
        const mainColumn = main === null ? undefined : main % width;
        const { ids, roles, pool } = new Serialiser(settings).encode(table, {
          column: at % width,
          mainColumn,
        });
        expect(ids.length).toBeGreaterThan(0);
        expect(ids.length).toBeLessThanOrEqual(settings.maxTokens);
        expect([roles.length, pool.length]).toEqual([ids.length, ids.length]);
        expect(ids.every((id) => id >= 0 && id < vocabSize && id !== Token.PAD)).toBe(true);
        expect(roles.every((role) => role > 0 && role < numRoles)).toBe(true);
        expect(ids[ids.length - 1]).toBe(Token.CLS);
        expect(ids.filter((id) => id === Token.CLS)).toHaveLength(1);
        expect(pool[pool.length - 1]).toBe(1);
        const pooled = pool.indexOf(1);
        expect(pool.slice(pooled).every((flag) => flag === 1)).toBe(true);
        if (settings.pool === "decision") expect(pooled).toBe(ids.length - 1);
        const outside = new Set(roles.slice(0, pooled));
        if (settings.pool === "mean") expect(outside.has(Role.target)).toBe(false);
        if (!settings.headers) expect(roles.includes(Role.header)).toBe(false);
        if (settings.maxContext === 0) expect(roles.includes(Role.context)).toBe(false);
      }),
      { numRuns: 300 },
    );
  });

  it("never cuts a character: every run of bytes is valid UTF-8", () => {
    fc.assert(
      fc.property(tables, options, (table, settings) => {
        const { ids } = new Serialiser(settings).encode(table, { column: 0 });
        const decoder = new TextDecoder("utf-8", { fatal: true });
        let run: number[] = [];
        for (const id of ids) {
          if (id < 256) run.push(id);
          else {
            decoder.decode(Uint8Array.from(run));
            run = [];
          }
        }
      }),
      { numRuns: 200 },
    );
  });

  it("is deterministic, and the epoch matters only where cells are shuffled or sampled", () => {
    fc.assert(
      fc.property(tables, options, (table, settings) => {
        const encode = (epoch: number) => new Serialiser(settings).encode(table, { column: 0 }, 3, epoch);
        expect(encode(1)).toEqual(encode(1));
        const rows = table.columns[0]!.cells.length;
        const whole = rows <= Math.min(settings.targetCells, settings.contextCells);
        if (whole && !settings.shuffle) expect(encode(2)).toEqual(encode(1));
      }),
      { numRuns: 200 },
    );
  });
});

describe("dropping (augmentation)", () => {
  const cells = ["one", "two", "three", "four", "five"];
  const table: Table = {
    name: "dropped",
    columns: [
      { header: null, cells },
      { header: null, cells: ["other"] },
    ],
  };
  const encode = (shuffle: boolean, epoch: number) =>
    new Serialiser({ shuffle, dropRate: 1, maxTokens: 200 }).encode(table, { column: 0 }, 0, epoch);
  const cellCount = ({ ids }: EncodedExample) => ids.filter((id) => id === Token.CELL).length;

  it("keeps at least two cells, never all, and leaves the context out", () => {
    const counts = new Set(Array.from({ length: 60 }, (_, epoch) => cellCount(encode(true, epoch))));
    expect([...counts].sort()).toEqual([2, 3, 4]);
    expect(encode(true, 0).roles.includes(Role.context)).toBe(false);
  });

  it("leaves everything in where cells are not shuffled", () => {
    expect(cellCount(encode(false, 0))).toBe(cells.length + 1);
  });
});

describe("layout", () => {
  const table = tableOf(
    { header: "city", cells: ["Rome", "Oslo", "Rome", ""] },
    { header: "price", cells: ["1.50", "2.00", "", "3.25"] },
    { header: "note", cells: ["", "", "", ""] },
  );

  it("context first, then the target and its decision token; distinct cells before repeats; empty columns are no context", () => {
    const [text, roles] = shown(new Serialiser({ maxTokens: 64 }).encode(table, { column: 0 }));
    expect(text).toBe("<CELL>1.50<CELL>2.00<CELL>3.25<SEP><CELL>Rome<CELL>Oslo<CELL>Rome<CLS>");
    expect(roles).toBe(`${"1".repeat(16)}${"3".repeat(16)}`);
  });

  it("marks CPA's subject by its role, and headers by theirs where they are on", () => {
    const serialiser = new Serialiser({ maxTokens: 64, maxContext: 0, headers: true });
    const [text, roles] = shown(serialiser.encode(table, { column: 1, mainColumn: 0 }));
    expect(text).toBe(
      "<HEADER>city<CELL>Rome<CELL>Oslo<CELL>Rome<SEP><HEADER>price<CELL>1.50<CELL>2.00<CELL>3.25<CLS>",
    );
    expect(roles).toBe(`44444${"2".repeat(16)}444444${"3".repeat(16)}`);
  });

  it("gives an empty column a valid example", () => {
    expect(shown(new Serialiser({ maxContext: 0 }).encode(table, { column: 2 }))).toEqual(["<CLS>", "3"]);
    expect(
      shown(
        new Serialiser().encode({ name: "none", columns: [{ header: null, cells: [] }] }, { column: 0 }),
      )[0],
    ).toBe("<CLS>");
  });

  it("gives the target its share first and hands on what is left, both ways", () => {
    const long = Array.from({ length: 20 }, (_, i) => `value number ${i}`);
    const tokens = (columns: string[][], role: number) => {
      const settings = { maxTokens: 100, targetShare: 0.6, targetCells: 20, contextCells: 20 };
      return new Serialiser(settings)
        .encode(tableOf(...columns), { column: 0 })
        .roles.filter((r) => r === role).length;
    };
    // Both are long: 60 and 40, up to a cell that is too short to be worth cutting.
    expect(tokens([long, long], Role.target)).toBeGreaterThan(56);
    expect(tokens([long, long], Role.target)).toBeLessThanOrEqual(60);
    expect(tokens([long, long], Role.context)).toBeGreaterThan(36);
    // A short target leaves its share to the context, and a short context to the target.
    expect(tokens([["ab"], long], Role.context)).toBeGreaterThan(92);
    expect(tokens([long, ["ab"]], Role.target)).toBeGreaterThan(92);
  });

  it("refuses a column that is not there, and unknown or impossible options", () => {
    expect(() => new Serialiser().encode(table, { column: 3 })).toThrow(
      /column was 3, but table 't' has columns 0 to 2/,
    );
    expect(() => new Serialiser().encode({ name: "e", columns: [] }, { column: 0 })).toThrow(/no columns/);
    expect(() => new Serialiser({ maxToken: 3 } as SerialiserOptions)).toThrow(/did you mean 'maxTokens'/);
    expect(() => new Serialiser({ maxTokens: 2 })).toThrow(/maxTokens/);
  });
});

describe("cells", () => {
  it("cuts UTF-8 at characters, surrogate pairs included", () => {
    const text = (limit: number) => Buffer.from(utf8Prefix("aé漢😀b", limit)).toString("utf8");
    expect([1, 2, 3, 5, 6, 9, 10, 11, 99].map(text)).toEqual([
      "a",
      "a",
      "aé",
      "aé",
      "aé漢",
      "aé漢",
      "aé漢😀",
      "aé漢😀b",
      "aé漢😀b",
    ]);
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.integer({ min: 0, max: 20 }), (whole, limit) => {
        const prefix = Buffer.from(utf8Prefix(whole, limit));
        expect(prefix.length).toBeLessThanOrEqual(limit);
        expect(Buffer.from(whole).subarray(0, prefix.length)).toEqual(prefix);
        // No character more would have fitted.
        const rest = [...whole.slice(prefix.toString("utf8").length)];
        if (rest.length > 0) expect(prefix.length + Buffer.byteLength(rest[0]!)).toBeGreaterThan(limit);
      }),
    );
  });

  it("says the same of character references and of what they stand for, to everything that reads it", () => {
    expect(cellText("ron&#103;&#x40;413strong&#46;org &eacute; &amp;amp;")).toBe(
      "rong@413strong.org é &amp;",
    );
    // Parameters of a URL, and what is no reference, stay.
    for (const plain of ["a.php?x=1&copy=2&lt=3", "AT&T", "R&D; Q&A", "&#;", "&nosuchname;"])
      expect(cellText(plain)).toBe(plain);
    const referenced = (cell: string) =>
      [...cell]
        .map((c, i) =>
          i % 3 === 1 ? `&#${c.codePointAt(0)};` : i % 3 === 2 ? `&#x${c.codePointAt(0)!.toString(16)};` : c,
        )
        .join("");
    const ngrams = ngramOptions.parse({});
    fc.assert(
      fc.property(
        fc.array(fc.stringMatching(/^[\w@.:/ é–😀]{1,30}$/u), { minLength: 1, maxLength: 6 }),
        (cells) => {
          const [plain, coded] = [cells, cells.map(referenced)];
          const [a, b] = [plain, coded].map((each) => tableOf({ header: each[0]!, cells: each }));
          for (const form of ["sequence", "columns"] as const) {
            const serialiser = new Serialiser({ form, headers: true });
            expect(serialiser.encode(b!, { column: 0 }).ids).toEqual(
              serialiser.encode(a!, { column: 0 }).ids,
            );
          }
          expect(columnVector(b!.columns[0]!)).toEqual(columnVector(a!.columns[0]!));
          expect(countNgrams(coded, ngrams)).toEqual(countNgrams(plain, ngrams));
          expect(formatFeatures(b!.columns[0]!)).toEqual(formatFeatures(a!.columns[0]!));
        },
      ),
    );
  });

  it("samples many distinct cells by seed, and other ones each epoch", () => {
    const column = { header: null, cells: Array.from({ length: 500 }, (_, i) => `c${i}`) };
    const chosen = (seed: number) => chooseCells(column, 8, false, new Random(seed));
    expect(chosen(1)).toEqual(chosen(1));
    expect(chosen(1)).not.toEqual(chosen(2));
    expect(new Set(chosen(1)).size).toBe(8);
  });
});

describe("context", () => {
  it("picks the relevant first and then the diverse", () => {
    const column = (cells: string[]) => columnVector({ header: null, cells });
    const target = column(["12.50", "13.75", "9.10"]);
    const same = column(["14.50", "33.75", "9.20"]);
    const twin = column(["14.55", "33.71", "9.25"]);
    const other = column(["Rome", "Oslo", "Lima"]);
    expect(maximalMarginalRelevance(target, [other, same, twin], 1, 1)[0]).not.toBe(0);
    expect(maximalMarginalRelevance(target, [other, same, twin], 3, 1)[2]).toBe(0);
    // With diversity, the near copy of what is picked comes last.
    expect(maximalMarginalRelevance(target, [other, same, twin], 2, 0.3)).toContain(0);
  });

  it("bounds the candidates of a wide table, near ones included", () => {
    for (const target of [0, 17, 4999]) {
      const chosen = contextCandidates(5000, target, new Set([target]), 64, new Random(1));
      expect(chosen.length).toBeLessThanOrEqual(64);
      expect(chosen.length).toBeGreaterThan(55);
      expect(chosen).not.toContain(target);
      expect(chosen).toContain(target === 0 ? 1 : target - 1);
    }
    expect(contextCandidates(4, 1, new Set([1, 2]), 64, new Random(1))).toEqual([0, 3]);
  });

  it("is linear in the columns: 5,000 of them take at most three times as long each as 500", () => {
    const perColumn = (width: number) => {
      const table = tableOf(
        ...Array.from({ length: width }, (_, c) => Array.from({ length: 6 }, (_, r) => `v${c * r} x${c}`)),
      );
      const serialiser = new Serialiser();
      const before = process.cpuUsage();
      for (let column = 0; column < width; column++) serialiser.encode(table, { column });
      return process.cpuUsage(before).user / width;
    };
    perColumn(300);
    const [narrow, wide] = [perColumn(500), perColumn(5000)];
    // Quadratic cost would be ten times.
    expect(wide / narrow).toBeLessThan(3);
  });
});

describe("the form of columns", () => {
  const table = tableOf(["Lisbon", "Porto", "Faro"], ["5", "7", "9"], {
    header: "h",
    cells: ["x", "y", "z"],
  });
  const cut = { form: "columns", choose: "sampled", maxContext: 9, targetCells: 3, contextCells: 2 } as const;

  it("writes every column as a sequence of its own", () => {
    const example = new Serialiser({ ...cut, contextCellBytes: 4, headers: true }).encode(table, {
      column: 1,
    });
    expect(shown(example)).toEqual(["<CELL>5<CELL>7<CELL>9<CLS>", "3333333"]);
    expect(example.position).toBe(1);
    const context = example.context!.map((column) => shown({ ...column, label: -1 }));
    expect(context.map(([text]) => text.replace(/(<CELL>[A-z]+){2}/, "…"))).toEqual([
      "…<SEP>",
      "<HEADER>h…<SEP>",
    ]);
    expect(example.context!.map(({ position }) => position)).toEqual([0, 2]);
    expect(context[0]![0]).toMatch(/Lisb|Port|Faro/);
    expect(context[0]![1]).toBe("1".repeat(11));
  });

  it("gives all targets of a table the same context columns, and shared, targets too", () => {
    for (const shared of [false, true]) {
      const serialiser = new Serialiser({ ...cut, shared });
      const [a, b, c] = [0, 1, 2].map((column) => serialiser.encode(table, { column }));
      expect(a!.context![1]!.ids).toBe(b!.context![1]!.ids);
      expect(a!.ids === b!.context![0]!.ids).toBe(shared);
      expect(
        c!.context!.every(({ roles }) =>
          roles.every((role) => role === (shared ? Role.target : Role.context)),
        ),
      ).toBe(true);
    }
  });

  it("marks the subject column of a pair, which always comes along", () => {
    const serialiser = new Serialiser({ ...cut, maxContext: 0 });
    const { context } = serialiser.encode(table, { column: 1, mainColumn: 0 });
    expect(context!.map(({ position, roles }) => [position, roles[0]])).toEqual([[0, Role.subject]]);
  });

  it("follows from seed and epoch alone, and no sequence is empty", () => {
    fc.assert(
      fc.property(tables, options, fc.nat(3), fc.boolean(), (given, settings, epoch, shared) => {
        const of = () => new Serialiser({ ...settings, ...cut, maxTokens: settings.maxTokens, shared });
        const [one, two] = [of(), of()];
        two.encode(given, { column: 0 }, -1, epoch + 1);
        for (const column of given.columns.keys()) {
          const example = one.encode(given, { column }, -1, epoch);
          expect(two.encode(given, { column }, -1, epoch)).toEqual(example);
          for (const { ids, roles, pool } of [example, ...example.context!]) {
            expect(ids.length).toBeGreaterThan(0);
            expect(ids.length).toBeLessThanOrEqual(settings.maxTokens);
            expect([roles.length, pool.length]).toEqual([ids.length, ids.length]);
          }
        }
      }),
    );
  });
});
