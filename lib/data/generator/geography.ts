import { CITIES, COUNTRIES, REGION_CODES } from "./lists.js";
import { type ColumnType, digits, pattern, type Source } from "./source.js";

/** Degrees as maps, GPS devices and people write them; coordinates keep the decimal point in every locale. */
function degrees(source: Source, limit: number, [positive, negative]: readonly [string, string]) {
  const { random } = source;
  const centre = (random.next() * 1.8 - 0.9) * limit;
  const spread = random.pick([0.05, 1, limit / 4]);
  const value = () => Math.max(-limit, Math.min(limit, centre + spread * random.gaussian()));
  const decimals = random.range(3, 7);
  const sexagesimal = (v: number) => {
    const a = Math.abs(v);
    const minutes = Math.floor((a % 1) * 60);
    const seconds = ((a * 3600) % 60).toFixed(random.int(2));
    return `${Math.floor(a)}°${minutes}'${seconds}"${v < 0 ? negative : positive}`;
  };
  return source.format<() => string>([
    () => value().toFixed(decimals),
    () => value().toFixed(2),
    // As single precision has it.
    () => String(Number(value().toPrecision(6))),
    () => {
      const v = value();
      return `${Math.abs(v).toFixed(4)}° ${v < 0 ? negative : positive}`;
    },
    () => sexagesimal(value()),
  ]);
}

function coordinates(source: Source) {
  const { random } = source;
  const [lat, lon] = [(random.next() - 0.5) * 140, (random.next() - 0.5) * 340];
  const decimals = random.range(2, 6);
  const near = (centre: number) => (centre + random.gaussian()).toFixed(decimals);
  return source.format<() => string>([
    () => `${near(lat)}, ${near(lon)}`,
    () => `${near(lat)},${near(lon)}`,
    () => `(${near(lat)}, ${near(lon)})`,
    () => `POINT(${near(lon)} ${near(lat)})`,
    () => `${near(lat)}; ${near(lon)}`,
  ]);
}

function city(source: Source) {
  const { random, faker } = source;
  const name = source.weighted([
    [3, () => random.pick(CITIES)],
    [5, () => source.realCity() ?? faker.location.city()],
    [2, () => faker.location.city()],
  ]);
  const country = random.pick(["US", "USA", "UK", "DE", "FR", "CA"]);
  return source.format<() => string>([
    name,
    name,
    name,
    () => `${name()}, ${random.pick(REGION_CODES)}`,
    () => `${name()}, ${random.pick(REGION_CODES)}, ${country}`,
    () => name().toUpperCase(),
  ]);
}

function region(source: Source) {
  const { random, faker } = source;
  const few = random.sample(REGION_CODES, random.pick([1, 2, 5, 15, REGION_CODES.length]));
  const nation = random.pick(["US", "AU", "CA", "IN"]);
  return source.format<() => string>([
    () => random.pick(few),
    () => random.pick(few),
    () => faker.location.state(),
    () => faker.location.county() || faker.location.state(),
    () => `${nation}-${random.pick(few)}`,
    () => `${faker.location.state()}, ${random.pick(["USA", "Germany", "France", "Spain"])}`,
  ]);
}

function country(source: Source) {
  const { random, faker } = source;
  const few = random.sample(COUNTRIES, random.pick([1, 2, 5, COUNTRIES.length, COUNTRIES.length]));
  return source.format<() => string>([
    () => random.pick(few)[0]!,
    () => random.pick(few)[1]!,
    () => faker.location.country(),
    () => {
      const [name, code] = random.pick(few);
      return `${name} (${code})`;
    },
    // A flag's code and a team's.
    () => {
      const { alpha2, alpha3 } = faker.helpers.arrayElement(faker.definitions.location.country_code);
      return `${alpha2.toLowerCase()} ${alpha3}`;
    },
  ]);
}

function postalCode(source: Source) {
  const { random, faker } = source;
  const form = random.pick([
    "AA0 0AA",
    "AA00 0AA",
    "A0 0AA",
    "A0A 0A0",
    "A0A0A0",
    "0000 AA",
    "000-0000",
    "00000-000",
    "000000",
  ]);
  const area = digits(random, 2);
  return source.format<() => string>([
    () => area + digits(random, 3),
    () => pattern(random, form),
    () => `${area}${digits(random, 3)}-${digits(random, 4)}`,
    () => faker.location.zipCode(),
  ]);
}

function postalAddress(source: Source) {
  const { random, faker } = source;
  const street = () => faker.location.streetAddress();
  const unit = () => `${random.pick(["Suite", "Apt.", "Unit", "#", "Floor"])} ${random.range(1, 400)}`;
  const town = () => (random.chance(0.5) ? random.pick(CITIES) : faker.location.city());
  return source.format<() => string>([
    () => `${street()}, ${faker.location.zipCode()} ${town()}`,
    () => `${street()}, ${town()}, ${random.pick(REGION_CODES)} ${digits(random, 5)}`,
    () => `${street()} ${unit()}`,
    () => `${random.range(1, 250)}, ${random.pick(["rue", "avenue", "place"])} ${faker.person.lastName()}`,
    () => `${faker.person.lastName()} ${random.pick(["Road", "Street", "Lane", "Ave", "St.", "Rd", "Blvd"])}`,
    () => `P.O. Box ${random.range(10, 9999)}, ${town()}`,
  ]);
}

const ZONES = ["UTC", "GMT", "CET", "CEST", "EST", "EDT", "PST", "PDT", "CST", "MST", "BST", "IST", "JST"];

function timeZone(source: Source) {
  const { random, faker } = source;
  const offset = () => `${random.pick(["+", "-"])}${String(random.int(12)).padStart(2, "0")}`;
  return source.format<() => string>([
    () => faker.location.timeZone(),
    () => `UTC${offset()}:${random.pick(["00", "00", "30"])}`,
    () => random.pick(ZONES),
    () => `GMT${offset()}`,
  ]);
}

function direction(source: Source) {
  const { random, faker } = source;
  return source.format<() => string>([
    () => random.pick(["N", "NE", "E", "SE", "S", "SW", "W", "NW", "NNE", "WSW", "SSE", "ENE"]),
    () => faker.location.direction(),
    () => faker.location.direction().toLowerCase(),
  ]);
}

function airport(source: Source) {
  const { faker } = source;
  return source.format<() => string>([
    () => faker.airline.airport().iataCode,
    () => faker.airline.airport().name,
    () => {
      const { name, iataCode } = faker.airline.airport();
      return `${name} (${iataCode})`;
    },
  ]);
}

function continent(source: Source) {
  const { random, faker } = source;
  return source.format<() => string>([
    () => faker.location.continent(),
    () =>
      random.pick(["Africa", "Antarctica", "Asia", "Europe", "North America", "Oceania", "South America"]),
    () => random.pick(["AF", "AN", "AS", "EU", "NA", "OC", "SA"]),
  ]);
}

/** Places on the map. */
export const geography: readonly ColumnType[] = [
  {
    label: "latitude",
    headers: ["latitude", "lat", "y", "gps lat"],
    column: (source) => degrees(source, 90, ["N", "S"]),
  },
  {
    label: "longitude",
    headers: ["longitude", "lon", "lng", "long", "gps lon"],
    column: (source) => degrees(source, 180, ["E", "W"]),
  },
  {
    label: "coordinates",
    headers: ["coordinates", "position", "location", "gps", "geo"],
    column: coordinates,
  },
  { label: "city", headers: ["city", "town", "place", "locality", "birthplace"], column: city },
  { label: "region", headers: ["state", "region", "province", "state code", "county"], column: region },
  { label: "country", headers: ["country", "nation", "country name", "iso", "origin"], column: country },
  {
    label: "postalCode",
    headers: ["zip", "postal code", "postcode", "zip code", "plz"],
    column: postalCode,
  },
  {
    label: "streetAddress",
    headers: ["address", "full address", "street", "mailing address"],
    column: postalAddress,
  },
  { label: "timeZone", headers: ["time zone", "timezone", "tz"], column: timeZone },
  { label: "direction", headers: ["direction", "heading", "wind direction", "facing"], column: direction },
  { label: "airport", headers: ["airport", "iata", "departure", "destination"], column: airport },
  { label: "continent", headers: ["continent", "world region"], column: continent },
];
