import { momentBetween } from "./dates.js";
import { type ColumnType, digits, hex, pad2, type Source } from "./source.js";

function url(source: Source) {
  const { random, faker } = source;
  const path = () =>
    Array.from({ length: random.int(3) }, () => `/${faker.lorem.slug(random.range(1, 3))}`).join("");
  const host = (row: number) => source.entity(row).host;
  return source.format<(row: number) => string>([
    (row) => `https://${host(row)}${path()}`,
    (row) => `http://www.${host(row)}${path()}/`,
    (row) => `www.${host(row)}${path()}`,
    () => `/${faker.lorem.slug(2)}${path()}?id=${random.int(1000)}`,
  ]);
}

function hostname(source: Source) {
  const { random, faker } = source;
  const sub = random.pick(["www.", "api.", "mail.", ""]);
  return source.format<(row: number) => string>([
    (row) => source.entity(row).host,
    (row) => sub + source.entity(row).host,
    () => `${faker.internet.domainWord()}-${pad2(random.int(40))}`,
    () =>
      `${random.pick(["db", "web", "node", "cache"])}${random.int(90)}.${random.pick(["eu", "us", "ap"])}.internal`,
  ]);
}

function ipAddress(source: Source) {
  const { random } = source;
  const octet = () => random.int(256);
  const net = random.pick(["10.0", "192.168", "172.16", `${octet()}.${octet()}`]);
  return source.format<() => string>([
    () => `${net}.${octet()}.${octet()}`,
    () => `${octet()}.${octet()}.${octet()}.${octet()}`,
    () => `${net}.${octet()}.0/${random.range(16, 30)}`,
    () => `${net}.${octet()}.${octet()}:${random.range(80, 9999)}`,
    () => `2001:db8:${hex(random, 4)}:${hex(random, 4)}::${hex(random, 4)}`,
  ]);
}

function filePath(source: Source) {
  const { random, faker } = source;
  const extension = random.pick(["csv", "pdf", "jpg", "log", "json", "txt", "docx"]);
  const stem = () => faker.lorem.slug(random.range(1, 2)).replaceAll("-", random.pick(["_", "-"]));
  return source.format<() => string>([
    () => `${stem()}.${extension}`,
    () => `/var/${faker.lorem.word()}/${stem()}.${extension}`,
    () => `C:\\${faker.lorem.word()}\\${stem()}.${extension}`,
    () => `./${faker.lorem.word()}/${stem()}.${extension}`,
  ]);
}

function version(source: Source) {
  const { random } = source;
  const major = random.int(12);
  const number = () => `${major + random.int(2)}.${random.int(20)}.${random.int(30)}`;
  return source.format<() => string>([
    number,
    () => `v${number()}`,
    () => `${number()}-${random.pick(["rc", "beta", "alpha"])}.${random.int(5)}`,
    () => `${major}.${random.int(20)}`,
    () => `^${number()}`,
  ]);
}

function identifier(source: Source) {
  const { random, faker } = source;
  const length = random.pick([7, 8, 16, 24, 40]);
  const uuid = () =>
    `${hex(random, 8)}-${hex(random, 4)}-4${hex(random, 3)}-${random.pick(["8", "9", "a", "b"])}${hex(random, 3)}-${hex(random, 12)}`;
  return source.format<() => string>([
    uuid,
    () => hex(random, length),
    () => hex(random, length).toUpperCase(),
    () => `usr_${faker.string.alphanumeric(14)}`,
    () => digits(random, 8),
  ]);
}

function year(source: Source) {
  const { random } = source;
  const first = random.pick([1900, 1960, 1990, 2010]);
  const one = () => random.range(first, 2025);
  return source.format<() => string>([
    () => String(one()),
    () => `${one()}.0`,
    () => `'${pad2(one() % 100)}`,
    () => {
      const start = one();
      return `${start}/${pad2((start + 1) % 100)}`;
    },
    () => `(${one()})`,
  ]);
}

function timestamp(source: Source) {
  const moment = () => new Date(momentBetween(source, 2015, 2026));
  return source.format<() => string>([
    () => moment().toISOString(),
    () => `${moment().toISOString().slice(0, 19)}Z`,
    () => moment().toISOString().slice(0, 16).replace("T", " "),
    () => String(Math.floor(moment().getTime() / 1000)),
    () => String(moment().getTime()),
    () => moment().toUTCString(),
  ]);
}

function duration(source: Source) {
  const { random } = source;
  const seconds = () => Math.max(1, Math.round(source.logNormal(900, 1.3)));
  const clock = (s: number) =>
    `${pad2(Math.floor(s / 3600))}:${pad2(Math.floor(s / 60) % 60)}:${pad2(s % 60)}`;
  return source.format<() => string>([
    () => clock(seconds()),
    () => `${Math.floor(seconds() / 60)}:${pad2(random.int(60))}`,
    () => `${Math.ceil(seconds() / 60)} min`,
    () => `PT${Math.ceil(seconds() / 60)}M`,
    () => `${Math.floor(seconds() / 3600)}h ${random.int(60)}m`,
    () => `${source.number(seconds() / 60, 1)} s`,
    () => String(seconds()),
  ]);
}

function temperature(source: Source) {
  const { random } = source;
  const mean = random.range(-5, 30);
  const celsius = () => mean + 6 * random.gaussian();
  return source.format<() => string>([
    () => source.number(celsius(), 1),
    () => `${source.number(celsius(), 1)} °C`,
    () => `${source.number(celsius(), 1)}°C`,
    () => `${Math.round(celsius())}°`,
    () => `${Math.round(celsius() * 1.8 + 32)} F`,
    () => String(Math.round(celsius())),
  ]);
}

function fileSize(source: Source) {
  const { random } = source;
  const size = () => Math.max(1, source.logNormal(60, 1.5));
  const unit = random.pick(["KB", "MB", "GB", "kB", "MiB"]);
  return source.format<() => string>([
    () => `${source.number(size(), 1)} ${unit}`,
    () => `${Math.ceil(size())}${unit}`,
    () => `${Math.ceil(size())} ${random.pick(["KB", "MB"])}`,
    () => String(Math.ceil(size() * 1024)),
    () => `${Math.ceil(size())}${unit[0]}`,
  ]);
}

/** The web, dates and measures. */
export const technical: readonly ColumnType[] = [
  { label: "url", headers: ["url", "link", "website", "page"], column: url },
  { label: "hostname", headers: ["host", "domain", "server", "site"], column: hostname },
  { label: "ipAddress", headers: ["ip", "ip address", "client", "source"], column: ipAddress },
  { label: "filePath", headers: ["file", "path", "attachment", "document"], column: filePath },
  { label: "version", headers: ["version", "release", "build", "tag"], column: version },
  { label: "identifier", headers: ["id", "uuid", "key", "hash", "commit"], column: identifier },
  { label: "year", headers: ["year", "season", "since", "founded"], column: year },
  { label: "timestamp", headers: ["timestamp", "created at", "time", "updated"], column: timestamp },
  { label: "duration", headers: ["duration", "time", "length", "elapsed"], column: duration },
  { label: "temperature", headers: ["temperature", "temp", "reading", "value"], column: temperature },
  { label: "fileSize", headers: ["size", "file size", "bytes", "disk"], column: fileSize },
];
