export type Cell = string | number | null;

export interface TableData {
  headers: string[];
  rows: Cell[][];
  /** Decimals of numbers that are no integers; default 3. */
  decimals?: number;
}

/** A GitHub-flavoured Markdown table; columns of numbers are aligned right. */
export function markdownTable(table: TableData): string {
  const { texts, numeric } = format(table);
  const line = (cells: string[]) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  const rule = `|${numeric.map((right) => (right ? "---:" : "---")).join("|")}|`;
  return [line(table.headers), rule, ...texts.map(line)].join("\n");
}

/** Columns padded with spaces, numbers aligned right, a rule under the headers. */
export function terminalTable(table: TableData): string {
  const { texts, numeric } = format(table);
  const widths = table.headers.map((header, c) =>
    Math.max(displayWidth(header), ...texts.map((row) => displayWidth(row[c]!))),
  );
  const pad = (text: string, c: number) => {
    const space = " ".repeat(widths[c]! - displayWidth(text));
    return numeric[c] ? space + text : text + space;
  };
  const line = (cells: string[]) => cells.map(pad).join("  ").trimEnd();
  return [line(table.headers), widths.map((w) => "─".repeat(w)).join("  "), ...texts.map(line)].join("\n");
}

/** Shortens text to `width` characters. */
export function truncate(text: string, width: number): string {
  const characters = [...text];
  return characters.length <= width ? text : `${characters.slice(0, width - 1).join("")}…`;
}

function format({ headers, rows, decimals = 3 }: TableData): { texts: string[][]; numeric: boolean[] } {
  const numeric = headers.map(
    (_, c) =>
      rows.some((row) => typeof row[c] === "number") && rows.every((row) => typeof row[c] !== "string"),
  );
  const show = (cell: Cell | undefined) => {
    if (cell === null || cell === undefined) return "–";
    if (typeof cell === "string") return cell;
    return Number.isInteger(cell) ? String(cell) : cell.toFixed(decimals);
  };
  return { texts: rows.map((row) => headers.map((_, c) => show(row[c]))), numeric };
}

/** Code points, wide East Asian ones counted twice. */
function displayWidth(text: string): number {
  let width = 0;
  for (const character of text) {
    const code = character.codePointAt(0)!;
    width +=
      code >= 0x1100 &&
      /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}]/u.test(character)
        ? 2
        : 1;
  }
  return width;
}
