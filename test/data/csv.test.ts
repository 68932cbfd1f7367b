import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CsvOptions, parseCsv, readCsv, readCsvStream } from "../../lib/data/csv.js";
import { formatCsv, formatRecord } from "../../lib/data/csvWrite.js";
import type { Table } from "../../lib/data/types.js";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "aegir-csv-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function rowsOf(text: string, options: CsvOptions = {}): Promise<string[][]> {
  const table = await parseCsv("t", text, { header: false, ...options });
  return table.columns[0]!.cells.map((_, row) => table.columns.map((column) => column.cells[row]!));
}

describe("CSV as people have it", () => {
  it.each([
    [
      "quotes, escaped quotes and line ends in a field",
      'a,"b ""x"", y"\r\n"c\r\nd",e\r\n',
      [
        ["a", 'b "x", y'],
        ["c\r\nd", "e"],
      ],
    ],
    ["spaces around quoted fields", 'a, "b, c" ,d\n', [["a", "b, c", "d"]]],
    [
      "mixed line ends and blank lines",
      "a,b\r\n\nc,d\n\r\ne,f",
      [
        ["a", "b"],
        ["c", "d"],
        ["e", "f"],
      ],
    ],
    [
      "carriage returns alone",
      "a,b\rc,d\r",
      [
        ["a", "b"],
        ["c", "d"],
      ],
    ],
    [
      "an inch mark inside a field",
      'tv 40",x\ntv 50",y\n',
      [
        ['tv 40"', "x"],
        ['tv 50"', "y"],
      ],
    ],
    [
      "text behind a closing quote",
      '"5" disk,y\nplain,z\n',
      [
        ['"5" disk', "y"],
        ["plain", "z"],
      ],
    ],
    [
      "ragged rows",
      "a,b,c\nd\ne,f,g,h\n",
      [
        ["a", "b", "c", ""],
        ["d", "", "", ""],
        ["e", "f", "g", "h"],
      ],
    ],
    ["a missing value in a single column", 'a\n""\nb\n', [["a"], [""], ["b"]]],
  ])("%s", async (_what, text, expected) => {
    expect(await rowsOf(text, { delimiter: "," })).toEqual(expected);
  });

  it.each([
    [",", "name,age\nAnna,31\nBo,4\n"],
    [";", "name;price\nA, B;1,50\nC;2,30\n"],
    [";", "1,5;2,3\n4,5;6,7\n"],
    ["\t", "name\tnote\nAnna\tlikes a, b; c\nBo\t-\n"],
    ["|", "id|note\n1|a, b\n2|c\n"],
    [",", 'a,"x;y;z"\nb,"u;v;w"\n'],
    [",", "one\ntwo\nthree\n"],
  ])("detects the delimiter %j", async (delimiter, text) => {
    expect((await parseCsv("t", text)).delimiter).toBe(delimiter);
  });

  it.each([
    [true, "id,city,amount\n1,Rome,3.50\n2,Oslo,4.00\n"],
    [true, "name,city\nAnna,Rome\nBo,Oslo\n"],
    [true, "foo,bar\n12,2020-01-01\n13,2020-01-02\n"],
    [false, "1,Rome,3.50\n2,Oslo,4.00\n"],
    [false, "Anna,anna@example.org,Rome\nBo,bo@example.org,Oslo\n"],
    [false, "EUR,InStock\nUSD,InStock\nEUR,InStock\n"],
    [false, "Rome,2020-01-01\nOslo,2020-01-02\n"],
  ])("tells whether there is a header: %s for %j", async (expected, text) => {
    const table = await parseCsv("t", text);
    expect(table.columns[0]!.header !== null).toBe(expected);
    expect(table.rows).toBe(text.trim().split("\n").length - (expected ? 1 : 0));
  });

  it("takes a single record for a header where it holds no value", async () => {
    await expect(parseCsv("t", "foo;bar\n")).rejects.toThrow("t: a header and no rows");
    for (const [text, options] of [
      ["foo;12\n", {}],
      ["foo;bar\n", { header: false }],
    ] as const)
      expect(await parseCsv("t", text, options)).toMatchObject({
        rows: 1,
        columns: [{ cells: ["foo"] }, {}],
      });
  });

  it("keeps duplicate and missing header names and says so", async () => {
    const table = await parseCsv("t", "a,a,\n1,2,\n3,4,\n", { header: true });
    expect(table.columns.map((column) => column.header)).toEqual(["a", "a", null]);
    expect(table.warnings.join("\n")).toMatch(/columns alike: a/);
    expect(table.warnings.join("\n")).toMatch(/empty column, counted from 0: 2/);
  });

  it("reads a UTF-8 byte order mark and UTF-16 of either order", async () => {
    const text = "name,city\nJürgen,Köln\n";
    const le = Buffer.from(`\ufeff${text}`, "utf16le");
    const be = Buffer.from(le).swap16();
    for (const bytes of [Buffer.from(`\ufeff${text}`), le, be]) {
      // Chunks of seven bytes cut characters and marks apart.
      const chunks = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, i) =>
        bytes.subarray(7 * i, 7 * i + 7),
      );
      const table = await readCsvStream("t", chunks);
      expect(table.columns).toEqual([
        { header: "name", cells: ["Jürgen"] },
        { header: "city", cells: ["Köln"] },
      ]);
      expect(table.warnings).toEqual([]);
    }
  });

  it("says where UTF-16 ends within a character, or has half of one", async () => {
    const whole = Buffer.from("\ufeffname,city\nJo,Rom\n", "utf16le");
    const cut = await readCsvStream("t", [whole.subarray(0, whole.length - 3)]);
    expect(cut.columns[1]!.cells).toEqual(["Ro\ufffd"]);
    expect(cut.warnings.join()).toMatch(/^1 character could not be read as UTF-16/);
    const half = Buffer.from(whole);
    half.writeUInt16LE(0xd83d, half.length - 4); // the first half of a pair
    const lone = await readCsvStream("t", [half.subarray(0, 9), half.subarray(9)]);
    expect(lone.columns[1]!.cells).toEqual(["Ro\ufffd"]);
    expect(lone.warnings).toHaveLength(1);
  });

  it("says where the first line was taken as data and may be a header", async () => {
    const hint = /first line was taken as data.*--header yes/;
    const words = "apple,red\npear,green\nplum,blue\n";
    expect((await parseCsv("t", words)).warnings.join()).toMatch(hint);
    const numbered = ",Frucht,Farbe\n0,Apfel,rot\n1,Birne,gelb\n";
    expect((await parseCsv("t", numbered)).warnings.join()).toMatch(hint);
    for (const [text, options] of [
      [words, { header: false }],
      [words, { header: true }],
      ["apple,1\npear,2\n", {}], // a value in it
      ["AB12,red\nCD34,green\n", {}], // a code
      ["red,red\npear,green\n", {}], // twice the same
      ["apple,red\npear,green\napple,blue\n", {}], // recurs below
    ] as const)
      expect((await parseCsv("t", text, options)).warnings.join(), text).not.toMatch(hint);
  });

  it("counts bytes that are no UTF-8, and reads them in the encoding that it is told", async () => {
    const bytes = Buffer.from("name,city\nJürgen,Köln\nBo,Rom\n", "latin1");
    const table = await readCsvStream("t", [bytes]);
    expect(table.columns[0]!.cells[0]).toBe("J\ufffdrgen");
    expect(table.warnings.join()).toMatch(/2 characters not in UTF-8.*windows-1252/);
    const told = await readCsvStream("t", [bytes], { encoding: "windows-1252" });
    expect(told.columns[1]!.cells[0]).toBe("Köln");
  });

  it("takes a quote that is never closed as a character", async () => {
    const lines = Array.from({ length: 50_000 }, (_, i) => `${i},row ${i}`);
    lines[10] = '10,"open';
    const table = await parseCsv("t", lines.join("\n"), { header: false });
    expect(table.rows).toBe(50_000);
    expect(table.columns[1]!.cells.slice(9, 12)).toEqual(["row 9", '"open', "row 11"]);
    expect(table.warnings.join()).toMatch(/1 line with a quote that is not closed within 256 KiB, or never/);
  });
});

describe("round trips", () => {
  const cell = fc
    .string({ unit: "grapheme", maxLength: 12 })
    .filter((text) => !text.includes("\u0000") && !text.includes("\ufffd"));
  const spiced = fc.oneof(
    cell,
    fc.constantFrom("", '"', ",", "a;b\tc|d", "x\ny", "\r", " edge ", '""', "\ufeff", "1,5"),
  );
  const table = fc
    .tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 6 }))
    .chain(([width, rows]) =>
      fc.array(fc.array(spiced, { minLength: width, maxLength: width }), {
        minLength: rows,
        maxLength: rows,
      }),
    );

  it("reads back what it writes, whatever the cells and however the bytes are cut", async () => {
    await fc.assert(
      fc.asyncProperty(table, fc.integer({ min: 1, max: 40 }), async (rows, step) => {
        const bytes = Buffer.from(rows.map(formatRecord).join(""));
        const chunks = Array.from({ length: Math.ceil(bytes.length / step) }, (_, i) =>
          bytes.subarray(i * step, (i + 1) * step),
        );
        fc.pre(!/^\s*(?:<|\{|\[)/.test(rows[0]![0]!));
        const read = await readCsvStream("t", chunks, { delimiter: ",", header: false });
        expect(
          read.columns[0]!.cells.map((_, row) => read.columns.map((column) => column.cells[row])),
        ).toEqual(rows);
        expect(read.rows).toBe(rows.length);
      }),
      { numRuns: 300 },
    );
  });

  it("writes headers where a column has one", async () => {
    const written: Table = {
      name: "t",
      columns: [
        { header: "a b", cells: ["1", ""] },
        { header: null, cells: ["x"] },
      ],
    };
    expect(formatCsv(written)).toBe("a b,\n1,x\n,\n");
  });
});

describe("large files", () => {
  it("keeps the first rows and a seeded uniform sample, in order", async () => {
    const lines = ["id,square", ...Array.from({ length: 20_000 }, (_, i) => `${i},${i * i}`)];
    const options = { firstRows: 10, sampledRows: 400, seed: 3 };
    const table = await parseCsv("t", lines.join("\n"), options);
    const ids = table.columns[0]!.cells.map(Number);
    expect(table.rows).toBe(20_000);
    expect(ids.slice(0, 10)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(ids).toHaveLength(410);
    expect(ids).toEqual([...ids].sort((a, b) => a - b));
    expect(table.columns[1]!.cells.map(Number)).toEqual(ids.map((id) => id * id));
    // Mean of a uniform sample of 400 from 10 … 19999: within five standard errors of 10000.
    const mean = ids.slice(10).reduce((sum, id) => sum + id, 0) / 400;
    expect(Math.abs(mean - 10_000)).toBeLessThan((5 * 20_000) / Math.sqrt(12 * 400));
    expect((await parseCsv("t", lines.join("\n"), options)).columns).toEqual(table.columns);
    expect((await parseCsv("t", lines.join("\n"), { ...options, seed: 4 })).columns).not.toEqual(
      table.columns,
    );
  });

  it("streams 24 MB within 60 MB of extra memory", async () => {
    const line = `${"some text of a record, ".repeat(3)}"quoted, text",12.5\n`;
    const block = Buffer.from(line.repeat(5000));
    async function* blocks() {
      for (let sent = 0; sent < 24e6; sent += block.length) yield block;
    }
    const before = process.memoryUsage().rss;
    const table = await readCsvStream("t", blocks(), { header: false });
    expect(table.rows).toBe(5000 * Math.ceil(24e6 / block.length));
    expect(process.memoryUsage().rss - before).toBeLessThan(60e6);
  });
});

describe("wide tables", () => {
  it("reads 5,000 columns, whose first record is longer than what detection looks at", async () => {
    const record = (row: number) =>
      Array.from({ length: 5000 }, (_, c) => `name of column ${c * row}`).join(";");
    const table = await parseCsv("t", [1, 2, 3].map(record).join("\n"));
    expect(table.delimiter).toBe(";");
    expect(table.columns).toHaveLength(5000);
    expect(table.columns[4999]!.cells.at(-1)).toBe("name of column 14997");
  });
});

describe("what is no table", () => {
  const file = (name: string) => path.join(folder, name);

  it.each([
    ["empty.csv", "", /empty\.csv: empty, expected a CSV file/],
    ["blank.csv", "\n\r\n\n", /blank\.csv: empty/],
    ["book.xlsx", "PK\u0003\u0004rest", /Excel workbook/],
    ["a.bin", "a,b\u0000c\n", /binary file/],
    ["a.json", '[{"a": 1}]', /JSON/],
    ["a.html", "<!DOCTYPE html><html>", /HTML/],
    ["header.csv", "id,name,city\n", /a header and no rows.*header: false/],
  ])("refuses %s with one clear error", async (name, content, message) => {
    await writeFile(file(name), content, "latin1");
    await expect(readCsv(file(name))).rejects.toMatchObject({
      code: "ERR_DATA",
      message: expect.stringMatching(message),
    });
  });

  it("refuses a missing file, a directory and unknown options", async () => {
    await expect(readCsv(file("none.csv"))).rejects.toMatchObject({
      code: "ERR_DATA",
      message: expect.stringMatching(/no such file/),
    });
    await expect(readCsv(folder)).rejects.toMatchObject({
      code: "ERR_DATA",
      message: expect.stringMatching(/directory/),
    });
    await expect(readCsv("x", { delimeter: "," } as CsvOptions)).rejects.toMatchObject({
      code: "ERR_CONFIG",
      message: expect.stringMatching(/did you mean 'delimiter'/),
    });
  });

  it("refuses a record without end", async () => {
    await expect(
      readCsvStream(
        "t",
        Array.from({ length: 6 }, () => Buffer.alloc(1e6, "x")),
      ),
    ).rejects.toMatchObject({
      code: "ERR_DATA",
      message: expect.stringMatching(/longer than 4 MB/),
    });
  });
});
