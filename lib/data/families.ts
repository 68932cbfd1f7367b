import type { Dataset, LabelledColumn } from "./types.js";

/** Label families, one specialist each. */
export const FAMILIES = ["names", "numbers", "places", "texts"] as const;
/** names of things and people; numbers, dates and codes; places and contacts; texts and lists. */
export type Family = (typeof FAMILIES)[number];

/** SOTAB's column types that are neither `…/name` (names) nor `…/description` (texts). */
const FAMILY_OF_TYPE: Record<string, Family> = {
  Boolean: "numbers",
  BookFormatType: "numbers",
  Brand: "names",
  CategoryCode: "numbers",
  CoordinateAT: "places",
  Country: "places",
  CreativeWork: "names",
  CreativeWorkSeries: "names",
  Date: "numbers",
  DateTime: "numbers",
  DayOfWeek: "numbers",
  DeliveryMethod: "texts",
  Distance: "numbers",
  Duration: "numbers",
  EducationalOccupationalCredential: "texts",
  Energy: "numbers",
  EventAttendanceModeEnumeration: "numbers",
  EventStatusType: "numbers",
  GenderType: "numbers",
  IdentifierAT: "numbers",
  ItemAvailability: "numbers",
  ItemList: "texts",
  Language: "numbers",
  LocationFeatureSpecification: "texts",
  Mass: "numbers",
  MonetaryAmount: "numbers",
  MusicArtistAT: "names",
  Number: "numbers",
  OccupationalExperienceRequirements: "texts",
  OfferItemCondition: "numbers",
  Organization: "names",
  Photograph: "places",
  "Place/name": "places",
  PostalAddress: "places",
  ProductModel: "names",
  QuantitativeValue: "numbers",
  Rating: "numbers",
  RestrictedDiet: "numbers",
  Review: "texts",
  SportsTeam: "names",
  Time: "numbers",
  URL: "places",
  addressLocality: "places",
  addressRegion: "places",
  category: "texts",
  currency: "numbers",
  email: "places",
  faxNumber: "places",
  openingHours: "numbers",
  paymentAccepted: "texts",
  postalCode: "places",
  price: "numbers",
  priceRange: "numbers",
  streetAddress: "places",
  telephone: "places",
  unitCode: "numbers",
  unitText: "numbers",
  weight: "numbers",
  workHours: "numbers",
};

/**
 * Labels of SOTAB v2 CTA that a character n-gram baseline with context columns leaves under F1 .40, as far as they are known by name:
 * names of things that look alike, and types that annotators mix up. The "hard split" is these labels.
 */
export const HARD_LABELS: readonly string[] = [
  "CreativeWork",
  "CreativeWork/name",
  "MusicArtistAT",
  "Organization",
  "MusicAlbum/name",
  "LocalBusiness/name",
  "Brand",
  "MusicRecording/name",
  "Person/name",
  "QuantitativeValue",
  "Photograph",
  "Place/name",
  "IdentifierAT",
];

/** The family of a label: by SOTAB's types, else by what its columns hold. */
export function familyOf(label: string, cells: readonly string[] = []): Family {
  const known = FAMILY_OF_TYPE[label];
  if (known) return known;
  if (/\/description$/.test(label)) return "texts";
  if (/\/name$/.test(label)) return "names";
  return familyOfContent(cells);
}

/** Digits make numbers, addresses make places, many words make texts; the rest are names. */
function familyOfContent(cells: readonly string[]): Family {
  const filled = cells.map((cell) => cell.trim()).filter((cell) => cell !== "");
  const share = (test: (cell: string) => boolean) => filled.filter(test).length / Math.max(1, filled.length);
  if (share((cell) => /^(?:https?:|www\.|\+\d|\(\d{2,4}\)|\S+@\S+\.)/i.test(cell)) > 0.5) return "places";
  if (share((cell) => cell.replace(/[^0-9]/g, "").length >= 0.4 * cell.length) > 0.5) return "numbers";
  if (share((cell) => cell.length > 80 || cell.split(/\s+/).length > 8) > 0.5) return "texts";
  return "names";
}

/** Columns whose contents decide the family of an unknown label. */
const COLUMNS_LOOKED_AT = 20;

/** The family of every label of a data set, told by its training columns where the label itself does not say. */
export function labelFamilies(dataset: Dataset): Map<string, Family> {
  const columnsOf = new Map<string, LabelledColumn[]>();
  for (const column of dataset.splits.train) {
    columnsOf.set(column.label, [...(columnsOf.get(column.label) ?? []), column]);
  }
  const families = new Map<string, Family>();
  for (const label of dataset.labels) {
    const columns = (columnsOf.get(label) ?? []).slice(0, COLUMNS_LOOKED_AT);
    const cells = columns.flatMap(({ table, column }) =>
      dataset.tables.get(table)!.columns[column]!.cells.slice(0, 5),
    );
    families.set(label, familyOf(label, cells));
  }
  return families;
}
