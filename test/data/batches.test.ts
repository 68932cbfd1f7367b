import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BatchIterator, type BatchOptions, collate, evaluationBatches } from "../../lib/data/batches.js";
import { Random } from "../../lib/data/random.js";
import type { EncodedColumn, EncodedExample, Table } from "../../lib/data/types.js";
import { Token } from "../../lib/data/vocabulary.js";

const example = (length: number, label: number): EncodedExample => ({
  ids: new Int32Array(length).fill(label),
  roles: new Int32Array(length).fill(3),
  pool: new Uint8Array(length).fill(1),
  label,
});
const examplesOf = (lengths: number[]) => lengths.map((length, i) => example(length, i));
const lengths = fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 200 });

describe("batches", () => {
  it("hold every example once an epoch, within the limits", () => {
    fc.assert(
      fc.property(
        lengths,
        fc.integer({ min: 1, max: 20 }),
        fc.option(fc.integer({ min: 1, max: 400 })),
        (sizes, rows, tokens) => {
          const options: BatchOptions = { rows, window: 3, seed: 5, ...(tokens === null ? {} : { tokens }) };
          const batches = new BatchIterator(examplesOf(sizes), options);
          for (let epoch = 0; epoch < 2; epoch++) {
            const seen: number[] = [];
            // How many batches there are depends on which rows an epoch puts together.
            batches.state = { epoch, position: 0 };
            for (let i = batches.batchesInEpoch; i > 0; i--) {
              const batch = batches.next();
              expect(batch.size).toBeLessThanOrEqual(rows);
              if (tokens !== null && batch.size > 1)
                expect(batch.size * batch.tokens).toBeLessThanOrEqual(tokens);
              expect(Math.max(...batch.lengths)).toBe(batch.tokens);
              seen.push(...batch.rows);
            }
            expect(seen.sort((a, b) => a - b)).toEqual([...sizes.keys()]);
          }
        },
      ),
    );
  });

  it("go on from a stored state with the same batches", () => {
    fc.assert(
      fc.property(lengths, fc.nat({ max: 60 }), (sizes, steps) => {
        const options = { rows: 7, window: 2, seed: 9 };
        const unbroken = new BatchIterator(examplesOf(sizes), options);
        for (let i = 0; i < steps; i++) unbroken.next();
        const resumed = new BatchIterator(examplesOf(sizes), options);
        resumed.state = unbroken.state;
        for (let i = 0; i < 12; i++) expect(resumed.next()).toEqual(unbroken.next());
      }),
    );
  });

  it("come in another order each epoch and each seed", () => {
    const order = (seed: number, epoch: number) => {
      const batches = new BatchIterator(examplesOf(new Array<number>(64).fill(10)), { rows: 8, seed });
      batches.state = { epoch, position: 0 };
      return Array.from({ length: 8 }, () => [...batches.next().rows]).flat();
    };
    expect(order(1, 0)).toEqual(order(1, 0));
    expect(order(1, 0)).not.toEqual(order(1, 1));
    expect(order(1, 0)).not.toEqual(order(2, 0));
  });

  it("pad little where a window of them is sorted by length", () => {
    const random = new Random(2);
    const sizes = Array.from({ length: 2000 }, () => random.range(5, 120));
    const batches = new BatchIterator(examplesOf(sizes), { rows: 32, window: 16 });
    let padded = 0;
    for (let i = batches.batchesInEpoch; i > 0; i--) {
      const { size, tokens } = batches.next();
      padded += size * tokens;
    }
    const valid = sizes.reduce((sum, size) => sum + size, 0);
    expect(padded / valid).toBeLessThan(1.15);
  });

  it("take new examples each epoch from a function", () => {
    const epochs: number[] = [];
    const batches = new BatchIterator(
      (epoch) => {
        epochs.push(epoch);
        return examplesOf([3 + epoch, 4]);
      },
      { rows: 1 },
    );
    for (let i = 0; i < 4; i++) batches.next();
    expect(epochs).toEqual([0, 1]);
  });

  it("are right-padded with PAD, role 0 and no pooling", () => {
    const batch = collate([example(3, 7), example(1, 8)], [1, 0]);
    expect([...batch.ids]).toEqual([8, Token.PAD, Token.PAD, 7, 7, 7]);
    expect([...batch.roles]).toEqual([3, 0, 0, 3, 3, 3]);
    expect([...batch.pool]).toEqual([1, 0, 0, 1, 1, 1]);
    expect([...batch.lengths, ...batch.labels, ...batch.rows]).toEqual([1, 3, 8, 7, 1, 0]);
  });

  it("for evaluation cover all examples once, without shuffling", () => {
    const examples = examplesOf([9, 2, 5, 2, 7]);
    const rows = [...evaluationBatches(examples, { rows: 2 })].map((batch) => [...batch.rows]);
    expect(rows).toEqual([[1, 3], [2, 4], [0]]);
  });

  it("refuse no examples, a state that does not fit, and unknown options", () => {
    expect(() => new BatchIterator([])).toThrow(/no examples/);
    const batches = new BatchIterator(examplesOf([1, 2, 3]), { rows: 2 });
    expect(() => {
      batches.state = { epoch: 0, position: 3 };
    }).toThrow(/position was 3, but an epoch has 2/);
    expect(() => new BatchIterator(examplesOf([1]), { row: 2 } as BatchOptions)).toThrow(
      /did you mean 'rows'/,
    );
  });
});

describe("column-wise batches", () => {
  const column = (length: number, position: number): EncodedColumn => ({
    ids: Int32Array.from({ length }, (_, i) => 100 * position + i),
    roles: new Int32Array(length).fill(1),
    pool: new Uint8Array(length).fill(1),
    position,
  });
  // Tables of columns of these lengths, every column a target with the others as context.
  const examplesOfTable = (sizes: number[]): EncodedExample[] => {
    const columns = sizes.map(column);
    return columns.map((own, i) => ({ ...own, label: i, context: columns.filter((_, j) => j !== i) }));
  };

  it("hold every column of a table once", () => {
    const batch = collate(examplesOfTable([3, 1, 2]), [0, 1, 2]);
    expect(batch.size).toBe(3);
    expect(batch.tokens).toBe(6);
    expect([...batch.columns!.cuSeqlens]).toEqual([0, 3, 4, 6]);
    expect([...batch.ids]).toEqual([0, 1, 2, 100, 200, 201]);
    expect([...batch.columns!.targets]).toEqual([0, 1, 2]);
    expect([...batch.columns!.context]).toEqual([1, 2, 0, 2, 0, 1]);
    expect([...batch.columns!.positions]).toEqual([0, 1, 2]);
    expect([...batch.lengths]).toEqual([3, 1, 2]);
  });

  it("fill up what a target lacks with -1, and hold targets without any context", () => {
    const [first, second] = [examplesOfTable([3, 1, 2]), examplesOfTable([4])];
    const batch = collate([...first, ...second], [1, 3]);
    expect(batch.columns!.width).toBe(2);
    expect([...batch.columns!.context.slice(2)]).toEqual([-1, -1]);
    expect(collate(second, [0]).columns).toMatchObject({ width: 0, context: new Int32Array(0) });
  });

  it("hold the columns of a table together where they are drawn by table, so that little is encoded twice", () => {
    const seed = 20261129;
    const random = new Random(seed, "tables");
    const tables = Array.from({ length: 40 }, (_, t) => {
      const table: Table = { name: `table ${t}`, columns: [] };
      const examples = examplesOfTable(Array.from({ length: random.range(1, 6) }, () => random.range(5, 20)));
      return examples.map((one, column) => ({ ...one, source: { table, column } }));
    });
    const examples = tables.flat();
    const epoch = (by: BatchOptions["by"], epochs = 1) => {
      const iterator = new BatchIterator(examples, { rows: 1000, tokens: 200, by, seed });
      const rows: number[] = [];
      let [tokens, batches] = [0, 0];
      for (let e = 0; e < epochs; e++) {
        rows.length = 0;
        while (rows.length < examples.length) {
          const batch = iterator.next();
          rows.push(...batch.rows);
          tokens += batch.tokens;
          batches++;
          expect(batch.tokens).toBeLessThanOrEqual(200);
        }
      }
      return { rows, tokens, batches };
    };
    const together = epoch("table");
    expect(
      [...together.rows].sort((a, b) => a - b),
      `seed ${seed}`,
    ).toEqual([...examples.keys()]);
    // A table that is cut is encoded in both parts: at most one a batch.
    const whole = examples.reduce((sum, { ids }) => sum + ids.length, 0);
    const largest = Math.max(...tables.map((of) => of.reduce((sum, { ids }) => sum + ids.length, 0)));
    expect(together.tokens).toBeLessThan(whole + together.batches * largest);
    expect(together.tokens).toBeLessThan(epoch("column").tokens / 1.5);
    const cuts = (rows: number[]) =>
      rows.filter((row, i) => i > 0 && examples[rows[i - 1]!]!.source.table !== examples[row]!.source.table)
        .length;
    // Batches are shuffled, which may part the columns of a table that was cut.
    expect(cuts(together.rows)).toBeLessThan(tables.length + together.batches);
    expect(epoch("table", 2).rows).not.toEqual(together.rows);
    expect(epoch("table").rows).toEqual(together.rows);
  });

  it("hold every example once an epoch, and no more tokens than they may", () => {
    const tables = fc.array(fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 6 }), {
      minLength: 1,
      maxLength: 12,
    });
    fc.assert(
      fc.property(
        tables,
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 1, max: 200 }),
        (sizes, rows, tokens) => {
          const examples = sizes.flatMap(examplesOfTable);
          const batches = [...evaluationBatches(examples, { rows, tokens })];
          expect(batches.flatMap((batch) => [...batch.rows]).sort((a, b) => a - b)).toEqual([
            ...examples.keys(),
          ]);
          for (const { size, tokens: held, columns } of batches) {
            expect(size).toBeLessThanOrEqual(rows);
            if (size > 1) expect(held).toBeLessThanOrEqual(tokens);
            expect(columns!.cuSeqlens.at(-1)).toBe(held);
          }
        },
      ),
    );
  });
});
