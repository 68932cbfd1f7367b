import type { Random } from "../random.js";
import { capitalised } from "./source.js";

/** What becomes of a cell. */
type Habit = (cell: string, row: number) => string;

const MARKERS = ["NA", "n/a", "None", "NaN", "unknown", "--", "TBD", "#N/A", "nil", "(none)", "—"];

/** A way in which the cells of one column depart from their plain form, as files from people and programs have it. */
function habit(random: Random, header: string | null): Habit {
  const share = random.pick([0.1, 0.3, 1]);
  const some = (change: Habit): Habit => {
    return (cell, row) => (cell !== "" && random.chance(share) ? change(cell, row) : cell);
  };
  const marker = random.pick(MARKERS);
  const limit = random.range(8, 40);
  const mark = random.pick(["*", " *", "†", " (est.)", " ?", "~"]);
  switch (random.int(12)) {
    case 0:
      return some((cell) => `${cell}[${random.range(1, 30)}]`);
    case 1:
      return some((cell) => cell + mark);
    case 2:
      return some(
        (cell) => `${random.pick(["", " ", "\u00a0"])}${cell}${random.pick([" ", "  ", "\u00a0"])}`,
      );
    case 3:
      return some((cell) => cell.toUpperCase());
    case 4:
      return some((cell) => cell.toLowerCase());
    case 5:
      return some((cell) => `"${cell}"`);
    case 6:
      return (cell) => (cell.length > limit ? `${cell.slice(0, limit)}…` : cell);
    case 7:
      return (cell) => (random.chance(0.2) ? marker : cell);
    case 8:
      return (cell) => (header && header.length > 2 ? `${capitalised(header)}: ${cell}` : cell);
    case 9:
      return (cell) => cell.replaceAll("&", "&amp;").replaceAll("'", "&#39;").replaceAll('"', "&quot;");
    case 10:
      return (cell) => cell.replaceAll(" ", random.pick(["  ", "\u00a0", " "]));
    default:
      return some((cell) => `(${cell})`);
  }
}

/** The cells of a column with one or two such habits. */
export function wornCells(cells: readonly string[], header: string | null, random: Random): string[] {
  const first = habit(random, header);
  const second: Habit = random.chance(0.25) ? habit(random, header) : (cell) => cell;
  return cells.map((cell, row) => second(first(cell, row), row));
}

const words = (header: string) => header.split(/[ _]+/);

/** Headers that say nothing of their column. */
export const EMPTY_HEADERS: readonly string[] = [
  "value",
  "field",
  "column 3",
  "data",
  "x1",
  "attribute",
  "Unnamed: 2",
  "info",
];

/** A header in another notation, with something before or behind it, or one that says nothing. */
export function wornHeader(header: string, random: Random): string {
  switch (random.int(9)) {
    case 0:
      return words(header).join("_").toUpperCase();
    case 1:
      return words(header).map(capitalised).join(" ");
    case 2:
      return words(header)
        .map(capitalised)
        .join("")
        .replace(/^./, (c) => c.toLowerCase());
    case 3:
      return words(header).join("_");
    case 4:
      return `${random.pick(["customer", "item", "main", "old", "record", "home", "my"])}_${words(header).join("_")}`;
    case 5:
      return `${capitalised(header)} ${random.pick(["1", "2", "(optional)", "*", "new"])}`;
    case 6:
      return random.pick(EMPTY_HEADERS);
    default:
      return capitalised(header);
  }
}
