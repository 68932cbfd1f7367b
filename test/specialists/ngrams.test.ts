import { describe, expect, it } from "vitest";
import { countNgrams, type NgramOptions, ngramOptions } from "../../lib/specialists/ngrams.js";

const of = (cells: string[], options: Partial<NgramOptions>) =>
  countNgrams(cells, ngramOptions.parse(options));

/** Counts of the n-grams of each cell, added up. */
const counts = (cells: string[], options: Partial<NgramOptions>) => [...of(cells, options).counts].sort();
const same = (a: string, b: string, options: Partial<NgramOptions>) =>
  expect(of([a], options)).toEqual(of([b], options));
const differ = (a: string, b: string, options: Partial<NgramOptions>) =>
  expect(of([a], options)).not.toEqual(of([b], options));

describe("n-grams of words", () => {
  const words = { unit: "words", minN: 1, maxN: 2 } as const;

  it("are words and other characters by themselves, and neighbours with the cell's ends", () => {
    // New, York, ",", NY; ^New, New York, York ",", ", NY", NY$
    expect(counts(["New York, NY"], words)).toEqual(Array(9).fill(1));
    // a twice, b; ^a, a b, b a, a$
    expect(counts(["a b a"], words)).toEqual([1, 1, 1, 1, 1, 2]);
    expect(counts(["", " "], words)).toEqual([]);
  });

  it("do not know how blanks are, and know whole words and their order", () => {
    same("new   york", "new york", words);
    same("New York", "new york", words);
    differ("New York", "new york", { ...words, lowercase: false });
    differ("york new", "new york", words);
    differ("newyork", "new york", words);
    same("e\u0301a b", "E\u0301A b", words);
  });
});

describe("n-grams of shapes", () => {
  const shapes = { unit: "shapes", minN: 1, maxN: 5, words: false } as const;

  it("know how digits and capitals are, and not which", () => {
    same("Tel. +49 30", "Abcdef. +12 34", shapes);
    same("Ünal", "Smith", shapes);
    same("12:30Z", "07:59T", shapes);
    differ("12:30", "2:30", shapes);
    differ("USD", "USd", shapes);
    differ("a-b", "a b", shapes);
  });

  it("are of the whole cell", () => {
    // " 9 9 ": 9 twice; " 9 " twice and "9 9"
    expect(counts(["1 2"], { ...shapes, maxN: 1 })).toEqual([2]);
    expect(counts(["1 2"], { ...shapes, minN: 3, maxN: 3 })).toEqual([1, 2]);
  });
});

describe("n-grams of characters", () => {
  it("stay within words, with their ends", () => {
    // " ab" and "ab " of each word; across words "b a" too
    expect(counts(["ab ab"], { minN: 3, maxN: 3 })).toEqual([2, 2]);
    expect(counts(["ab ab"], { minN: 3, maxN: 3, words: false })).toEqual([1, 2, 2]);
  });
});
