import { momentBetween } from "./dates.js";
import { type ColumnType, ordinal, pad2, type Source } from "./source.js";

function monthNames({ faker }: Source) {
  const { wide, abbr } = faker.definitions.date.month;
  return { long: wide, short: abbr ?? wide };
}

function date(source: Source) {
  const { random, locale, faker } = source;
  const { long, short } = monthNames(source);
  const first = random.pick([1900, 1960, 1990, 2000, 2015, 2020]);
  const draw = () => new Date(momentBetween(source, first, random.pick([2024, 2030])));
  const weekdays = faker.definitions.date.weekday;
  const d = (at: Date) => at.getUTCDate();
  const m = (at: Date) => at.getUTCMonth() + 1;
  const y = (at: Date) => at.getUTCFullYear();
  const write = source.format<(at: Date) => string>([
    (at) => at.toISOString().slice(0, 10),
    (at) => `${y(at)}/${pad2(m(at))}/${pad2(d(at))}`,
    (at) => `${pad2(d(at))}.${pad2(m(at))}.${y(at)}`,
    (at) => `${d(at)}.${m(at)}.${String(y(at)).slice(2)}`,
    (at) => `${pad2(d(at))}/${pad2(m(at))}/${y(at)}`,
    (at) => `${m(at)}/${d(at)}/${y(at)}`,
    (at) => `${m(at)}/${d(at)}/${String(y(at)).slice(2)}`,
    (at) => `${d(at)} ${long[m(at) - 1]} ${y(at)}`,
    (at) => `${short[m(at) - 1]} ${d(at)}, ${y(at)}`,
    (at) => `${long[m(at) - 1]} ${d(at)}, ${y(at)}`,
    (at) => `${d(at)}-${short[m(at) - 1]}-${String(y(at)).slice(2)}`,
    (at) => `${(weekdays.abbr ?? weekdays.wide)[at.getUTCDay()]}, ${d(at)} ${short[m(at) - 1]} ${y(at)}`,
    (at) => `${pad2(d(at))}-${pad2(m(at))}-${y(at)}`,
    (at) => `${long[m(at) - 1]} ${y(at)}`,
    (at) => `${y(at)}-${pad2(m(at))}`,
    (at) => at.toISOString().slice(0, 10).replaceAll("-", ""),
    (at) =>
      `${source.english ? ordinal(d(at)) : `${d(at)}${locale === "de" ? "." : ""}`} ${long[m(at) - 1]} ${y(at)}`,
  ]);
  return () => write(draw());
}

function timestamp(source: Source) {
  const { random } = source;
  const zone = random.pick(["+00:00", "+01:00", "+02:00", "-05:00", "-07:00", "+0000"]);
  const wholeDay = random.chance(0.2);
  const iso = () => {
    const text = new Date(momentBetween(source, 2008, 2026)).toISOString();
    return wholeDay ? `${text.slice(0, 11)}00:00:00` : text.slice(0, 19);
  };
  /** The parts of one moment. */
  const parts = (write: (year: string, month: string, day: string, minute: number) => string) => () => {
    const [year, month, day, hour, minute] = iso().split(/[-T:]/) as [string, string, string, string, string];
    return write(year, month, day, 60 * Number(hour) + Number(minute));
  };
  return source.format<() => string>([
    () => iso() + zone,
    () => iso(),
    () => iso().replace("T", " "),
    () => `${iso().replace("T", " ").replaceAll("-", "/")}`,
    parts((year, month, day, minute) => `${day}.${month}.${year} ${clock24(minute)}`),
    parts((year, month, day, minute) => `${month}/${day}/${year} ${clock12(minute, " AM", " PM")}`),
  ]);
}

/** A time of day in minutes, on the quarter of an hour as schedules have it, or any. */
function minuteOfDay({ random }: Source) {
  const step = random.pick([1, 5, 15, 30, 60]);
  return () => random.int(1440 / step) * step;
}

const clock24 = (minute: number) => `${pad2(Math.floor(minute / 60))}:${pad2(minute % 60)}`;
const clock12 = (minute: number, am: string, pm: string) =>
  `${Math.floor(minute / 60) % 12 || 12}:${pad2(minute % 60)}${minute < 720 ? am : pm}`;

function time(source: Source) {
  const { random } = source;
  const at = minuteOfDay(source);
  const several = (write: (minute: number) => string) =>
    Array.from({ length: random.range(1, 4) }, () => write(at())).join(" ");
  return source.format<() => string>([
    () => clock24(at()),
    () => several(clock24),
    () => several((minute) => clock12(minute, "am", "pm").padStart(7, "0")),
    () => `${clock24(at())}:${random.chance(0.5) ? "00" : pad2(random.int(60))}`,
    () => clock12(at(), " AM", " PM"),
    () => clock12(at(), "am", "pm"),
    () => `${random.range(1, 12)}${random.pick(["am", "pm", " AM", " PM"])}`,
    () => clock24(at()).replace(":", "h"),
    () => `${clock24(at())} Uhr`,
    () => clock24(at()).replace(/^0/, ""),
  ]);
}

function duration(source: Source) {
  const { random } = source;
  const minutes = () => Math.max(1, Math.round(source.logNormal(45, 0.9)));
  const hours = () => Math.floor(minutes() / 60);
  return source.format<() => string>([
    () => `${minutes()} min`,
    () => `PT${minutes()}M`,
    () => `PT${random.range(1, 5)}H${random.int(60)}M`,
    () => `${hours()} hr ${random.int(60)} min`,
    () => `${minutes()} ${random.pick(["minutes", "mins", "Min.", "minutos"])}`,
    () => `${random.range(1, 12)} ${random.pick(["hours", "days", "weeks", "months", "years"])}`,
    () => `${random.range(1, 59)}:${pad2(random.int(60))}`,
    () => `${hours()}h${pad2(random.int(60))}`,
    () => `P${random.range(1, 3)}DT${random.int(24)}H`,
  ]);
}

const DAYS = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"];

function weekday(source: Source) {
  const { random, faker } = source;
  const english = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
  const several = (separator: string) => random.sample(english, random.range(2, 7)).join(separator);
  const separator = random.pick([" ", ", ", "; "]);
  return source.format<() => string>([
    () => faker.date.weekday(),
    () => faker.date.weekday({ abbreviated: true }),
    () => random.pick(english),
    () => random.pick(english).toUpperCase(),
    () => several(separator),
    () => `http://schema.org/${random.pick(english)}`,
    () => random.pick(DAYS),
  ]);
}

function month(source: Source) {
  const { random, faker } = source;
  return source.format<() => string>([
    () => faker.date.month(),
    () => faker.date.month({ abbreviated: true }),
    () => faker.date.month().toUpperCase(),
    () => `${faker.date.month({ abbreviated: true })}-${faker.date.month({ abbreviated: true })}`,
    () => `${pad2(random.range(1, 12))} - ${faker.date.month()}`,
  ]);
}

function quarter(source: Source) {
  const { random } = source;
  const year = () => random.range(1995, 2027);
  const q = () => random.range(1, 4);
  return source.format<() => string>([
    () => `Q${q()} ${year()}`,
    () => `${year()}-Q${q()}`,
    () => `${year()}Q${q()}`,
    () => `Q${q()}`,
    () => `${q()}Q${String(year()).slice(2)}`,
    () => `FY${year()} Q${q()}`,
  ]);
}

function dateRange(source: Source) {
  const { random } = source;
  const { long, short } = monthNames(source);
  const year = () => random.range(1950, 2025);
  const day = () => random.range(1, 28);
  const dash = random.pick(["–", "-", " - ", " – ", " to "]);
  const iso = () => new Date(momentBetween(source, 2010, 2027)).toISOString().slice(0, 10);
  return source.format<() => string>([
    () => {
      const from = year();
      return `${from}${dash}${from + random.int(12)}`;
    },
    () => `${day()}${dash}${day()} ${random.pick(long)} ${year()}`,
    () => `${iso()}${dash === "-" ? " - " : dash}${iso()}`,
    () => `${random.pick(short)} ${year()}${dash}${random.pick([...short, "present"])} ${year()}`,
    () => `${year()}${dash}present`,
    () => `${random.pick(long)} ${day()}${dash}${day()}, ${year()}`,
  ]);
}

function openingHours(source: Source) {
  const { random, faker } = source;
  const open = () => 60 * random.range(6, 11) + random.pick([0, 0, 0, 30]);
  const close = () => 60 * random.range(15, 23) + random.pick([0, 0, 0, 30]);
  const days = () => random.pick(["Mo-Fr", "Mo-Sa", "Mo-Su", "Tu-Su", "Mo,Tu,We,Th,Fr", "Sa,Su"]);
  const span24 = () => `${clock24(open())}-${clock24(close())}`;
  const span12 = () => `${clock12(open(), " AM", " PM")}-${clock12(close(), " AM", " PM")}`;
  const each = (write: () => string) =>
    random
      .sample([...DAYS.keys()], random.range(2, 7))
      .map((d) => `${faker.definitions.date.weekday.wide[(d + 1) % 7]} ${write()}`);
  return source.format<() => string>([
    () => `${days()} ${span24()}`,
    () => each(span12).join("; "),
    () => each(span24).join(", "),
    () => `Mon - Fri: ${span12()}; Sat: ${span12()}; Sun: closed`,
    () => span12(),
    () => span24(),
    () => `${random.range(6, 11)}am to ${random.range(3, 10)}${random.pick(["pm", "PM"])}`,
    () => random.pick(["Open 24 hours", "24/7", "Mo-Su 00:00-24:00", `Mo-Fr ${span24()}; Sa ${span24()}`]),
  ]);
}

/** Calendar and clock. */
export const calendar: readonly ColumnType[] = [
  { label: "date", headers: ["date", "day", "published", "created", "start date", "due date"], column: date },
  {
    label: "timestamp",
    headers: ["timestamp", "datetime", "modified", "created_at", "start"],
    column: timestamp,
  },
  { label: "time", headers: ["time", "start time", "departure time", "arrival", "hour"], column: time },
  {
    label: "duration",
    headers: ["duration", "length", "running time", "cook time", "runtime"],
    column: duration,
  },
  { label: "weekday", headers: ["weekday", "day", "day of week", "days"], column: weekday },
  { label: "month", headers: ["month", "birth month", "season"], column: month },
  { label: "quarter", headers: ["quarter", "period", "fiscal quarter"], column: quarter },
  { label: "dateRange", headers: ["period", "dates", "years", "from - to", "term"], column: dateRange },
  {
    label: "openingHours",
    headers: ["opening hours", "hours", "open", "business hours"],
    column: openingHours,
  },
];
