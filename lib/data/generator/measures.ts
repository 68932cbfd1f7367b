import { type ColumnType, ordinal, type Source } from "./source.js";

/** A unit and how many of it make the quantity's reference unit. */
type Unit = readonly [name: string, perReference: number];

interface Quantity {
  label: string;
  headers: readonly string[];
  units: readonly Unit[];
  /** Median in the reference unit, and the spread of its logarithm. */
  median: readonly number[];
  sigma: number;
  /** What some columns name behind the unit: whose quantity it is. */
  of?: readonly string[];
}

/** Values with a unit behind them; now and then the unit is in the header, or changes from cell to cell. */
function measured({ units, median, sigma, of }: Omit<Quantity, "label" | "headers">) {
  return (source: Source) => {
    const { random } = source;
    const middle = random.pick(median);
    const spread = random.chance(0.3) ? sigma / 3 : sigma;
    // Units that suit the size: nobody measures an engine's power in megawatts.
    const fit = units.filter(([, factor]) => middle * factor >= 0.2 && middle * factor <= 20_000);
    const unit = random.pick(fit);
    const places = random.pick([0, 0, 1, 1, 2, 3]);
    const number = ([, factor]: Unit, grouped = false) => {
      const value = source.logNormal(middle, spread) * factor;
      return source.number(value, value >= 1000 ? 0 : value < 0.1 ? 3 : places, grouped);
    };
    const thing = of && random.pick(of);
    return source.format<() => string>([
      () => `${number(unit)} ${unit[0]}`,
      () => `${number(unit)} ${unit[0]}`,
      ...(thing ? [() => `${number(unit)} ${unit[0]} ${thing}`] : []),
      () => `${number(unit)}${unit[0]}`,
      () => `${number(unit, true)} ${unit[0]}`,
      () => {
        const other = random.pick(fit);
        return `${number(other)} ${other[0]}`;
      },
      () => (random.chance(0.6) ? `${number(unit)} ${unit[0]}` : number(unit)),
      () => `${number(unit)}${random.pick(["-", " - ", "–", " to "])}${number(unit)} ${unit[0]}`,
      () => `approx. ${number(unit)} ${unit[0]}`,
      () => number(unit),
    ]);
  };
}

const quantities: readonly Quantity[] = [
  {
    label: "length",
    headers: ["length", "height", "width", "distance", "depth", "height (cm)", "distance_km", "elevation"],
    units: [
      ["m", 1],
      ["cm", 100],
      ["mm", 1000],
      ["km", 0.001],
      ["in", 39.37],
      ["inch", 39.37],
      ["inches", 39.37],
      ["ft", 3.281],
      ["feet", 3.281],
      ["mi", 0.000621],
      ["miles", 0.000621],
      ["meters", 1],
    ],
    median: [0.2, 1.7, 30, 2000, 40_000],
    sigma: 0.9,
  },
  {
    label: "weight",
    headers: [
      "weight",
      "mass",
      "net weight",
      "weight (kg)",
      "gross_weight",
      "weight_lbs",
      "protein",
      "sugar",
    ],
    units: [
      ["kg", 1],
      ["Kg", 1],
      ["kgs", 1],
      ["KGS", 1],
      ["KG", 1],
      ["Kg.", 1],
      ["kilograms", 1],
      ["g", 1000],
      ["grams", 1000],
      ["Grams", 1000],
      ["gm", 1000],
      ["mg", 1e6],
      ["milligrams", 1e6],
      ["lbs", 2.205],
      ["lbs.", 2.205],
      ["LBS", 2.205],
      ["lb", 2.205],
      ["oz", 35.27],
      ["pounds", 2.205],
      ["ounces", 35.27],
      ["t", 0.001],
      ["tonnes", 0.001],
    ],
    median: [0.005, 0.02, 0.5, 3, 80],
    sigma: 1,
    of: [
      "fat",
      "saturated fat",
      "trans fat",
      "protein",
      "sugar",
      "carbohydrates",
      "fiber",
      "sodium",
      "cholesterol",
      "salt",
      "net",
      "per serving",
    ],
  },
  {
    label: "area",
    headers: ["area", "surface", "floor area", "size", "area (km2)", "living area"],
    units: [
      ["m²", 1],
      ["m2", 1],
      ["sqm", 1],
      ["sq m", 1],
      ["km²", 1e-6],
      ["km2", 1e-6],
      ["ha", 1e-4],
      ["hectares", 1e-4],
      ["acres", 2.47e-4],
      ["sq ft", 10.76],
      ["sqft", 10.76],
      ["sq mi", 3.86e-7],
    ],
    median: [60, 900, 4e7, 2e9],
    sigma: 0.8,
  },
  {
    label: "volume",
    headers: ["volume", "capacity", "contents", "displacement", "volume (l)"],
    units: [
      ["l", 1],
      ["L", 1],
      ["ml", 1000],
      ["mL", 1000],
      ["cl", 100],
      ["liters", 1],
      ["litres", 1],
      ["m³", 0.001],
      ["cc", 1000],
      ["gal", 0.264],
      ["gallons", 0.264],
      ["fl oz", 33.8],
      ["cups", 4.2],
    ],
    median: [0.3, 1.5, 50],
    sigma: 0.9,
  },
  {
    label: "speed",
    headers: ["speed", "velocity", "top speed", "wind speed", "speed (km/h)"],
    units: [
      ["km/h", 3.6],
      ["kmh", 3.6],
      ["mph", 2.237],
      ["m/s", 1],
      ["knots", 1.944],
      ["kn", 1.944],
      ["kph", 3.6],
    ],
    median: [4, 30, 60],
    sigma: 0.6,
  },
  {
    label: "energy",
    headers: ["energy", "calories", "consumption", "kcal", "energy (kwh)"],
    units: [
      ["kcal", 1],
      ["calories", 1],
      ["cal", 1],
      ["Calories", 1],
      ["kJ", 4.184],
      ["kWh", 0.01],
      ["MWh", 0.001],
      ["J", 4184],
    ],
    median: [150, 400, 4000],
    sigma: 0.7,
  },
  {
    label: "power",
    headers: ["power", "engine power", "wattage", "output", "power (kw)"],
    units: [
      ["W", 1000],
      ["kW", 1],
      ["MW", 0.001],
      ["hp", 1.341],
      ["HP", 1.341],
      ["PS", 1.36],
      ["bhp", 1.341],
      ["watts", 1000],
    ],
    median: [0.05, 1.5, 110],
    sigma: 0.6,
  },
  {
    label: "pressure",
    headers: ["pressure", "air pressure", "tyre pressure"],
    units: [
      ["bar", 1],
      ["mbar", 1000],
      ["hPa", 1000],
      ["kPa", 100],
      ["psi", 14.5],
      ["PSI", 14.5],
      ["mmHg", 750],
      ["atm", 0.987],
    ],
    median: [1.013, 2.4, 8],
    sigma: 0.2,
  },
  {
    label: "voltage",
    headers: ["voltage", "volts", "input", "supply"],
    units: [
      ["V", 1],
      ["mV", 1000],
      ["kV", 0.001],
      ["volts", 1],
      ["VAC", 1],
      ["V DC", 1],
    ],
    median: [5, 12, 230],
    sigma: 0.5,
  },
];

function percentage(source: Source) {
  const { random } = source;
  const top = random.pick([10, 60, 100]);
  const value = () => random.next() * top * (random.chance(0.05) ? -1 : 1);
  const places = random.range(0, 2);
  return source.format<() => string>([
    () => `${source.number(value(), places)}%`,
    () => `${source.number(value(), places)} %`,
    () => `${source.number(value(), 1)} percent`,
    () => `${random.pick(["+", "-"])}${source.number(value(), places)}%`,
    () => (random.next() * 0.9).toFixed(random.range(2, 3)),
  ]);
}

function dimensions(source: Source) {
  const { random } = source;
  const unit = random.pick(["cm", "mm", "in", '"', "m", "ft"]);
  const cross = random.pick([" x ", "x", " × ", "×", " X "]);
  const size = () => source.number(source.logNormal(random.pick([5, 30, 120]), 0.6), random.int(2));
  return source.format<() => string>([
    () => `${size()}${cross}${size()}${cross}${size()} ${unit}`,
    () => `${size()}${cross}${size()} ${unit}`,
    () => `${size()}${cross}${size()}`,
    () => `${size()}${unit}${cross}${size()}${unit}`,
    () => `${size()}${unit} L${cross}${size()}${unit} W${cross}${size()}${unit} H`,
  ]);
}

function bodyHeight(source: Source) {
  const { random } = source;
  const centimetres = () => Math.round(174 + 9 * random.gaussian());
  const feet = (separator: string, end: string) => {
    const inches = Math.round(centimetres() / 2.54);
    return `${Math.floor(inches / 12)}${separator}${inches % 12}${end}`;
  };
  return source.format<() => string>([
    () => `${centimetres()} cm`,
    () => feet("'", '"'),
    () => feet("-", ""),
    () => feet(" ft ", " in"),
    () => feet("'", ""),
    () => `${source.number(centimetres() / 100, 2)} m`,
    () => `${source.number(centimetres() / 100, 2)}m`,
  ]);
}

function temperature(source: Source) {
  const { random } = source;
  const mean = random.pick([5, 20, 90, 180]);
  const value = () => mean + (mean / 4 + 2) * random.gaussian();
  const sign = random.pick(["°C", " °C", "°F", " °F", "º C", " degrees", "ºC", "° F", " K", " C"]);
  return source.format<() => string>([
    () => `${source.number(value(), 0)}${sign}`,
    () => `${source.number(value(), 1)}${sign}`,
    () => `${source.number(value(), 0)}${sign} / ${source.number(value(), 0)}${sign}`,
  ]);
}

function unit(source: Source) {
  const { random, faker } = source;
  const few = random.sample(
    "kg,g,mg,lbs,lb,oz,cm,mm,m,km,in,ft,inch,l,ml,kWh,W,V,pcs,each,box,INH,CMT,KGM,GRM,LBR,ONZ,MTR,EA,°C,%".split(
      ",",
    ),
    random.range(2, 12),
  );
  return source.format<() => string>([
    () => random.pick(few),
    () => faker.science.unit().name,
    () => faker.science.unit().symbol,
    () =>
      random.pick(["Kilogram", "Gram", "Pound", "Piece", "Litre", "Metre", "Hour", "Box", "Pair", "Dozen"]),
  ]);
}

function boolean(source: Source) {
  const { random } = source;
  const [yes, no] = random.pick([
    ["true", "false"],
    ["True", "False"],
    ["TRUE", "FALSE"],
    ["yes", "no"],
    ["Yes", "No"],
    ["Y", "N"],
    ["ja", "nein"],
    ["oui", "non"],
    ["sí", "no"],
    ["✓", "✗"],
    ["t", "f"],
  ] as const);
  const share = random.pick([0.5, 0.8, 0.2, 1, 0]);
  return () => (random.chance(share) ? yes : no);
}

function rank(source: Source) {
  const { random } = source;
  const first = random.pick([1, 1, 1, random.range(2, 90)]);
  return source.format<(row: number) => string>([
    (row) => ordinal(first + row),
    (row) => `#${first + row}`,
    (row) => `No. ${first + row}`,
    (row) => `${first + row}.`,
    (row) => String(first + row),
  ]);
}

/** Quantities with their units, shares, ranks and yes or no. */
export const measures: readonly ColumnType[] = [
  ...quantities.map(({ label, headers, ...quantity }) => ({ label, headers, column: measured(quantity) })),
  { label: "length", headers: ["height", "size", "body height"], column: bodyHeight },
  { label: "percentage", headers: ["percent", "share", "rate", "%", "discount", "pct"], column: percentage },
  { label: "dimensions", headers: ["dimensions", "size", "measurements", "format"], column: dimensions },
  { label: "temperature", headers: ["temperature", "temp", "oven", "max temp"], column: temperature },
  { label: "unit", headers: ["unit", "uom", "unit of measure", "units"], column: unit },
  {
    label: "boolean",
    headers: ["active", "in stock", "is_member", "paid", "flag", "enabled"],
    column: boolean,
  },
  { label: "rank", headers: ["rank", "position", "place", "#", "pos"], column: rank },
];
