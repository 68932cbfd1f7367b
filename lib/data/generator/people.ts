import { dateFormat, momentBetween } from "./dates.js";
import { type ColumnType, digits, type Source } from "./source.js";

function person(source: Source) {
  const { random, faker } = source;
  const name = source.format<(first: string, last: string) => string>([
    (first, last) => `${first} ${last}`,
    (first, last) => `${last}, ${first}`,
    (first, last) => `${first[0]}. ${last}`,
    (first, last) => (random.chance(0.3) ? `${faker.person.prefix()} ${first} ${last}` : `${first} ${last}`),
  ]);
  return (row: number) => {
    const { first, last } = source.entity(row);
    return name(first, last);
  };
}

function city(source: Source) {
  const { random, faker } = source;
  const style = random.int(10);
  if (style === 0) return () => `${faker.location.city()}, ${faker.location.countryCode()}`;
  if (style === 1) return () => faker.location.city().toUpperCase();
  return () => faker.location.city();
}

function region(source: Source) {
  const { faker } = source;
  return () => faker.location.state();
}

function country(source: Source) {
  const { faker } = source;
  return source.format<() => string>([
    () => faker.location.country(),
    () => faker.location.countryCode("alpha-2"),
    () => faker.location.countryCode("alpha-3"),
  ]);
}

function streetAddress(source: Source) {
  const { faker } = source;
  const street = (useFullAddress = false) => faker.location.streetAddress(useFullAddress);
  return source.format<() => string>([
    () => street(),
    () => `${street()}, ${faker.location.city()}`,
    () => faker.location.street(),
  ]);
}

function phone(source: Source) {
  const { faker, random } = source;
  const bare = () => faker.phone.number({ style: "national" }).replace(/\D/g, "");
  return source.format<() => string>([
    () => faker.phone.number({ style: "national" }),
    () => faker.phone.number({ style: "international" }),
    () => faker.phone.number({ style: "human" }),
    bare,
    () => `+${random.range(20, 99)} ${digits(random, 3)} ${digits(random, 3)} ${digits(random, 4)}`,
  ]);
}

function handle(source: Source) {
  const { random } = source;
  return source.format<(first: string, last: string) => string>([
    (first, last) => `${first}.${last}`,
    (first, last) => `${first[0] ?? "x"}${last}`,
    (first, last) => `${first}_${last}${random.int(100)}`,
    (first) => `${first}${random.range(1950, 2010)}`,
    (first, last) => `${last}${first[0] ?? "x"}${random.int(10)}`,
  ]);
}

function username(source: Source) {
  const { random, faker } = source;
  const write = handle(source);
  const prefix = random.chance(0.2) ? "@" : "";
  if (random.chance(0.3)) return () => `${faker.word.adjective()}${faker.word.noun()}${random.int(1000)}`;
  return (row: number) => {
    const { first, last } = source.entity(row);
    return prefix + write(source.ascii(first), source.ascii(last));
  };
}

function email(source: Source) {
  const { random } = source;
  const write = handle(source);
  const shared = random.chance(0.3) ? source.entity(0).host : null;
  const obfuscated = source.format([false, false, false, false, true]);
  return (row: number) => {
    const { first, last, host } = source.entity(row);
    const local = write(source.ascii(first), source.ascii(last));
    return obfuscated ? `${local} [at] ${shared ?? host}` : `${local}@${shared ?? host}`;
  };
}

function birthDate(source: Source) {
  const format = dateFormat(source);
  return () => format(new Date(momentBetween(source, 1935, 2012)));
}

/** Persons and places. */
export const people: readonly ColumnType[] = [
  { label: "person", headers: ["name", "full name", "customer", "contact", "author"], column: person },
  { label: "city", headers: ["city", "town", "place", "location"], column: city },
  { label: "region", headers: ["state", "region", "province", "area"], column: region },
  { label: "country", headers: ["country", "nation", "country code"], column: country },
  { label: "streetAddress", headers: ["address", "street", "address line 1"], column: streetAddress },
  {
    label: "postalCode",
    headers: ["zip", "postal code", "postcode"],
    column:
      ({ faker }) =>
      () =>
        faker.location.zipCode(),
  },
  { label: "phone", headers: ["phone", "telephone", "mobile", "contact number"], column: phone },
  { label: "email", headers: ["email", "e-mail", "mail", "contact"], column: email },
  { label: "username", headers: ["user", "login", "username", "handle"], column: username },
  { label: "birthDate", headers: ["born", "birth date", "dob", "date"], column: birthDate },
  {
    label: "jobTitle",
    headers: ["job", "position", "title", "role"],
    column:
      ({ faker }) =>
      () =>
        faker.person.jobTitle(),
  },
];
