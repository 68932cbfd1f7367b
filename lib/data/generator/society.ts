import { OCCUPATIONS } from "./lists.js";
import { type ColumnType, capitalised, digits, pattern, type Source } from "./source.js";

/** What follows the names of those who studied or are in an office. */
const SUFFIXES = "Jr.,Sr.,II,III,IV,PhD,Ph.D.,M.D.,MD,MD PhD,DO,RN,DDS,DVM,LCSW,CPA,CFA,P.E.,Esq.,MBA".split(
  ",",
);

function person(source: Source) {
  const { random, faker } = source;
  const initial = () => faker.person.firstName()[0]!;
  // Family names travel further than a locale's own few hundred.
  const anywhere = random.chance(0.5);
  const comma = random.pick([" ", ", "]);
  const dash = random.pick([" - ", " – ", ", ", " #"]);
  const write = source.format<(first: string, last: string) => string>([
    (first, last) => `${first} ${last}`,
    (first, last) => `${first} ${last}`,
    (first, last) => `${first} ${initial()}. ${last}`,
    (first, last) => `${first[0]}. ${initial()}. ${last}`,
    // With a number of theirs, as scorers and ranks have.
    (first, last) => `${first} ${last}${dash}${random.range(1, 40)}`,
    (first, last) => `${first} ${random.chance(0.3) ? `${initial()}. ` : ""}${last}`,
    (first, last) => `${first} ${last} ${random.pick(["&", "and"])} ${faker.person.firstName()} ${last}`,
    (first, last) => `${last.toUpperCase()} ${first}`,
    (first, last) => `${last}, ${first} ${initial()}.`,
    (first, last) => `${random.pick(["Dr.", "Mr.", "Mrs.", "Prof.", "Ms."])} ${first} ${last}`,
    (first, last) => `${first} ${last}, ${faker.person.firstName()} ${faker.person.lastName()}`,
    (first, last) => `${first} ${last}-${faker.person.lastName()}`,
    (first, last) => `${first.toUpperCase()} ${last.toUpperCase()}`,
    (first, last) => `${first} ${last}${comma}${random.pick(SUFFIXES)}`,
    (first, last) =>
      `${first} ${initial()}${random.pick(["", "."])} ${last}${comma}${random.pick(SUFFIXES)}${random.chance(0.2) ? `, ${random.pick(SUFFIXES)}` : ""}`,
  ]);
  return (row: number) => {
    const { first, last } = source.entity(row);
    return write(first, anywhere ? source.lastNameFromAnywhere() : last);
  };
}

function gender(source: Source) {
  const { random } = source;
  const pair = random.pick([
    ["male", "female"],
    ["Male", "Female"],
    ["M", "F"],
    ["m", "w"],
    ["man", "woman"],
    ["männlich", "weiblich"],
    ["homme", "femme"],
    ["hombre", "mujer"],
    ["MALE", "FEMALE"],
    ["http://schema.org/Male", "http://schema.org/Female"],
    ["Men", "Women"],
    ["Herr", "Frau"],
  ] as const);
  const other = random.pick(["other", "diverse", "X", "non-binary", "unisex"]);
  return () => (random.chance(0.04) ? other : random.pick(pair));
}

function maritalStatus(source: Source) {
  const { random } = source;
  const words = ["single", "married", "divorced", "widowed", "separated"];
  return source.format<() => string>([
    () => random.pick(words),
    () => capitalised(random.pick(words)),
    () => random.pick(["ledig", "verheiratet", "geschieden", "verwitwet"]),
    () => random.pick(["célibataire", "marié", "mariée", "divorcé", "veuve"]),
  ]);
}

function bloodType(source: Source) {
  const { random } = source;
  return source.format<() => string>([
    () => random.pick(["A", "B", "AB", "O"]) + random.pick(["+", "-"]),
    () => `${random.pick(["A", "B", "AB", "0"])} Rh${random.pick(["+", "-"])}`,
    () => `${random.pick(["A", "B", "AB", "O"])} ${random.pick(["positive", "negative"])}`,
  ]);
}

function degree(source: Source) {
  const { random } = source;
  const fields = ["Computer Science", "Engineering", "Economics", "Biology", "Law", "Education", "Physics"];
  return source.format<() => string>([
    () =>
      random.pick([
        "High School",
        "Bachelor's Degree",
        "Master's Degree",
        "Associate Degree",
        "Doctorate",
        "PhD",
        "Bachelor Degree",
        "Diploma",
        "High school diploma",
        "Postgraduate Degree",
        "Vocational training",
      ]),
    () => `${random.pick(["BSc", "MSc", "BA", "MA", "B.Eng.", "PhD", "LLM"])} ${random.pick(fields)}`,
    () => `${random.pick(["Bachelor of", "Master of", "Degree in", "Diploma in"])} ${random.pick(fields)}`,
    () => random.pick(["BSc", "MSc", "BA", "MA", "MBA", "PhD", "MD", "JD"]),
  ]);
}

const LANGUAGES =
  "English:en,German:de,French:fr,Spanish:es,Italian:it,Portuguese:pt,Dutch:nl,Polish:pl,Russian:ru,Chinese:zh,Japanese:ja,Arabic:ar,Hindi:hi,Turkish:tr,Swedish:sv,Danish:da,Norwegian:no,Finnish:fi,Greek:el,Czech:cs,Hungarian:hu,Korean:ko,Hebrew:he,Ukrainian:uk,Deutsch:de,Français:fr,Español:es,Italiano:it,Português:pt,Englisch:en,Anglais:en,Inglés:en"
    .split(",")
    .map((pair) => pair.split(":") as [string, string]);

function language(source: Source) {
  const { random, faker } = source;
  const few = random.sample(LANGUAGES, random.range(2, LANGUAGES.length));
  const name = () => random.pick(few)[0];
  return source.format<() => string>([
    name,
    () => random.pick(few)[1],
    () => `${random.pick(few)[1]}-${random.pick(["US", "GB", "DE", "FR", "ES", "BR", "MX", "CN"])}`,
    () => `${name()}, ${name()}`,
    () => faker.location.language().name,
    () => name().toLowerCase(),
    () => `${name()} (${random.pick(["fluent", "native", "B2", "C1", "basic"])})`,
  ]);
}

function nationality(source: Source) {
  const { random } = source;
  const words =
    "American,British,German,French,Italian,Spanish,Portuguese,Dutch,Belgian,Austrian,Swiss,Swedish,Norwegian,Danish,Finnish,Polish,Irish,Greek,Turkish,Russian,Ukrainian,Romanian,Hungarian,Czech,Canadian,Mexican,Brazilian,Argentine,Chilean,Chinese,Japanese,Indian,Korean,Indonesian,Thai,Vietnamese,Pakistani,Iranian,Iraqi,Israeli,Egyptian,Nigerian,Kenyan,South African,Moroccan,Australian,New Zealander,Cuban,Peruvian".split(
      ",",
    );
  return source.format<() => string>([
    () => random.pick(words),
    () => random.pick(words).toLowerCase(),
    () => `${random.pick(words)}/${random.pick(words)}`,
    () => random.pick(["deutsch", "französisch", "italienisch", "spanisch", "polnisch", "österreichisch"]),
  ]);
}

function age(source: Source) {
  const { random } = source;
  const mean = random.pick([10, 26, 40, 65]);
  const years = () => Math.max(1, Math.round(mean + mean * 0.2 * random.gaussian()));
  return source.format<() => string>([
    () => String(years()),
    () => `${years()} years`,
    () => `${years()} years old`,
    () => `${years()}y`,
    () => `${years()} Jahre`,
    () => random.pick(["18-24", "25-34", "35-44", "45-54", "55-64", "65+"]),
    () => `${years()}-${String(random.int(365)).padStart(3, "0")}`,
  ]);
}

const PHONE_FORMS = [
  "0000000000",
  "+00 00 0000 0000",
  "+00 (0) 000 000000",
  "(00000) 00000",
  "00000 000000",
  "+000000000000",
  "00 00 00 00 00",
  "0000/000000",
  "Tel: 000 000 0000",
];

/** Numbers of North America: neither an area code nor an exchange begins with 0 or 1. */
const NANP_FORMS = [
  "A-E-N",
  "A-E-N",
  "A-E-N",
  "AEN",
  "AEN",
  "1AEN",
  "A.E.N",
  "(A) E-N",
  "(A)E-N",
  "+1(A) E-N",
  "+1AEN",
  "1-A-E-N",
  "A E N",
  "+1 A-E-N",
  "A-E-N ext. X",
];

function northAmericanPhone({ random }: Source) {
  const code = () => String(random.range(200, 989));
  const [area, exchange] = [code(), code()];
  const [oneArea, oneExchange] = [random.chance(0.4), random.chance(0.15)];
  const form = random.pick(NANP_FORMS);
  return () =>
    form
      .replace("A", oneArea ? area : code())
      .replace("E", oneExchange ? exchange : code())
      .replace("N", digits(random, 4))
      .replace("X", digits(random, 3));
}

function phone(source: Source) {
  const { random } = source;
  const form = random.pick(PHONE_FORMS);
  const area = digits(random, 2);
  const american = northAmericanPhone(source);
  return source.format<() => string>([
    () => pattern(random, form),
    american,
    american,
    () => `+${area} ${pattern(random, "00 000000")}`,
    () => pattern(random, random.pick(PHONE_FORMS)),
    () => `0${area}${pattern(random, "0 000000")}`,
  ]);
}

const RANKS = ["Senior", "Junior", "Lead", "Head", "Assistant", "Chief", "Trainee", "Part-time", "Deputy"];

function jobTitle(source: Source) {
  const { random, faker } = source;
  const one = () => random.pick(OCCUPATIONS);
  return source.format<() => string>([
    one,
    () => `${random.pick(RANKS)} ${one()}`,
    () => `${one()} (${random.pick(["m/f/d", "m/w/d", "Full Time", "Remote", "Part Time"])})`,
    () => `${one()} - ${faker.location.city()}`,
    () => `${one()}, ${random.pick(["Services", "Operations", "Sales", "Europe", "Healthcare"])}`,
    () => `${faker.person.jobArea()} ${faker.person.jobType()}`,
    () =>
      random.pick(["CEO", "CTO", "CFO", "Founder", "VP Sales", "Managing Director", "Owner", "President"]),
  ]);
}

function email(source: Source) {
  const { random } = source;
  const desk = ["info", "contact", "sales", "office", "hello", "support", "booking", "admin", "mail", "team"];
  const free = ["gmail.com", "yahoo.com", "hotmail.com", "outlook.com", "gmx.de", "web.de", "aol.com"];
  return source.format<(row: number) => string>([
    (row) => `${random.pick(desk)}@${source.entity(row).host}`,
    (row) => {
      const { first, last } = source.entity(row);
      return `${source.ascii(first)}${random.pick(["", ".", "_"])}${source.ascii(last)}@${random.pick(free)}`;
    },
    (row) => `mailto:${random.pick(desk)}@${source.entity(row).host}`,
    (row) => `${random.pick(desk)}@${source.entity(row).host}`.toUpperCase(),
  ]);
}

/** What is said of persons. */
export const society: readonly ColumnType[] = [
  {
    label: "person",
    headers: [
      "name",
      "person",
      "author",
      "player",
      "employee",
      "instructor",
      "manager",
      "coach",
      "captain",
      "top scorer",
      "owner",
      "doctor",
      "teacher",
    ],
    column: person,
  },
  {
    label: "firstName",
    headers: ["first name", "first_name", "given name", "vorname", "prénom"],
    column:
      ({ faker }) =>
      () =>
        faker.person.firstName(),
  },
  {
    label: "lastName",
    headers: ["last name", "last_name", "surname", "family name", "nachname"],
    column:
      ({ faker }) =>
      () =>
        faker.person.lastName(),
  },
  { label: "gender", headers: ["gender", "sex", "m/f"], column: gender },
  { label: "age", headers: ["age", "age group", "alter", "age (years)"], column: age },
  { label: "maritalStatus", headers: ["marital status", "civil status", "status"], column: maritalStatus },
  { label: "bloodType", headers: ["blood type", "blood group"], column: bloodType },
  { label: "degree", headers: ["degree", "education", "qualification", "education level"], column: degree },
  {
    label: "language",
    headers: ["language", "languages", "lang", "spoken language", "locale"],
    column: language,
  },
  { label: "nationality", headers: ["nationality", "citizenship", "nation"], column: nationality },
  { label: "phone", headers: ["phone", "fax", "tel", "phone number", "mobile phone"], column: phone },
  { label: "email", headers: ["email", "e-mail address", "mail", "contact email"], column: email },
  { label: "jobTitle", headers: ["job title", "occupation", "role", "position"], column: jobTitle },
];
