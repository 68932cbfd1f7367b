import fc from "fast-check";
import { expect, test } from "vitest";
import { Random } from "../../lib/data/random.js";
import type { Table } from "../../lib/data/types.js";
import { type Donor, mixedTables } from "../../lib/train/mixedTables.js";

/** Tables whose cells say where they are from: "table.column.row", taken for the label column mod 3. */
function donorsOf(widths: readonly number[], rows: number): Donor[] {
  return widths.flatMap((width, t) => {
    const cells = (c: number) => Array.from({ length: rows }, (_, r) => `${t}.${c}.${r}`);
    const columns = Array.from({ length: width }, (_, c) => ({ header: `h${c}`, cells: cells(c) }));
    const table: Table = { name: `table ${t}`, columns };
    return columns.map((_, column) => ({ table, column, label: column % 3 }));
  });
}

const widths = fc.array(fc.integer({ min: 1, max: 8 }), { minLength: 1, maxLength: 6 });

test("copies are made of the given columns alone, by seed, and leave the tables as they are", () => {
  fc.assert(
    fc.property(
      widths,
      fc.integer({ min: 1, max: 9 }),
      fc.integer(),
      fc.boolean(),
      (all, rows, seed, withSubject) => {
        const donors = donorsOf(all, rows);
        const subjectOf = (table: Table) => (withSubject ? table.columns.at(-1)! : null);
        const before = JSON.stringify(donors);
        const make = () => mixedTables(donors, 3, new Random(seed), subjectOf);
        const made = make();
        expect(make()).toEqual(made);
        expect(JSON.stringify(donors)).toBe(before);
        const known = new Set(donors.flatMap(({ table, column }) => table.columns[column]!.cells));
        expect(made.length).toBeLessThanOrEqual(3 * all.length);
        expect(new Set(made.map(({ name }) => name)).size).toBe(made.length);
        for (const { name, columns } of made) {
          const original = donors.find(({ table }) => name.startsWith(`${table.name} (copy `))!.table;
          expect(columns.length).toBeLessThanOrEqual(original.columns.length);
          for (const { cells } of columns) {
            expect(cells.length).toBeGreaterThan(0);
            expect(cells.length).toBeLessThanOrEqual(rows);
            for (const cell of cells) expect(known).toContain(cell);
          }
          if (withSubject) expect(columns[0]).toBe(original.columns.at(-1));
        }
      },
    ),
  );
});

test("a fifth of the columns is left out, a tenth is another's, and of two thirds of the rest the cells are its own", () => {
  const seed = 5;
  const donors = donorsOf(new Array<number>(400).fill(6), 5);
  const made = mixedTables(donors, 2, new Random(seed));
  const columns = made.flatMap(({ name, columns }) =>
    columns.map(({ cells }) => {
      const own = Number(/^table (\d+)/.exec(name)![1]);
      const from = new Set(cells.map((cell) => cell.split(".").slice(0, 2).join(".")));
      return {
        sources: from.size,
        foreign: cells.every((cell) => Number(cell.split(".")[0]) !== own),
        from: [...from],
      };
    }),
  );
  const share = (test: (column: (typeof columns)[number]) => boolean) =>
    columns.filter(test).length / columns.length;
  expect(columns.length / (2 * donors.length)).toBeCloseTo(0.8, 1);
  expect(share(({ foreign }) => foreign)).toBeCloseTo(0.1, 1);
  // .9 × (1 − .7 × .8)
  expect(share(({ sources }) => sources === 2)).toBeCloseTo(0.396, 1);
  // Of the mixed, .3 / .44 with a column taken for the same, and a third of the others by chance.
  const mixed = columns.filter(({ sources }) => sources === 2);
  const alike = mixed.filter(
    ({ from }) => new Set(from.map((each) => Number(each.split(".")[1]) % 3)).size === 1,
  );
  expect(alike.length / mixed.length).toBeCloseTo(0.79, 1);
});
