import { GOODS } from "./lists.js";
import { capitalised, pattern, type Source } from "./source.js";

/** Several of an article: "Lip Liners". */
function plural(article: string): string {
  if (/s$/.test(article)) return article;
  if (/(?:sh|ch|x)$/.test(article)) return `${article}es`;
  if (/fe?$/.test(article)) return article.replace(/fe?$/, "ves");
  return /[^aeo]y$/.test(article) ? `${article.slice(0, -1)}ies` : `${article}s`;
}

const SHADES =
  "Black,White,Navy,Rose Gold,Dark Grey,Ivory,Mint,Coral,Red,Royal Blue,Oak,Silver,Clear,Camo".split(",");
const MADE_OF =
  "Leather,Nylon,Stainless Steel,Cotton,Brass,Wooden,Glass,Velvet,Lace,Silicone,Organic,Wireless".split(",");
const WAYS =
  "Adjustable,Vintage,Mini,Kids,Men's,Women's,Girls,Premium,Folding,Heavy Duty,Portable,Waterproof,Classic,Professional,Original".split(
    ",",
  );

/** As shops write what they sell: who made it, which model, of what, how many, in which color. */
export function goodsNames(source: Source): (() => string)[] {
  const { random, faker } = source;
  const article = () => random.pick(GOODS);
  const maybe = (share: number, text: () => string) => (random.chance(share) ? `${text()} ` : "");
  const word = () => capitalised(faker.word.noun());
  const brands = Array.from({ length: random.range(1, 6) }, () =>
    random.pick([faker.person.lastName, word, () => faker.company.name().split(/[ ,-]/)[0]!])(),
  );
  const brand = () => random.pick(brands);
  const model = () =>
    pattern(random, random.pick(["AA-000", "A000", "0000", "AA0000A", "A0", "AAA-000-AA", "00A"]));
  const way = () => random.pick(WAYS);
  const shade = () => random.pick(SHADES);
  const stuff = () => random.pick(MADE_OF);
  const amount = () =>
    `${random.range(1, 60)} ${random.pick(["oz", "Ounce", "ml", "Pack", "Count", "cm", "Inch", "kg", "pcs", "W"])}`;
  const kind = article();
  return [
    () => `${maybe(0.6, brand)}${maybe(0.4, way)}${maybe(0.4, stuff)}${article()}`,
    () => `${maybe(0.3, brand)}${maybe(0.5, stuff)}${article()} with ${maybe(0.6, way)}${article()}`,
    () => `${brand()} ${model()} ${maybe(0.5, way)}${article()}${random.chance(0.4) ? ` - ${shade()}` : ""}`,
    () => `${brand()} - ${maybe(0.5, word)}${article()} - ${shade()}`,
    () => `${maybe(0.6, brand)}${word()} ${maybe(0.3, stuff)}${article()}, ${amount()}`,
    () => `${maybe(0.3, shade)}${maybe(0.5, word)}${kind}${random.chance(0.3) ? ` - ${amount()}` : ""}`,
    () => `${maybe(0.3, shade)}${maybe(0.5, word)}${article()}${random.chance(0.3) ? ` (${shade()})` : ""}`,
    () => `${way()} ${stuff()} ${article()} for ${plural(article())}, ${amount()}, ${shade()}`,
    () => `${maybe(0.4, brand)}${amount()} ${maybe(0.4, stuff)}${article()} ${maybe(0.3, model)}`.trim(),
  ];
}

/** What a shelf is called: several of an article, of a kind where `modified`. */
export function goodsGroup({ random }: Source) {
  const goods = () => plural(random.pick(GOODS));
  return { goods, modified: () => `${random.pick([...WAYS, ...MADE_OF])} ${goods()}` };
}
