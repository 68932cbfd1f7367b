import { cellText } from "../data/cells.js";
import type { Random } from "../data/random.js";
import type { Column, ColumnRef, Table } from "../data/types.js";

/** A column with what it is taken for: its label, or what teachers say. */
export interface Donor extends ColumnRef {
  label: number;
}

/** Chances of a column of a copy. */
const LEFT_OUT = 0.2;
/** That it is a column of any table. */
const REPLACED = 0.1;
/** That some of its cells are those of a column that is taken for the same, or of any column. */
const MIXED_ALIKE = 0.3;
const MIXED = 0.2;
/** Cells of a mixed column at most. */
const MIXED_CELLS = 16;

/**
 * Copies of tables that nobody wrote: columns are left out, come from other tables, or have the cells of two columns. Teachers can be asked about
 * them too, so that a student meets their answers where they are unsure (Beyer et al., arXiv:2106.05237, mix images to the same end).
 * @param donors the columns that copies are made of, with something in them; those of a table that are not among them are left out
 * @param keepFirst the first column of every table stays as it is: the subject of the others
 */
export function mixedTables(
  donors: readonly Donor[],
  copies: number,
  random: Random,
  keepFirst: boolean,
): Table[] {
  const alike = new Map<number, Donor[]>();
  const tables = new Map<Table, Map<number, Donor>>();
  for (const donor of donors) {
    const { table, column, label } = donor;
    if (!alike.has(label)) alike.set(label, []);
    alike.get(label)!.push(donor);
    if (!tables.has(table)) tables.set(table, new Map());
    tables.get(table)!.set(column, donor);
  }
  const any = (from: readonly Donor[]) => columnOf(from[random.int(from.length)]!);
  const changed = (donor: Donor): Column => {
    const column = columnOf(donor);
    if (random.chance(REPLACED)) return any(donors);
    if (random.chance(MIXED_ALIKE)) return mixed(column, any(alike.get(donor.label)!), random);
    if (random.chance(MIXED)) return mixed(column, any(donors), random);
    const cells = filled(column);
    return { ...column, cells: random.sample(cells, random.range(Math.min(2, cells.length), cells.length)) };
  };
  const made: Table[] = [];
  for (let copy = 0; copy < copies; copy++) {
    for (const [table, known] of tables) {
      const kept = table.columns.map((column, i) => {
        if (keepFirst && i === 0) return column;
        const donor = known.get(i);
        return donor && !random.chance(LEFT_OUT) ? changed(donor) : null;
      });
      const columns = kept.filter((column) => column !== null);
      if (columns.length > 0) made.push({ ...table, name: `${table.name} (copy ${copy + 1})`, columns });
    }
  }
  return made;
}

/** Some cells of each, at least one where there is one. */
function mixed(column: Column, other: Column, random: Random): Column {
  const [own, foreign] = [filled(column), filled(other)];
  const count = Math.min(MIXED_CELLS, Math.max(own.length, foreign.length));
  const taken = random.range(1, Math.max(1, count - 1));
  const cells = [...random.sample(own, count - taken), ...random.sample(foreign, taken)];
  return { ...column, cells };
}

function columnOf({ table, column }: ColumnRef): Column {
  return table.columns[column]!;
}

export function filled({ cells }: Column): string[] {
  return cells.filter((cell) => cellText(cell).trim() !== "");
}
