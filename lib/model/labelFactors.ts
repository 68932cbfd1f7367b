/**
 * The factors of labels whose names have parts, as in "Book/name": per label the ids of its parts, of equal parts equal ids. A label
 * of one part has one factor.
 */
export function labelFactors(labels: readonly string[]): number[][] {
  const ids = new Map<string, number>();
  const idOf = (part: string) => {
    const id = ids.get(part) ?? ids.size;
    ids.set(part, id);
    return id;
  };
  return labels.map((label) => [...new Set(label.split("/"))].map(idOf));
}
