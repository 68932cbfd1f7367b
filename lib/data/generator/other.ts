import { type ColumnType, capitalised, digits, letters, ordinal, pattern, type Source } from "./source.js";

/**
 * Columns of no type that has a name here: counts and statistics, categories and codes of other fields, names of other things, rests of
 * programs. A model learns from them when to say nothing. All of them have the label `OTHER`.
 */
export const OTHER = "other";

type Writer = (source: Source) => (row: number) => string;

const statistics: Writer = (source) => {
  const { random } = source;
  const median = random.pick([0.3, 1, 3, 8, 30, 100, 400, 2500, 30_000]);
  const spread = random.pick([0.3, 0.8, 1.3]);
  const places = random.pick([0, 0, 0, 1, 1, 2, 3]);
  const grouped = random.chance(0.2);
  return () => {
    const value = source.logNormal(median, spread);
    const text = source.number(value, places, grouped);
    return random.chance(0.9) || places > 0 ? text : `${text}.0`;
  };
};

const balances: Writer = (source) => {
  const { random } = source;
  const places = random.int(4);
  const scale = random.pick([1, 5, 30, 1000]);
  return () => (scale * random.gaussian()).toFixed(places);
};

const smallCounts: Writer = ({ random }) => {
  const top = random.pick([1, 2, 4, 9, 20, 60]);
  const tail = random.pick(["", "", "", ".0"]);
  return () => random.int(top + 1) + tail;
};

const shares: Writer = ({ random }) => {
  const places = random.range(2, 4);
  const leading = random.chance(0.8);
  return () => {
    const text = random.next().toFixed(places);
    return leading ? text : text.replace(/^0/, "");
  };
};

const records: Writer = (source) => {
  const { random } = source;
  const n = () => random.int(random.pick([6, 30, 90]));
  return source.format<() => string>([
    () => `${n()}-${n()}`,
    () => `${n()}-${n()}-${n()}`,
    () => `${n()}:${n()}`,
    () => `${n()}/${n() + 1}`,
    () => `${n()} (${n()})`,
    () => `${n()} of ${n() + 20}`,
    () => `1:${n() + 1}`,
  ]);
};

const counted: Writer = (source) => {
  const { random, faker } = source;
  const thing = random.pick([
    "beds",
    "goals",
    "points",
    "pages",
    "servings",
    "guests",
    "rooms",
    "ppm",
    "dB",
    "Hz",
    "rpm",
    "fps",
    "px",
    "mm/h",
    "W/m²",
    "votes",
    "views",
    "followers",
    `${faker.word.noun()}s`,
  ]);
  const median = random.pick([2, 8, 60, 900]);
  return () => `${Math.max(1, Math.round(source.logNormal(median, 0.6)))} ${thing}`;
};

const words: Writer = (source) => {
  const { random, faker } = source;
  const kind = random.pick(["noun", "adjective", "verb", "adverb"] as const);
  const capital = random.chance(0.5);
  const end = kind === "noun" && random.chance(0.4) ? "s" : "";
  const few = Array.from({ length: random.pick([1, 2, 5, 20]) }, () => faker.word[kind]() + end);
  return () => {
    const word = random.pick(few);
    return capital ? capitalised(word) : word;
  };
};

const phrases: Writer = (source) => {
  const { random, faker } = source;
  const form = random.int(5);
  return () => {
    const [a, n, m] = [faker.word.adjective(), faker.word.noun(), faker.word.noun()];
    return [`${a} ${n}`, `${n}_${m}`, `${n} / ${m}`, `${n} (${a})`, `${a}-${n}`.toUpperCase()][form]!;
  };
};

const lists: Writer = (source) => {
  const { random, faker } = source;
  const separator = random.pick(["; ", ", ", " | ", " ", "\n", " / "]);
  const word = random.pick([
    () => faker.word.noun(),
    () => faker.food.ingredient(),
    () => faker.word.sample(),
  ]);
  return () => Array.from({ length: random.range(2, 7) }, word).join(separator);
};

const NATURE = ["dog", "cat", "bird", "fish", "horse", "insect", "type", "snake", "cow"] as const;

const things: Writer = (source) => {
  const { random, faker } = source;
  const animal = random.pick(NATURE);
  return random.pick<() => string>([
    () => faker.animal[animal](),
    () => faker.science.chemicalElement().name,
    () => faker.science.chemicalElement().symbol,
    () => faker.person.zodiacSign(),
    () => faker.airline.airline().name,
    () => faker.airline.airplane().name,
    () => faker.vehicle.fuel(),
    () => faker.vehicle.bicycle(),
    () => faker.food.ingredient(),
    () => faker.food.ethnicCategory(),
    () => faker.finance.transactionType(),
    () => faker.hacker.abbreviation(),
    () => faker.company.buzzPhrase(),
    () => faker.database.engine(),
    () => faker.git.branch(),
  ]);
};

const venues: Writer = (source) => {
  const { random, faker } = source;
  const noun = () => capitalised(faker.word.noun());
  return random.pick<() => string>([
    () => `${random.pick(["Hotel", "Café", "Restaurant", "Museum of", "Villa", "Camping"])} ${noun()}`,
    () =>
      `${noun()} ${random.pick(["Hotel", "Inn", "Lodge", "Museum", "Park", "Church", "Theatre", "Stadium"])}`,
    () => `${faker.location.city()} ${random.pick(["United", "FC", "Tigers", "Rovers", "Eagles", "City"])}`,
    () =>
      `${noun()} ${random.pick(["Festival", "Workshop", "Conference", "Marathon", "Cup"])} ${random.range(2015, 2026)}`,
    () => `${faker.location.city()} ${random.pick(["High School", "University", "College", "Hospital"])}`,
    () => `${faker.location.city()} vs ${faker.location.city()}`,
    () => `${faker.location.city()} ${noun()}s`,
    () => `The ${noun()}s`,
    () =>
      `${capitalised(faker.word.adjective())} ${noun()} ${random.pick(["Grill", "Bar", "Kitchen", "Pub", "House", "Bistro"])}`,
    () =>
      `${faker.person.lastName()} ${random.pick(["Hall", "Square", "Gardens", "Castle", "Beach", "Farm", "Club"])}`,
    () => `${faker.person.firstName()} & ${noun()}`,
    () => `${capitalised(faker.food.fruit())} ${noun()}`,
    () => `DJ ${noun()}`,
    () => `${noun()} ${noun()}`,
  ]);
};

/** Clubs of one league: some go by their town alone. */
const teams: Writer = (source) => {
  const { random, faker } = source;
  const town = () => source.realCity() ?? faker.location.city();
  const bare = random.pick([0, 0.2, 0.4]);
  const form = source.format([
    () =>
      `${town()} ${random.pick(["Town", "City", "United", "FC", "CF", "SK", "Rovers", "Athletic", "SC"])}`,
    () => `${random.pick(["Real", "Atletico", "FC", "Sporting", "PF", "SV", "AC", "Dynamo"])} ${town()}`,
    () => `${faker.location.country()} ${random.pick(["U16", "U19", "U21", "Men", "Women", "B"])}`,
    () => `${town()} ${capitalised(faker.word.noun())}s`,
  ]);
  if (random.chance(0.2)) return () => town().replace(/\P{L}/gu, "").slice(0, 3).toUpperCase();
  return () => (random.chance(bare) ? town() : form());
};

const events: Writer = (source) => {
  const { random, faker } = source;
  const noun = () => capitalised(faker.word.noun());
  const kind = () =>
    random.pick(
      "Webinar,Workshop,Open Day,Festival,Brunch,Market,Concert,Summit,Meetup,Gala,Auction,Retreat,Parade,Tour,Class,Night,Fair,Show,Camp,Training".split(
        ",",
      ),
    );
  return source.format([
    () => `${noun()} ${noun()} ${kind()}`,
    () => `${kind()}: ${capitalised(faker.company.buzzPhrase())}`,
    () => `[${kind()}] ${capitalised(faker.company.catchPhrase())}`,
    () => `Virtual ${noun()} ${kind()}`,
    () => `${faker.location.city()} ${noun()} ${kind()} ${random.range(2012, 2026)}`,
    () => `${kind()} with ${faker.person.fullName()}`,
    () => `${faker.person.fullName()} w/ ${noun()}`,
    () => `${noun()} ${kind()} Registration - Session ${random.range(1, 9)}`,
    () => `${ordinal(random.range(2, 30))} Annual ${noun()} ${kind()}`,
  ]);
};

const eateries: Writer = (source) => {
  const { random, faker } = source;
  const noun = () => capitalised(faker.word.noun());
  const name = () => random.pick([faker.person.firstName, faker.person.lastName, noun])();
  return source.format([
    () =>
      `${random.pick(["Chez", "Le", "La", "El", "Auberge du", "Trattoria", "Casa", "Hotel", "Café"])} ${name()}`,
    () => `${name()}'s`,
    () => `${name()}'s ${random.pick(["Restaurant", "Cafe", "Pizzeria", "Grill", "Diner", "Bar & Grill"])}`,
    () => `${name()} ${random.pick(["Resort", "Hotel & Spa", "Suites", "Plaza", "Apartments", "Hostel"])}`,
    () => `${name()} ${random.pick(["Vineyards", "Winery", "Brewing", "Lounge", "Wines", "Sushi", "Thai"])}`,
    () => `${noun()} on ${name()}`,
  ]);
};

const enumerations: Writer = (source) => {
  const { random, faker } = source;
  const space = `http://${faker.word.noun()}.org/${faker.word.noun()}#`;
  const prefix = random.pick(["http://schema.org/", "https://schema.org/", "", space]);
  const suffix = random.pick(["", "Type", "Mode", "Status", "Diet", "Level"]);
  const few = Array.from(
    { length: random.range(1, 4) },
    () => `${prefix}${capitalised(faker.word.adjective())}${capitalised(faker.word.noun())}${suffix}`,
  );
  return () => random.pick(few);
};

const keys: Writer = ({ random }) => {
  const form = random.pick([
    "A",
    "AA",
    "AAA",
    "A0",
    "0A",
    "AAAA",
    "AA/A",
    "000",
    "00",
    "A.0.0",
    "00-0000.00",
  ]);
  const few = random.chance(0.6)
    ? Array.from({ length: random.range(1, 8) }, () => pattern(random, form))
    : null;
  return () => (few ? random.pick(few) : pattern(random, form));
};

const noise: Writer = ({ random }) => {
  const [low, high] = random.pick([
    [33, 126],
    [33, 126],
    [161, 591],
    [0x400, 0x4ff],
    [0x4e00, 0x9fff],
    [0x3040, 0x30ff],
    [0x5d0, 0x5ea],
    [0x627, 0x64a],
    [0x2190, 0x27bf],
  ] as const);
  const length = random.pick([1, 3, 8, 20, 60]);
  return () =>
    Array.from({ length: random.range(1, length) }, () => String.fromCodePoint(random.range(low, high))).join(
      "",
    );
};

const program: Writer = (source) => {
  const { random, faker } = source;
  const name = () => faker.word.noun().replaceAll("-", "_");
  return source.format<() => string>([
    () => `{"${name()}": ${random.int(100)}, "${name()}": "${name()}"}`,
    () => `[${random.int(9)}, ${random.int(9)}, ${random.int(9)}]`,
    () => faker.system.cron(),
    () => `SELECT ${name()} FROM ${name()} WHERE ${name()} = ${random.int(9)}`,
    () => Buffer.from(faker.string.alphanumeric(random.range(6, 40))).toString("base64"),
    () => `${name()}(${name()}, ${random.int(99)})`,
    () => faker.internet.emoji(),
    () => `0x${digits(random, 2)}${letters(random, 2).replace(/[G-Z]/g, "F")}`,
    () => faker.internet.jwt(),
    () => `${faker.hacker.ingverb()} ${faker.hacker.noun()}`,
  ]);
};

/** Positions, grades, sides: one to three letters, of few kinds. */
const letterCodes: Writer = ({ random }) => {
  const few = Array.from({ length: random.range(2, 12) }, () => letters(random, random.range(1, 3)));
  const separator = random.pick([",", "/", "-", "", ""]);
  return () =>
    separator !== "" && random.chance(0.3)
      ? `${random.pick(few)}${separator}${random.pick(few)}`
      : random.pick(few);
};

const wholeNumbers: Writer = ({ random }) => {
  const length = random.pick([2, 2, 3, 3, 4, 4, 4, 5, 5, 6]);
  const spread = random.pick([0.05, 0.3, 1]);
  const middle = 10 ** length * (0.2 + 0.8 * random.next());
  return () => String(Math.max(0, Math.round(middle * (1 + spread * (random.next() - 0.5)))));
};

/** The same words in every row: a link, or what stands above the numbers of a narrow screen. */
const captions: Writer = ({ random }) => {
  const words =
    "Matches,Goals,Points,Details,View,Report,Match Report,More info,Read more,Edit,Link,Buy now,Players,Games,Votes,Download,Map,Photos,Compare,Select".split(
      ",",
    );
  const caption = random.pick(words);
  return () => caption;
};

const bigNumbers: Writer = ({ random }) => {
  const length = random.range(4, 13);
  const fixed = digits(random, random.int(3));
  return () => (fixed + digits(random, length)).slice(0, length);
};

const writers: readonly Writer[] = [
  statistics,
  statistics,
  statistics,
  statistics,
  balances,
  balances,
  smallCounts,
  smallCounts,
  shares,
  wholeNumbers,
  wholeNumbers,
  letterCodes,
  letterCodes,
  records,
  counted,
  counted,
  words,
  words,
  phrases,
  lists,
  things,
  things,
  things,
  venues,
  venues,
  venues,
  venues,
  teams,
  events,
  eateries,
  enumerations,
  keys,
  keys,
  noise,
  program,
  bigNumbers,
  captions,
];

/** Headers of columns that are nobody's: of reports, surveys and programs. */
const HEADERS = [
  "value",
  "data",
  "count",
  "total",
  "n",
  "x",
  "col1",
  "field_2",
  "wins",
  "losses",
  "goals",
  "points",
  "games",
  "score",
  "avg",
  "mean",
  "std",
  "ratio",
  "index",
  "level",
  "class",
  "type",
  "kind",
  "group",
  "notes",
  "remarks",
  "code",
  "flag",
  "result",
  "species",
  "team",
  "event",
  "venue",
  "school",
  "pages",
  "servings",
  "ingredients",
  "views",
  "likes",
  "population",
  "votes",
  "rooms",
  "beds",
  "minutes",
  "attempts",
  "signal",
  "config",
  "mode",
  "label",
  "target",
];

export const other: readonly ColumnType[] = writers.map((column) => ({
  label: OTHER,
  headers: HEADERS,
  column,
}));
