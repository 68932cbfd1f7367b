import { geography } from "./geography.js";
import { media } from "./media.js";
import { society } from "./society.js";
import type { ColumnType } from "./source.js";
import { trade } from "./trade.js";

const FREQUENT = ["person", "city", "title", "company", "product", "category", "price"];

/** What stands in most tables that people share: names of persons, places, firms and things, and what they cost. */
export const frequent: readonly ColumnType[] = [...society, ...geography, ...media, ...trade].filter(
  ({ label }) => FREQUENT.includes(label),
);
