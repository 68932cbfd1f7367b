import type { Random } from "../random.js";

const MISSING = ["", "", "", "N/A", "-", "null", "?"] as const;

/** How a column marks a missing value: most leave the cell empty. */
export function missingMarker(random: Random): string {
  return random.pick(MISSING);
}

/** A cell as a hurried person leaves it: a slip of two characters, another case, stray space, a cut end. */
export function disturb(cell: string, random: Random): string {
  if (cell.length < 2) return cell;
  const characters = [...cell];
  const at = random.int(characters.length - 1);
  switch (random.int(6)) {
    case 0: {
      const [left, right] = [characters[at]!, characters[at + 1]!];
      characters.splice(at, 2, right, left);
      return characters.join("");
    }
    case 1:
      characters.splice(at, 1);
      return characters.join("");
    case 2:
      return cell.toUpperCase();
    case 3:
      return cell.toLowerCase();
    case 4:
      return random.chance(0.5) ? ` ${cell}` : `${cell} `;
    default:
      return characters.slice(0, Math.max(1, Math.ceil(characters.length * 0.7))).join("");
  }
}
