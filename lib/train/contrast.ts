import { collate } from "../data/batches.js";
import { isBlank } from "../data/cells.js";
import { Random } from "../data/random.js";
import type { Serialiser } from "../data/serialise.js";
import type { Batch, ColumnRef, EncodedExample, Table } from "../data/types.js";
import { AegirError } from "../errors.js";
import { type AegirForColumnAnnotation, batchInput } from "../model/index.js";
import type { NativeTensor } from "../native/contract.js";
import { native } from "../native/load.js";
import { encodeTargets } from "./examples.js";
import type { Figures, Validation } from "./loop.js";
import { backward, ratioTerm } from "./losses.js";
import { ModelTrainee } from "./modelTrainee.js";
import type { PretrainSettings } from "./pretrain.js";
import { learningRate } from "./schedule.js";
import { Scope } from "./tensors.js";
import { TrainingBatches } from "./trainingBatches.js";

/**
 * How a column becomes two views that belong together. "same-column": two halves of its cells; "masked-cell": the column without one of its
 * cells, and that cell.
 */
export type ContrastObjective = "same-column" | "masked-cell";

/** Examples (columns) twice: in each list the i-th is of the i-th column. */
type Views = [first: EncodedExample[], second: EncodedExample[]];

/** Columns of which two views can be made: those with two cells that are not blank. */
export function contrastable(columns: readonly ColumnRef[]): ColumnRef[] {
  return columns.filter(({ table, column }) => filledCells(table, column).length >= 2);
}

/** The cells of both views; which goes where depends on (seed, table, column, epoch) alone. */
export function viewsOf(
  { table, column }: ColumnRef,
  objective: ContrastObjective,
  seed: number,
  epoch: number,
): [string[], string[]] {
  const random = new Random(seed, "views", table.name, column, epoch);
  const cells = random.shuffle(filledCells(table, column));
  const cut = objective === "same-column" ? Math.ceil(cells.length / 2) : cells.length - 1;
  return [cells.slice(0, cut), cells.slice(cut)];
}

function filledCells(table: Table, column: number): string[] {
  return table.columns[column]!.cells.filter((cell) => !isBlank(cell));
}

/** The views of one batch of columns, encoded each by itself, without other columns of their tables. */
export class ContrastBatches {
  private constructor(
    readonly batches: TrainingBatches,
    private readonly second: ReadonlyMap<number, EncodedExample[]>,
  ) {}

  /** @param serialiser without context columns @throws AegirError ERR_DATA where fewer than two columns have two cells */
  static async create(
    columns: readonly ColumnRef[],
    serialiser: Serialiser,
    objective: ContrastObjective,
    { rows, seed }: { rows: number; seed: number },
  ): Promise<ContrastBatches> {
    const usable = contrastable(columns);
    if (usable.length < 2) {
      throw new AegirError(
        "ERR_DATA",
        `pretrain: ${usable.length} columns have two cells that are not blank, expected at least 2 to tell apart`,
      );
    }
    const second = new Map<number, EncodedExample[]>();
    const encode = async (epoch: number) => {
      const views = await encodeViews(usable, serialiser, objective, seed, epoch);
      second.delete(epoch - 2);
      second.set(epoch, views[1]);
      return views[0];
    };
    return new ContrastBatches(await TrainingBatches.create(encode, { rows, seed }), second);
  }

  async next(): Promise<[Batch, Batch]> {
    const first = await this.batches.next();
    const others = this.second.get(this.batches.state.epoch)!;
    return [first, collate(others, [...first.rows])];
  }
}

async function encodeViews(
  columns: readonly ColumnRef[],
  serialiser: Serialiser,
  objective: ContrastObjective,
  seed: number,
  epoch: number,
): Promise<Views> {
  const views = columns.map((ref) => viewsOf(ref, objective, seed, epoch));
  const encode = (side: 0 | 1) =>
    encodeTargets(
      serialiser,
      columns.map(({ table, column }, i) => {
        const { header } = table.columns[column]!;
        return { table: { name: table.name, columns: [{ header, cells: views[i]![side] }] }, column: 0 };
      }),
    );
  return [await encode(0), await encode(1)];
}

/**
 * Contrastive pretraining (InfoNCE, van den Oord et al., arXiv:1807.03748): the pooled embeddings of two views of one column have a larger
 * scalar product than those of different columns of the batch. The loss is the mean over both directions of the cross-entropy of the
 * (rows, rows) products against the diagonal.
 */
export class ContrastTrainee extends ModelTrainee<AegirForColumnAnnotation> {
  constructor(
    model: AegirForColumnAnnotation,
    private readonly pairs: ContrastBatches,
    /** Batches of held-out columns, always the same. */
    private readonly held: readonly [Batch, Batch][],
    private readonly options: PretrainSettings,
  ) {
    super(model, pairs.batches, options);
  }

  async step(step: number): Promise<Figures> {
    const { lr, warmup, steps, finalLr, clipNorm, ratioWeight } = this.options;
    using scope = new Scope();
    const { losses, ratio } = await this.compare(await this.pairs.next(), scope, true);
    const { lane } = this.model;
    await backward(lane, [
      { losses, weights: [0.5, 0.5] },
      ...ratio.map((output) => ratioTerm(output, ratioWeight / 2)),
    ]);
    const rate = learningRate(step, { lr, warmup, total: steps, finalFraction: finalLr });
    const { gradNorm, skipped } = await this.optimizer.step(lane, { lr: rate, clipNorm });
    const loss = (losses[0]!.item() + losses[1]!.item()) / 2;
    return { loss, ratioLoss: ratio[0]!.ratioLoss.item(), gradNorm, lr: rate, skipped };
  }

  /** `retrieved`: share of first views whose largest product is that with their own second view. */
  async validate(): Promise<Validation> {
    let [total, right, rows] = [0, 0, 0];
    for (const pair of this.held) {
      using scope = new Scope();
      const { losses, products } = await this.compare(pair, scope, false);
      const n = pair[0].size;
      const values = products.data() as Float32Array;
      for (let row = 0; row < n; row++) {
        const own = values.subarray(row * n, (row + 1) * n);
        if (own.indexOf(Math.max(...own)) === row) right++;
      }
      total += (n * (losses[0]!.item() + losses[1]!.item())) / 2;
      rows += n;
    }
    const loss = total / Math.max(1, rows);
    return { score: -loss, figures: { loss, retrieved: right / Math.max(1, rows) } };
  }

  private async compare([first, second]: [Batch, Batch], scope: Scope, grad: boolean) {
    const { model } = this;
    const outputs = [];
    for (const batch of [first, second])
      outputs.push(scope.keep(await model.forward(scope.keep(batchInput(batch)), { grad })));
    const [a, b] = outputs.map(({ pooled }) => pooled) as [NativeTensor, NativeTensor];
    const own = Int32Array.from({ length: first.size }, (_, row) => row);
    const labels = scope.keep(native().Tensor.fromData(own, [first.size], "i64"));
    const losses: NativeTensor[] = [];
    const products: NativeTensor[] = [];
    for (const [x, weight] of [
      [a, b],
      [b, a],
    ] as const) {
      const logits = scope.keep(await native().matmul(model.lane, { x, weight, transposed: true }));
      const { loss, logp } = await native().crossEntropy(model.lane, { logits, labels });
      scope.keep(logp);
      losses.push(scope.keep(loss));
      products.push(logits);
    }
    return { losses, products: products[0]!, ratio: outputs };
  }
}
