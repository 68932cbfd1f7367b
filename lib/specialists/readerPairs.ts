import { SparseBuilder, type SparseRows } from "./sparse.js";

/** Of one reader and some columns, one row each: unit vectors of powers of its probabilities. */
export interface Said {
  /** Of the column. */
  own: readonly Float64Array[];
  /** The most of any other column of its table; zero where there is none. */
  others: readonly Float64Array[];
}

/** Products from here on are features: it leaves some dozens a column, and what they say of the table. */
const LEAST_PRODUCT = 0.05;
/** Training columns that a pair must occur in. */
const MIN_DF = 2;

/**
 * Pairs of labels, one that a reader gives the column and one that a reader gives the others of its table: a name beside an isbn is a book's. Each is the
 * product of what is said of the two. A linear classifier of both by themselves adds what they say, and cannot know what they say together.
 */
export class ReaderPairs {
  private readonly columnOf: ReadonlyMap<number, number>;

  /** @param kept numbers of the pairs that are features, ascending: (reader, reader, label, label) in this order, row-major */
  constructor(readonly kept: Int32Array) {
    this.columnOf = new Map([...kept].map((pair, column) => [pair, column]));
  }

  /** Keeps the pairs of which at least two columns have enough. */
  static fit(said: readonly Said[]): ReaderPairs {
    const df = new Map<number, number>();
    const rows = said[0]?.own.length ?? 0;
    for (let row = 0; row < rows; row++) eachPair(said, row, (pair) => df.set(pair, (df.get(pair) ?? 0) + 1));
    const often = [...df].filter(([, count]) => count >= MIN_DF).map(([pair]) => pair);
    return new ReaderPairs(Int32Array.from(often).sort());
  }

  transform(said: readonly Said[]): SparseRows {
    const builder = new SparseBuilder(this.kept.length);
    const rows = said[0]?.own.length ?? 0;
    for (let row = 0; row < rows; row++) {
      eachPair(said, row, (pair, product) => {
        const column = this.columnOf.get(pair);
        if (column !== undefined) builder.push(column, product);
      });
      builder.endRow();
    }
    return builder.build();
  }
}

/** In ascending order of the pairs' numbers. */
function eachPair(said: readonly Said[], row: number, visit: (pair: number, product: number) => void): void {
  let first = 0;
  for (const { own } of said) {
    for (const { others } of said) {
      const [a, b] = [own[row]!, others[row]!];
      for (let i = 0; i < a.length; i++) {
        if (a[i]! < LEAST_PRODUCT) continue;
        for (let j = 0; j < b.length; j++) {
          const product = a[i]! * b[j]!;
          if (product >= LEAST_PRODUCT) visit(first + i * b.length + j, product);
        }
      }
      first += a.length * b.length;
    }
  }
}
