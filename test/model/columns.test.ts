import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { AegirForColumnAnnotation, type AnnotatorOptions } from "../../lib/model/index.js";
import type { NativeTensor } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { dispose, expectClose, idTensor, indexTensor, shake, startTensor, values } from "./support.js";

const geometry: AnnotatorOptions = {
  archLayout: ["w1<w1"],
  dModel: 32,
  headSize: 16,
  numLabels: 5,
  dtype: "f64",
  pooling: ["mean", "max"],
};

function columnModel(columns: AnnotatorOptions["columns"], seed = 5): AegirForColumnAnnotation {
  const model = new AegirForColumnAnnotation({ ...geometry, columns }, { seed });
  shake(model.native, seed, "f64", 0.1);
  return model;
}

/** Columns as token rows, and for each target its column and its context. */
interface Tables {
  columns: number[][];
  targets: number[];
  context: number[][];
  positions?: number[];
}

async function run(model: AegirForColumnAnnotation, tables: Tables, grad = false) {
  const { columns, targets, context, positions = columns.map(() => 0) } = tables;
  const width = Math.max(...context.map((row) => row.length));
  const padded = context.flatMap((row) => [...row, ...new Array<number>(width - row.length).fill(-1)]);
  const inputs = {
    inputIds: idTensor([columns.flat()]),
    cuSeqlens: startTensor(columns),
    targets: indexTensor(targets),
    context: native().Tensor.fromData(Int32Array.from(padded), [context.length, width], "i64"),
    positions: indexTensor(positions),
  };
  try {
    return await model.forward(inputs, { grad });
  } finally {
    dispose(...Object.values(inputs));
  }
}

async function logitsOf(model: AegirForColumnAnnotation, tables: Tables): Promise<[number[], number[]]> {
  using output = await run(model, tables);
  return [values(output.logits), values(output.ownLogits!)];
}

const two: Tables = {
  columns: [
    [97, 98, 99, 257],
    [49, 257],
    [50, 51, 52, 53, 257],
    [32, 257],
    [104, 105, 258],
  ],
  targets: [0, 2, 4],
  context: [[1, 2], [0, 1], [3]],
  positions: [0, 1, 2, 0, 1],
};

describe("attention over columns", () => {
  const model = columnModel({ heads: 2, positions: 0 });
  const placed = columnModel({ heads: 2, positions: 2 });
  afterAll(() => dispose(model, placed));

  it.each([
    ["without", model],
    ["with", placed],
  ])("of packed tables is that of each target by itself, %s positions", async (_, net) => {
    const [logits, own] = await logitsOf(net, two);
    for (const [row, target] of two.targets.entries()) {
      const chosen = [target, ...two.context[row]!];
      const alone = await logitsOf(net, {
        columns: chosen.map((c) => two.columns[c]!),
        targets: [0],
        context: [chosen.slice(1).map((__, i) => i + 1)],
        positions: chosen.map((c) => two.positions![c]!),
      });
      expectClose(logits.slice(5 * row, 5 * row + 5), alone[0], "logits", 1e-12);
      expectClose(own.slice(5 * row, 5 * row + 5), alone[1], "own logits", 1e-12);
    }
  });

  it("does not know the order of the context, nor how far it is padded", async () => {
    const [[expected]] = [await logitsOf(model, { ...two, targets: [0], context: [[1, 2, 3, 4]] })];
    await fc.assert(
      fc.asyncProperty(
        fc.shuffledSubarray([1, 2, 3, 4, -1, -1], { minLength: 6, maxLength: 6 }),
        async (order) => {
          const [logits] = await logitsOf(model, { ...two, targets: [0], context: [order] });
          expectClose(logits, expected!, "logits", 1e-12);
        },
      ),
      { numRuns: 20 },
    );
  });

  it("reads the context, but the own-column head does not", async () => {
    const [logits, own] = await logitsOf(model, { ...two, context: [[1, 2], [0, 3], []] });
    const [before, ownBefore] = await logitsOf(model, two);
    expect(logits.slice(0, 5)).toEqual(before.slice(0, 5));
    for (const row of [1, 2]) expect(logits.slice(5 * row)).not.toEqual(before.slice(5 * row));
    expect(own).toEqual(ownBefore);
  });

  it("knows places only with positions, and all behind the last as one", async () => {
    const moved = { ...two, positions: [1, 0, 1, 0, 1] };
    const far = { ...two, positions: [0, 1, 7, 0, 1] };
    expect(await logitsOf(model, moved)).toEqual(await logitsOf(model, two));
    expect((await logitsOf(placed, moved))[0]).not.toEqual((await logitsOf(placed, two))[0]);
    expect(await logitsOf(placed, far)).toEqual(await logitsOf(placed, two));
  });

  it("without targets labels every sequence, without context", async () => {
    const alone = { columns: two.columns, targets: [0, 1, 2, 3, 4], context: [[], [], [], [], []] };
    const inputIds = idTensor([two.columns.flat()]);
    const cuSeqlens = indexTensor([0, 4, 6, 11, 13, 16]);
    using output = await model.forward({ inputIds, cuSeqlens });
    expect(values(output.logits)).toEqual((await logitsOf(model, alone))[0]);
    dispose(inputIds, cuSeqlens);
  });

  it("has the gradients of finite differences, through both heads", async () => {
    const labels = indexTensor([0, 3, 1]);
    const lossOf = async (grad: boolean): Promise<number> => {
      using output = await run(placed, two, grad);
      const losses: NativeTensor[] = [];
      for (const logits of [output.logits, output.ownLogits!]) {
        const { loss, logp } = await native().crossEntropy(placed.lane, { logits, labels });
        losses.push(loss);
        logp.dispose();
      }
      if (grad) await native().backward(placed.lane, losses, [1, 0.5]);
      const value = losses[0]!.item() + 0.5 * losses[1]!.item();
      dispose(...losses);
      return value;
    };
    await lossOf(true);
    const gradients = placed.native.gradients();
    const weights = placed.stateDict();
    const names = Object.keys(weights).filter((name) => /^(columns|own|classifier|pooler)/.test(name));
    expect(names).toHaveLength(12);
    for (const name of [...names, "backbone.stage0.encoder.1.timeMix.w0", "backbone.byteEmbedding.weight"]) {
      const flat = values(weights[name]!);
      const at = name.includes("byteEmbedding") ? 257 * 32 + 3 : Math.floor(flat.length / 2);
      const moved = async (by: number) => {
        const copy = Float64Array.from(flat);
        copy[at]! += by;
        const tensor = native().Tensor.fromData(copy, weights[name]!.shape, "f64");
        const original = weights[name]!.clone();
        placed.loadStateDict({ ...weights, [name]: tensor });
        const value = await lossOf(false);
        placed.loadStateDict({ ...weights, [name]: original });
        dispose(tensor, original);
        return value;
      };
      const numeric = ((await moved(1e-5)) - (await moved(-1e-5))) / 2e-5;
      const analytic = values(gradients[name]!)[at]!;
      const where = `${name}[${at}]: numeric ${numeric}, analytic ${analytic}`;
      expect(Math.abs(numeric - analytic), where).toBeLessThan(1e-8 * Math.max(1, Math.abs(numeric)));
    }
    dispose(labels, ...Object.values(gradients), ...Object.values(weights));
  });

  it.each<[Partial<Tables>, RegExp]>([
    [{ targets: [0, 5, 1] }, /targets: every entry must lie in 0\.\.4; got 0 to 5/],
    [{ context: [[1], [9], []] }, /context: every entry must lie in -1\.\.4; got -1 to 9/],
    [{ targets: [0] }, /context: expected 1 rows, one a target, got 3/],
    [{ positions: [0] }, /positions: expected 5 entries, one a sequence, got 1/],
  ])("refuses %j", async (change, message) => {
    await expect(run(model, { ...two, ...change })).rejects.toThrow(message);
  });

  it("refuses heads that do not divide the width, pooling of a context that is not there, targets without columns", async () => {
    expect(() => new AegirForColumnAnnotation({ ...geometry, columns: { heads: 3 } })).toThrow(
      /columns\.heads \(--column-heads\): 3 does not divide dModel 32/,
    );
    expect(
      () => new AegirForColumnAnnotation({ ...geometry, pooling: ["context"], columns: { heads: 2 } }),
    ).toThrow(/pooling: "context" is of models/);
    for (const [dModel, heads] of [
      [32, 4],
      [96, 3],
    ] as const) {
      const chosen = new AegirForColumnAnnotation({ ...geometry, dModel, columns: {} });
      expect(chosen.options.columns).toMatchObject({ heads });
      chosen.dispose();
    }
    const plain = new AegirForColumnAnnotation(geometry);
    await expect(run(plain, two)).rejects.toThrow(/targets: of a model with column attention alone/);
    plain.dispose();
  });
});

describe("labels with shared factors", () => {
  it("say what a classifier of the summed weights says", async () => {
    const labels = ["Book", "Book/name", "Movie/name", "price"];
    const { numLabels: _, ...shape } = geometry;
    const model = new AegirForColumnAnnotation({ ...shape, labels, factorLabels: true }, { seed: 2 });
    const plain = new AegirForColumnAnnotation({ ...shape, labels }, { seed: 3 });
    const weights = model.stateDict();
    const { "classifier.factors.weight": factors, ...rest } = weights;
    // Book, name, Movie, price in the order in which they come.
    expect(factors!.shape).toEqual([4, 32]);
    const flat = values(factors!);
    const row = (...ids: number[]) =>
      Array.from({ length: 32 }, (__, i) => ids.reduce((sum, id) => sum + flat[32 * id + i]!, 0));
    const summed = Float64Array.from([row(0), row(0, 1), row(2, 1), row(3)].flat());
    const added = native().Tensor.fromData(summed, [4, 32], "f64");
    const whole = rest["classifier.weight"]!.add(added);
    plain.loadStateDict({ ...rest, "classifier.weight": whole });
    const inputIds = idTensor([
      [97, 98],
      [49, 50],
    ]);
    using a = await model.forward({ inputIds });
    using b = await plain.forward({ inputIds });
    expectClose(values(a.logits), values(b.logits), "logits", 1e-13);
    dispose(added, whole, inputIds, model, plain, ...Object.values(weights));
  });
});
