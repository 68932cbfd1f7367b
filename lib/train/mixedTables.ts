import { isBlank } from "../data/cells.js";
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
 * them too, so that a student meets more of what they say (Beyer et al., arXiv:2106.05237, mix images to the same end).
 * @param donors the columns that copies are made of, with something in them; those of a table that are not among them are left out
 * @param subjectOf of a table, the column that its others are about: it stands first in the copies, as it is
 */
export function mixedTables(
  donors: readonly Donor[],
  copies: number,
  random: Random,
  subjectOf: (table: Table) => Column | null = () => null,
): Table[] {
  const alike = new Map<number, Donor[]>();
  const tables = new Map<Table, Donor[]>();
  for (const donor of donors) {
    const { table, label } = donor;
    if (!alike.has(label)) alike.set(label, []);
    alike.get(label)!.push(donor);
    if (!tables.has(table)) tables.set(table, []);
    tables.get(table)!.push(donor);
  }
  for (const known of tables.values()) known.sort((a, b) => a.column - b.column);
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
      const subject = subjectOf(table);
      const columns = subject ? [subject] : [];
      for (const donor of known) {
        if (columnOf(donor) !== subject && !random.chance(LEFT_OUT)) columns.push(changed(donor));
      }
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
  return cells.filter((cell) => !isBlank(cell));
}
