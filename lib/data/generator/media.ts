import { type ColumnType, capitalised, type Source } from "./source.js";

/** A sentence of words in an order that reads like prose, of five to thirty words. */
function sentence({ random, faker }: Source): string {
  const { word } = faker;
  const clause = () =>
    random.pick([
      () => `the ${word.adjective()} ${word.noun()} ${word.verb()}s ${word.preposition()} a ${word.noun()}`,
      () => `we ${word.verb()} ${word.adverb()} and ${word.verb()} the ${word.noun()}`,
      () =>
        `this ${word.noun()} is ${word.adverb()} ${word.adjective()} ${word.preposition()} the ${word.noun()}`,
      () => `you can ${word.verb()} your ${word.adjective()} ${word.noun()} with our ${word.noun()}`,
      () => `it was a ${word.adjective()} ${word.noun()}, ${word.conjunction()} they ${word.verb()} it`,
    ])();
  const clauses = Array.from({ length: random.range(1, 3) }, clause);
  return `${capitalised(clauses.join(random.pick([", ", " and ", ", but ", "; "])))}${random.pick([".", ".", "!", "?"])}`;
}

function text(source: Source) {
  const { random, faker } = source;
  const prose = () => Array.from({ length: random.range(1, 4) }, () => sentence(source)).join(" ");
  return source.format<() => string>([
    prose,
    () => faker.commerce.productDescription(),
    () => `<p>${prose()}</p>`,
    () => `&lt;p&gt;${prose()}&lt;/p&gt;`,
    () => faker.food.description(),
    () => faker.lorem.sentences(2),
    () => `${sentence(source)} ${faker.company.catchPhrase()}. ${sentence(source)}`,
    () => `"${prose()}"`,
  ]);
}

function title(source: Source) {
  const { random, faker } = source;
  const noun = () => capitalised(faker.word.noun());
  const made = () => `${capitalised(faker.word.adjective())} ${noun()}`;
  return source.format<() => string>([
    () => faker.book.title(),
    () => faker.music.songName(),
    () => faker.music.album(),
    () => `The ${made()}`,
    () => `${noun()} of the ${made()}`,
    () =>
      `${made()}: ${random.pick(["A Novel", "The Movie", "Volume 2", "Part One", "Live", "Deluxe Edition"])}`,
    () => `A ${noun()} in the ${noun()}`,
    () => `${noun()} & ${noun()} (${random.range(1950, 2024)})`,
    () => `The ${noun()} Season ${random.range(1, 9)} Episode ${random.range(1, 20)}`,
  ]);
}

function genre(source: Source) {
  const { random, faker } = source;
  const films = ["Drama", "Comedy", "Thriller", "Horror", "Action", "Documentary", "Romance", "Animation"];
  return source.format<() => string>([
    () => faker.music.genre(),
    () => faker.book.genre(),
    () => random.pick(films),
    () => `${random.pick(films)}, ${random.pick(films)}`,
    () => random.pick(["Sci-Fi", "Fantasy", "Western", "Crime", "Mystery", ...films]),
  ]);
}

function dish(source: Source) {
  const { random, faker } = source;
  const thing = () =>
    capitalised(random.pick([faker.food.meat(), faker.food.vegetable(), faker.food.fruit()]));
  const form = () =>
    random.pick(["Soup", "Salad", "Stew", "Pie", "Cake", "Curry", "Smoothie", "Casserole", "Tart"]);
  return source.format<() => string>([
    () => faker.food.dish(),
    () => `${thing()} ${form()}`,
    () =>
      `${random.pick(["Easy", "Grilled", "Spicy", "Healthy", "Classic"])} ${thing()} and ${thing()} ${form()}`,
    () => `${thing()} ${form()} with ${faker.food.spice().toLowerCase()}`,
    () => `${thing()} ${form()} Recipe`,
  ]);
}

function filmRating(source: Source) {
  const { random } = source;
  return source.format<() => string>([
    () => random.pick(["G", "PG", "PG-13", "R", "NC-17", "NR"]),
    () => random.pick(["PG", "PG-13", "R", "Not Rated", "TV-14", "TV-MA", "TV-PG"]),
    () => `BBFC ${random.pick(["U", "PG", "12", "12A", "15", "18"])}`,
    () => `FSK ${random.pick(["0", "6", "12", "16", "18"])}`,
  ]);
}

function bookFormat(source: Source) {
  const { random } = source;
  return source.format<() => string>([
    () => random.pick(["Paperback", "Hardcover", "Ebook", "EBook", "Audiobook", "Hardback", "Softcover"]),
    () =>
      random.pick(["Kindle Edition", "Mass Market Paperback", "Board book", "Audio CD", "Paperback", "PDF"]),
    () => `http://schema.org/${random.pick(["Paperback", "Hardcover", "EBook"])}`,
    () =>
      random.pick([
        "Taschenbuch",
        "Gebunden",
        "Broché",
        "Relié",
        "Poche",
        "Grand format",
        "Tapa blanda",
        "EPUB",
      ]),
  ]);
}

/** Books, films, music, food and prose. */
export const media: readonly ColumnType[] = [
  { label: "title", headers: ["title", "book", "movie", "song", "album", "film"], column: title },
  { label: "genre", headers: ["genre", "style", "kind", "category"], column: genre },
  { label: "text", headers: ["description", "comment", "review", "notes", "summary", "text"], column: text },
  { label: "dish", headers: ["dish", "recipe", "meal", "menu item", "food"], column: dish },
  { label: "filmRating", headers: ["rating", "mpaa", "age rating", "certificate"], column: filmRating },
  { label: "bookFormat", headers: ["format", "binding", "edition", "book format"], column: bookFormat },
];
