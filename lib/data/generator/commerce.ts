import { dateFormat, momentBetween } from "./dates.js";
import { type ColumnType, digits, type Source } from "./source.js";

const CURRENCIES = ["USD", "EUR", "GBP", "CHF", "JPY", "PLN", "SEK", "BRL", "CAD", "AUD", "INR", "CNY"];

function company(source: Source) {
  const { faker } = source;
  return source.format<() => string>([
    () => faker.company.name(),
    () => faker.company.name().toUpperCase(),
    () => `${faker.person.lastName()} & ${faker.person.lastName()}`,
  ]);
}

function product(source: Source) {
  const { random, faker } = source;
  return source.format<() => string>([
    () => faker.commerce.productName(),
    () => `${faker.commerce.productName()} ${random.range(10, 900)}g`,
    () =>
      `${faker.commerce.product()} ${faker.string.alpha({ length: 2, casing: "upper" })}${random.int(100)}`,
  ]);
}

function price(source: Source) {
  const { random } = source;
  const median = source.weighted([
    [3, 25],
    [2, 180],
    [1, 1500],
  ]);
  const ending = random.pick([0.99, 0.95, 0.5, 0, null, null]);
  const value = () => {
    const drawn = Math.max(0.1, source.logNormal(median, 0.8));
    return ending === null ? drawn : Math.floor(drawn) + ending;
  };
  const symbol = random.pick(["$", "€", "£"]);
  const code = random.pick(CURRENCIES);
  return source.format<() => string>([
    () => source.number(value(), 2),
    () => source.number(value(), 0),
    () => `${symbol}${source.number(value(), 2, true)}`,
    () => `${source.number(value(), 2, true)} ${symbol}`,
    () => `${code} ${source.number(value(), 2)}`,
    () => value().toFixed(1),
  ]);
}

function currency(source: Source) {
  const { random, faker } = source;
  const few = random.sample(CURRENCIES, random.range(2, 8));
  return source.format<() => string>([() => random.pick(few), () => faker.finance.currencyName()]);
}

function weight(source: Source) {
  const { random } = source;
  const kilos = () => Math.max(0.01, source.logNormal(2, 1.2));
  const unit = random.pick([" kg", "kg", " g", "g", " lb", " oz"]);
  const perKilo: Record<string, number> = { kg: 1, g: 1000, lb: 2.2046, oz: 35.274 };
  const decimals = unit.endsWith("kg") || unit.endsWith("lb") ? random.range(1, 3) : 0;
  const measured = () => source.number(kilos() * perKilo[unit.trim()]!, decimals);
  return source.format<() => string>([
    () => measured() + unit,
    () => source.number(kilos(), random.range(1, 3)),
    () => source.number(kilos() * 1000, 0),
    () => `Weight: ${measured()}${unit}`,
  ]);
}

function quantity(source: Source) {
  const { random } = source;
  const median = random.pick([3, 20, 250]);
  const count = () => Math.max(1, Math.round(source.logNormal(median, 0.9)));
  return source.format<() => string>([
    () => String(count()),
    () => `${count()} ${random.pick(["pcs", "units", "x", "pack"])}`,
    () => `x${count()}`,
    () => source.number(count(), 0, true),
  ]);
}

function orderId(source: Source) {
  const { random, faker } = source;
  const first = random.range(1000, 9_000_000);
  const prefix = random.pick([
    "ORD-",
    "SO",
    "INV-",
    "#",
    "PO ",
    `${faker.string.alpha({ length: 2, casing: "upper" })}-`,
  ]);
  const width = random.range(6, 10);
  return source.format<(row: number) => string>([
    (row) => prefix + (first + row),
    (row) => `${random.range(2018, 2025)}-${String(first + row).padStart(7, "0")}`,
    () => `${digits(random, 3)}-${digits(random, 7)}`,
    () => digits(random, width),
  ]);
}

/** The last digit of an EAN or UPC code: weights 3 and 1 from the right. */
function withCheckDigit(body: string): string {
  let sum = 0;
  for (let i = 0; i < body.length; i++) sum += Number(body[body.length - 1 - i]) * (i % 2 === 0 ? 3 : 1);
  return body + ((10 - (sum % 10)) % 10);
}

function barcode(source: Source) {
  const { random } = source;
  const country = digits(random, 2);
  const maker = digits(random, random.range(3, 5));
  const length = random.pick([12, 12, 12, 11]);
  const ean = () => withCheckDigit((country + maker + digits(random, 12)).slice(0, length));
  return source.format<() => string>([
    ean,
    () => `978-${withCheckDigit(`978${digits(random, 9)}`).slice(3)}`,
  ]);
}

function rating(source: Source) {
  const { random } = source;
  const stars = () => Math.min(5, Math.max(0.5, 4 + 0.8 * random.gaussian()));
  return source.format<() => string>([
    () => source.number(stars(), 1),
    () => `${stars().toFixed(1)}/5`,
    () => `${Math.round(stars())} stars`,
    () => "★".repeat(Math.round(stars())),
    () => String(Math.round(stars())),
    () => `${Math.round(stars() * 20)}%`,
  ]);
}

function orderDate(source: Source) {
  const format = dateFormat(source);
  return () => format(new Date(momentBetween(source, 2019, 2026)));
}

function category(source: Source) {
  const { faker } = source;
  const one = () => faker.commerce.department();
  return source.format<() => string>([
    one,
    () => `${one()} > ${faker.commerce.product()}`,
    () => `${faker.commerce.productMaterial()} ${one()}`,
    () => one().toLowerCase().replaceAll(" ", "-"),
  ]);
}

/** Commerce and products. */
export const commerce: readonly ColumnType[] = [
  { label: "company", headers: ["company", "supplier", "vendor", "name", "customer"], column: company },
  { label: "product", headers: ["product", "item", "name", "title", "description"], column: product },
  { label: "category", headers: ["category", "department", "section", "group"], column: category },
  { label: "price", headers: ["price", "amount", "total", "cost", "unit price"], column: price },
  { label: "currency", headers: ["currency", "cur", "currency code"], column: currency },
  { label: "weight", headers: ["weight", "net weight", "mass", "shipping weight"], column: weight },
  { label: "quantity", headers: ["quantity", "qty", "stock", "units"], column: quantity },
  { label: "orderId", headers: ["order", "order id", "number", "invoice", "id"], column: orderId },
  { label: "barcode", headers: ["ean", "barcode", "gtin", "upc", "code"], column: barcode },
  { label: "rating", headers: ["rating", "score", "stars", "review"], column: rating },
  { label: "orderDate", headers: ["date", "ordered", "order date", "shipped"], column: orderDate },
];
