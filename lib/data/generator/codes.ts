import { type ColumnType, capitalised, digits, hex, letters, pattern, type Source } from "./source.js";

function iban(source: Source) {
  const { faker } = source;
  const spaced = () => faker.finance.iban({ formatted: true });
  return source.format<() => string>([() => faker.finance.iban(), spaced, () => spaced().toLowerCase()]);
}

function bic(source: Source) {
  const { faker } = source;
  return source.format<() => string>([
    () => faker.finance.bic(),
    () => faker.finance.bic({ includeBranchCode: true }),
  ]);
}

function creditCard(source: Source) {
  const { random, faker } = source;
  return source.format<() => string>([
    () => faker.finance.creditCardNumber(),
    () => `**** **** **** ${digits(random, 4)}`,
    () => faker.finance.creditCardNumber().replace(/\D/g, ""),
    () => `XXXX-XXXX-XXXX-${digits(random, 4)}`,
    () => `4${digits(random, 3)} ${digits(random, 4)} ${digits(random, 4)} ${digits(random, 4)}`,
  ]);
}

/** ISBN-10's last sign: the sum of digits weighted 10 … 1 is a multiple of 11, X stands for ten. */
function isbn10(body: string): string {
  let sum = 0;
  for (let i = 0; i < 9; i++) sum += (10 - i) * Number(body[i]);
  const last = (11 - (sum % 11)) % 11;
  return body + (last === 10 ? "X" : last);
}

function isbn(source: Source) {
  const { random, faker } = source;
  const plain = () => faker.commerce.isbn({ separator: "" });
  return source.format<() => string>([
    () => faker.commerce.isbn(),
    plain,
    () => isbn10(digits(random, 9)),
    () => `ISBN ${faker.commerce.isbn()}`,
    () => `${plain().slice(0, 3)}-${plain().slice(3)}`,
  ]);
}

function licensePlate(source: Source) {
  const { random } = source;
  const form = random.pick(["AA00 AAA", "AAA 0000", "AA-AA 000", "AA-000-AA", "0000 AAA", "A-AA 0000"]);
  return source.format<() => string>([
    () => pattern(random, form),
    () => pattern(random, form.replace(/[ -]/g, "")),
  ]);
}

function vatNumber(source: Source) {
  const { random } = source;
  const form = random.pick(["DE000000000", "FR00000000000", "GB000000000", "ATU00000000", "IT00000000000"]);
  const other = random.pick([
    "NL000000000B00",
    "PL0000000000",
    "ESA00000000",
    "BE0000000000",
    "CHE-000.000.000",
  ]);
  // The country's letters stay: only zeros are drawn here.
  const fill = (text: string) => text.replace(/0/g, () => digits(random, 1));
  return source.format<() => string>([() => fill(form), () => fill(other), () => fill("DE 000 000 000")]);
}

function sku(source: Source) {
  const { random } = source;
  const stem = letters(random, random.range(2, 4));
  const form = random.pick(["AA-0000", "AAA-000-AA", "AA0000", "A00000", "AAA000A", "AA-00-000"]);
  const first = random.range(1, 9000);
  return source.format<(row: number) => string>([
    () => pattern(random, form),
    (row) => `${stem}${String(first + row).padStart(4, "0")}`,
    (row) => `${stem}-${first + 3 * row}`,
    () => `${stem}${pattern(random, "-000-A")}`,
    () => pattern(random, "AA-000-AA").toLowerCase(),
    () => `${stem}-${digits(random, 4)}-${random.pick(["BLK", "WHT", "S", "M", "L", "RED"])}`,
  ]);
}

function identifier(source: Source) {
  const { random, faker } = source;
  const length = random.pick([8, 11, 12, 16, 22]);
  const stem = random.pick(["ID", "usr", "cus", "rec", "doc", "tx"]);
  return source.format<() => string>([
    () => faker.string.alphanumeric(length),
    () => faker.string.uuid().toUpperCase(),
    () => `${stem}_${faker.string.alphanumeric(length)}`,
    () => faker.string.alphanumeric({ length, casing: "upper" }),
    () => `${stem.toUpperCase()}-${digits(random, 6)}`,
    () => `{${faker.string.uuid()}}`,
  ]);
}

function macAddress(source: Source) {
  const { random } = source;
  const pair = () => hex(random, 2);
  const address = (separator: string) => Array.from({ length: 6 }, pair).join(separator);
  return source.format<() => string>([
    () => address(":"),
    () => address(":").toUpperCase(),
    () => address("-").toUpperCase(),
  ]);
}

function url(source: Source) {
  const { random, faker } = source;
  const host = (row: number) => source.entity(row).host;
  const slug = () => faker.lorem.slug(random.range(1, 4));
  const image = random.pick(["jpg", "png", "jpeg", "webp"]);
  const scheme = random.pick(["http://", "https://", "https://www."]);
  return source.format<(row: number) => string>([
    (row) => `${scheme}${host(row)}/${slug()}`,
    (row) => `${scheme}${host(row)}/${slug()}/${random.int(1e6)}.${image}`,
    (row) =>
      `${scheme}cdn.${host(row)}/images/${random.range(2008, 2025)}/${slug()}_${random.int(900)}.${image}`,
    (row) => `${scheme}${host(row)}/${slug()}.html?id=${random.int(9999)}&ref=${faker.lorem.word()}`,
    (row) => `${host(row)}/${slug()}`,
    () => `https://${random.pick(["facebook.com", "twitter.com", "instagram.com", "youtube.com"])}/${slug()}`,
    () => `//${slug()}/${slug()}.html`,
    (row) => `${scheme}${host(row)}/`,
  ]);
}

function hashtag(source: Source) {
  const { random, faker } = source;
  const one = () => `#${faker.word.noun().replace(/[^a-z]/gi, "")}`;
  return source.format<() => string>([
    one,
    () => Array.from({ length: random.range(2, 4) }, one).join(" "),
    () => `${one()}${capitalised(faker.word.noun())}`,
  ]);
}

/** Codes, identifiers and addresses of machines. */
export const codes: readonly ColumnType[] = [
  { label: "iban", headers: ["iban", "account", "bank account"], column: iban },
  { label: "bic", headers: ["bic", "swift", "swift code"], column: bic },
  { label: "creditCard", headers: ["card number", "credit card", "card"], column: creditCard },
  { label: "isbn", headers: ["isbn", "isbn13", "isbn10", "book id"], column: isbn },
  {
    label: "vin",
    headers: ["vin", "chassis number", "vehicle id"],
    column:
      ({ faker }) =>
      () =>
        faker.vehicle.vin(),
  },
  {
    label: "licensePlate",
    headers: ["license plate", "plate", "registration", "kennzeichen"],
    column: licensePlate,
  },
  { label: "vatNumber", headers: ["vat", "vat number", "tax id", "ust-id"], column: vatNumber },
  { label: "sku", headers: ["sku", "part number", "model", "article no", "item number", "mpn"], column: sku },
  { label: "identifier", headers: ["id", "uid", "guid", "reference", "key", "token"], column: identifier },
  { label: "macAddress", headers: ["mac", "mac address", "device"], column: macAddress },
  {
    label: "mimeType",
    headers: ["mime type", "content type", "type", "media type"],
    column:
      ({ faker }) =>
      () =>
        faker.system.mimeType(),
  },
  {
    label: "userAgent",
    headers: ["user agent", "browser", "agent"],
    column:
      ({ faker }) =>
      () =>
        faker.internet.userAgent(),
  },
  { label: "url", headers: ["url", "image", "photo", "homepage", "image_url", "website"], column: url },
  { label: "hashtag", headers: ["hashtag", "tag", "tags"], column: hashtag },
];
