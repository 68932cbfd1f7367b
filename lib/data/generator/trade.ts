import { goodsGroup, goodsNames } from "./goods.js";
import { CATEGORIES, CITIES, CURRENCY_CODES } from "./lists.js";
import { type ColumnType, capitalised, pattern, type Source } from "./source.js";

const SYMBOLS = ["$", "€", "£", "US$", "C$", "A$", "kr", "zł", "₹", "R$", "CHF", "Rs.", "¥"];

function price(source: Source) {
  const { random } = source;
  const median = random.pick([4, 15, 60, 400, 5000]);
  const ending = random.pick([0.99, 0.95, 0.5, 0, 0, null]);
  const value = () => {
    const drawn = Math.max(0.5, source.logNormal(median, 0.7));
    return ending === null ? drawn : Math.floor(drawn) + ending;
  };
  const symbol = random.pick(SYMBOLS);
  const code = random.pick(CURRENCY_CODES);
  const amount = (grouped = true) => source.number(value(), 2, grouped);
  return source.format<() => string>([
    () => symbol + amount(),
    () => `${amount()} ${symbol}`,
    () => `${amount()} ${code}`,
    () => `${code} ${amount()}`,
    () => value().toFixed(2),
    () => source.number(Math.round(value()), 0, true),
    () => `${symbol}${source.number(Math.round(value()), 0, true)}`,
    () => `${random.pick(["from ", "From ", "ab "])}${symbol}${amount()}`,
    () => `${amount(false)}${symbol}`,
    () => `${symbol}${amount(false)}/${random.pick(["hr", "hour", "month", "kg", "night", "year"])}`,
    () => `${amount(false)}; ${amount(false)}`,
    () => (random.chance(0.2) ? random.pick(["Free", "free", "0"]) : symbol + amount()),
  ]);
}

function priceRange(source: Source) {
  const { random } = source;
  const symbol = random.pick(["$", "€", "£", "$", "$"]);
  const low = () => random.range(1, 40) * 5;
  return source.format<() => string>([
    () => symbol.repeat(random.range(1, 4)),
    () => {
      const from = low();
      return `${symbol}${from} - ${symbol}${from + low()}`;
    },
    () => {
      const from = low();
      return `${symbol}${from}-${from + low()}`;
    },
    () => {
      const from = low();
      return `${symbol}${from}.00 - ${symbol}${from + low()}.00`;
    },
    () => `${random.pick(["under", "from", "over"])} ${symbol}${low()}`,
    () => `${symbol}-${symbol.repeat(3)}`,
  ]);
}

function currency(source: Source) {
  const { random, faker } = source;
  const few = random.sample(CURRENCY_CODES, random.pick([1, 2, 3, 5, CURRENCY_CODES.length]));
  const names = ["US Dollar", "Euro", "Pound Sterling", "Swiss Franc", "Yen", "Zloty", "Real", "Krona"];
  return source.format<() => string>([
    () => random.pick(few),
    () => random.pick(few).toLowerCase(),
    () => random.pick(names),
    () => `${faker.finance.currencyName()}`,
  ]);
}

function availability(source: Source) {
  const { random } = source;
  const names = ["InStock", "OutOfStock", "PreOrder", "SoldOut", "LimitedAvailability", "Discontinued"];
  const prefix = random.pick(["http://schema.org/", "https://schema.org/", ""]);
  const kinds = random.sample(names, random.pick([1, 2, 2, 6]));
  return source.format<() => string>([
    () =>
      random.pick([
        "in stock",
        "In stock",
        "In Stock",
        "out of stock",
        "Out of stock",
        "sold out",
        "available",
        "pre-order",
        "backorder",
        "low stock",
      ]),
    () => prefix + random.pick(kinds),
    () => random.pick(["Usually ships within 24 hours", "Ships in 2-3 days", "Only 3 left", "Available now"]),
    () =>
      random.pick(["auf Lager", "ausverkauft", "lieferbar", "en stock", "épuisé", "agotado", "disponible"]),
  ]);
}

function condition(source: Source) {
  const { random } = source;
  const prefix = random.pick(["http://schema.org/", "https://schema.org/", ""]);
  const kinds = random.sample(
    ["NewCondition", "UsedCondition", "RefurbishedCondition", "DamagedCondition"],
    random.range(1, 3),
  );
  return source.format<() => string>([
    () => random.pick(["new", "used", "New", "Used", "refurbished", "like new", "good", "very good", "mint"]),
    () => prefix + random.pick(kinds),
    () => random.pick(["neu", "gebraucht", "neuf", "occasion", "nuevo", "usado"]),
    () => random.pick(["Brand new", "Pre-owned", "Open box", "For parts", "Used - good", "Like New"]),
  ]);
}

function paymentMethod(source: Source) {
  const { random, faker } = source;
  const ways =
    "Cash,Visa,MasterCard,Mastercard,American Express,PayPal,Credit card,Debit card,Bank transfer,Invoice,Check,Apple Pay,Maestro,Klarna,Direct debit,Discover,Gift card".split(
      ",",
    );
  const several = (separator: string) => random.sample(ways, random.range(2, 6)).join(separator);
  return source.format<() => string>([
    () => random.pick(ways),
    () => several(", "),
    () => several("; "),
    () => faker.finance.creditCardIssuer().replaceAll("_", " "),
    () => random.pick(["cash", "card", "transfer", "cheque", "online"]),
    () =>
      random.pick(["Barzahlung", "Kreditkarte", "Überweisung", "Rechnung", "Lastschrift", "Carte bancaire"]),
  ]);
}

function orderStatus(source: Source) {
  const { random } = source;
  const words = [
    "pending",
    "shipped",
    "delivered",
    "cancelled",
    "returned",
    "processing",
    "refunded",
    "paid",
  ];
  return source.format<() => string>([
    () => random.pick(words),
    () => capitalised(random.pick(words)),
    () => random.pick(words).toUpperCase(),
    () => random.pick(["In transit", "On hold", "Awaiting payment", "Out for delivery", "Completed", "Open"]),
    () => random.pick(["offen", "versandt", "geliefert", "storniert", "bezahlt"]),
  ]);
}

function color(source: Source) {
  const { random, faker } = source;
  const tones = [
    "Black",
    "White",
    "Red",
    "Blue",
    "Green",
    "Grey",
    "Navy",
    "Brown",
    "Beige",
    "Pink",
    "Silver",
  ];
  return source.format<() => string>([
    () => random.pick(tones),
    () => faker.color.human(),
    () => `${random.pick(["Dark", "Light", "Matte", "Deep"])} ${random.pick(tones)}`,
    () =>
      `#${pattern(random, "00A0A0")
        .toLowerCase()
        .replace(/[g-z]/g, (c) => "abcdef"[c.charCodeAt(0) % 6]!)}`,
    () => `${random.pick(tones)}/${random.pick(tones)}`,
    () => random.pick(["schwarz", "weiß", "rot", "blau", "grün", "noir", "blanc", "rouge", "negro", "verde"]),
    () => `rgb(${random.int(256)}, ${random.int(256)}, ${random.int(256)})`,
  ]);
}

function clothingSize(source: Source) {
  const { random } = source;
  return source.format<() => string>([
    () => random.pick(["XS", "S", "M", "L", "XL", "XXL"]),
    () => random.pick(["Small", "Medium", "Large", "X-Large", "One Size", "X-Small"]),
    () => `${random.range(28, 40)}/${random.range(28, 36)}`,
    () => `EU ${random.range(34, 48)}`,
    () => `${random.pick(["UK", "US"])} ${random.range(4, 16)}`,
    () => random.pick(["2XL", "3XL", "S/M", "L/XL", "M", "L"]),
  ]);
}

function material(source: Source) {
  const { random, faker } = source;
  const few =
    "Cotton,Polyester,Wool,Leather,Silk,Linen,Wood,Oak,Steel,Stainless Steel,Aluminium,Glass,Ceramic,Plastic,Rubber,Nylon,Brass,Gold,Paper,Bamboo".split(
      ",",
    );
  return source.format<() => string>([
    () => random.pick(few),
    () => faker.commerce.productMaterial(),
    () => `${random.range(5, 10) * 10}% ${random.pick(few)}, ${random.pick(few)}`,
    () => `100% ${random.pick(few).toLowerCase()}`,
    () => random.pick(few).toLowerCase(),
  ]);
}

function vehicle(source: Source) {
  const { random, faker } = source;
  return source.format<() => string>([
    () => faker.vehicle.vehicle(),
    () => faker.vehicle.manufacturer(),
    () => `${random.range(1985, 2025)} ${faker.vehicle.vehicle()}`,
    () => faker.vehicle.manufacturer().toUpperCase(),
  ]);
}

const TRADES =
  `Construction,Consulting,Plumbing,Bakery,Motors,Lending,Solutions,Dental Care,Logistics,Software,Media,Roofing,Insurance,Pharmacy,Realty,Medical Center,Law Office,Storage,Electronics,
Energy,Systems,Foods,Partners,Design,Services,Fitness,Salon,Auto Repair,Bank,Carpet Cleaning,House Cleaning Services,Boiler Services,Photography,Pools,Property Maintenance,Pet Grooming,Landscaping,
Handyman Services,Law Group,Clinic,Veterinary Clinic,Health and Wellness,Psychotherapy,Recovery Center,Locksmith,Tree Service,Pest Control,Movers,Heating & Air,Painting,Flooring,Interiors,
Trading Company,Accounting,Travel,Physiotherapy,Optical,Florist,Printing,Electrical Supplies,Security,Recruitment,Driving School,Daycare,Funeral Home,Self Storage,Mortgage,Investments`
    .split(",")
    .map((name) => name.trim());

function company(source: Source) {
  const { random, faker } = source;
  const forms = [
    "Ltd",
    "Inc.",
    "LLC",
    "GmbH",
    "AG",
    "S.A.",
    "SARL",
    "Corp.",
    "Limited",
    "B.V.",
    "Sp. z o.o.",
  ];
  const stem = () =>
    random.pick([faker.person.lastName(), faker.word.noun(), faker.person.firstName(), random.pick(CITIES)]);
  const name = () => capitalised(stem());
  const chain = `${name()} ${random.pick(TRADES)}`;
  const surname = () => faker.person.lastName();
  return source.format<() => string>([
    () => `${name()} ${random.pick(TRADES)}`,
    () => `${name()} ${random.pick(TRADES)} ${random.pick(forms)}`,
    () => `${name()} ${random.pick(forms)}`,
    () => `${faker.company.name()}`,
    () => `${name()} ${random.pick(TRADES)} of ${random.pick(CITIES)}`,
    () => `${name()}'s ${random.pick(TRADES)}`,
    () => `${chain} ${random.pick(["", "of ", "- ", "– "])}${source.realCity() ?? random.pick(CITIES)}`,
    () => `${name()} ${random.pick(TRADES)}, ${random.pick(forms)}`,
    () => `${surname()}, ${surname()} & ${surname()} ${random.pick(["LLP", "PC", "Law", "LLC"])}`,
    () => `${capitalised(faker.word.adjective())} ${random.pick(TRADES)}`,
    () => `${random.pick(TRADES)} Near ${source.realCity() ?? random.pick(CITIES)}`,
  ]);
}

function product(source: Source) {
  const { random, faker } = source;
  const brand = () => random.pick([faker.person.lastName(), faker.company.buzzNoun(), faker.word.noun()]);
  const made = () => `${faker.commerce.productAdjective()} ${faker.commerce.productMaterial()}`;
  const code = () => pattern(random, random.pick(["AA000", "A-0000", "00000A", "AAA-00-A"]));
  const part = () => `${random.pick(CATEGORIES).replace(/s$/, "")}`;
  return source.format<() => string>([
    () => `${brand()} ${made()} ${part()}`,
    ...goodsNames(source),
    () => `${brand()} ${part()} ${code()}`,
    () => `${made()} ${part()} - ${faker.color.human()}`,
    () =>
      `${faker.commerce.productName()} (${random.range(2, 12)} ${random.pick(["pack", "pcs", "piece set"])})`,
    () => `${part()} ${random.range(10, 900)} ${random.pick(["ml", "g", "cm", "W", "mm"])} ${made()}`,
    () => `${brand()} ${code()} ${part()} ${random.range(2, 60)}" ${faker.color.human()} ${made()}`,
    () =>
      `${brand()} ${faker.commerce.productAdjective()} ${part()} for ${random.pick(CATEGORIES)}, ${code()}`,
    () =>
      `${faker.commerce.productAdjective()} ${faker.food.fruit()} ${part()} (${random.range(1, 24)} x ${random.range(5, 500)}g)`,
  ]);
}

function category(source: Source) {
  const { random } = source;
  const { goods, modified } = goodsGroup(source);
  const one = source.weighted([
    [2, () => random.pick(CATEGORIES)],
    [2, goods],
    [1, () => random.pick([goods, modified, () => random.pick(CATEGORIES)])()],
  ]);
  return source.format<() => string>([
    one,
    () => `${one()} > ${one()}`,
    () => `${one()} & ${one()}`,
    () => random.pick([one, () => `${one()} & ${one()}`, modified])(),
    () => `${one()}/${one()}/${one()}`,
    () => `${one()}, ${one()}, ${one()}`,
    () => one().toLowerCase(),
    () => `Home > ${one()} > ${one()}`,
  ]);
}

/** Shops, goods and payment. */
export const trade: readonly ColumnType[] = [
  {
    label: "price",
    headers: ["price", "amount", "fee", "salary", "cost (eur)", "unit_price"],
    column: price,
  },
  { label: "priceRange", headers: ["price range", "price level", "budget"], column: priceRange },
  { label: "currency", headers: ["currency", "currency_code", "ccy", "valuta"], column: currency },
  {
    label: "availability",
    headers: ["availability", "stock status", "in stock", "stock"],
    column: availability,
  },
  { label: "condition", headers: ["condition", "item condition", "state"], column: condition },
  {
    label: "paymentMethod",
    headers: ["payment", "payment method", "paid by", "payments accepted"],
    column: paymentMethod,
  },
  { label: "orderStatus", headers: ["status", "order status", "state", "shipment"], column: orderStatus },
  { label: "color", headers: ["color", "colour", "farbe", "hair color"], column: color },
  { label: "clothingSize", headers: ["size", "clothing size", "shoe size"], column: clothingSize },
  { label: "material", headers: ["material", "fabric", "made of", "composition"], column: material },
  { label: "vehicle", headers: ["vehicle", "car", "make", "model", "make and model"], column: vehicle },
  {
    label: "company",
    headers: ["company", "organization", "business", "employer", "brand"],
    column: company,
  },
  { label: "product", headers: ["product", "product name", "item", "article"], column: product },
  { label: "category", headers: ["category", "product type", "tags", "group"], column: category },
];
