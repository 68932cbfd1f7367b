import { z } from "zod";
import { parseOptions } from "../config.js";
import { evaluationBatches } from "../data/batches.js";
import { checkHeaders } from "../data/headers.js";
import { Serialiser, type SerialiserOptions } from "../data/serialise.js";
import type { Batch, ColumnRef, Dataset, EncodedExample, Split } from "../data/types.js";
import { AegirError } from "../errors.js";
import {
  AegirForCausalLM,
  AegirForColumnAnnotation,
  type AnnotatorOptions,
  batchInput,
  type CausalLMOptions,
} from "../model/index.js";
import { native } from "../native/load.js";
import { ContrastBatches, type ContrastObjective, ContrastTrainee, contrastable } from "./contrast.js";
import { defined } from "./defined.js";
import { encodeTargets, thin } from "./examples.js";
import { fingerprintOf } from "./fingerprint.js";
import { type Figures, runLoop, type TrainingOutcome } from "./loop.js";
import { loopOptions, type TrainingRun } from "./loopOptions.js";
import { backward, ratioTerm } from "./losses.js";
import { ModelTrainee } from "./modelTrainee.js";
import { inTodaysOptions, openRun, type RunConfig, recordedRun } from "./runFolder.js";
import { learningRate } from "./schedule.js";
import { checkForm } from "./supervised.js";
import { Scope } from "./tensors.js";
import { TrainingBatches } from "./trainingBatches.js";

export const pretrainOptions = z.strictObject({
  objective: z
    .enum(["next-byte", "same-column", "masked-cell"])
    .default("next-byte")
    .describe(
      "predict the next byte; or tell which views belong together: halves of a column's cells, or a column and the cell that it lacks",
    ),
  ...loopOptions({
    steps: 500,
    batchRows: 32,
    lr: 2e-3,
    warmup: 20,
    finalLr: 0.1,
    ratioWeight: 0.03,
    validateEvery: 100,
    validationColumns: 500,
    saveEvery: 100,
  }),
});
export type PretrainOptions = z.input<typeof pretrainOptions>;
export type PretrainSettings = z.output<typeof pretrainOptions>;

export interface PretrainRun extends PretrainOptions, TrainingRun {
  /** Every column of its tables is read, labelled or not. */
  dataset: Dataset;
  /** Objectives other than next-byte: an annotation model's, without labels. */
  model?: CausalLMOptions | Omit<AnnotatorOptions, "labels" | "numLabels">;
  serialise?: SerialiserOptions;
}

export interface PretrainedModel {
  /** The caller disposes it. */
  model: AegirForCausalLM | AegirForColumnAnnotation;
  outcome: TrainingOutcome;
}

const IGNORED = -100;

/**
 * Pretraining on the columns of the training tables, labelled or not: next-byte cross-entropy over the serialised columns, or a contrast of
 * views of a column (`ContrastTrainee`). The run folder serves as `init` of `trainSupervised` with the same geometry.
 * @throws AegirError ERR_CONFIG, ERR_DATA, ERR_CHECKPOINT before anything is written; ERR_ABORTED after saving
 */
export async function pretrain(run: PretrainRun): Promise<PretrainedModel> {
  const {
    dataset,
    model: geometry,
    serialise,
    out,
    resume,
    task,
    dataSource,
    signal,
    onProgress,
    ...given
  } = run;
  const recorded = await recordedRun(out, resume, "pretrain");
  const options = parseOptions("pretrain", pretrainOptions, { ...recorded?.options, ...defined(given) });
  const serialiser = new Serialiser({ ...recorded?.serialise, ...serialise });
  if (serialiser.options.headers) checkHeaders(dataset, "table");
  const name = task ?? "pretraining";
  const { model, trainee } = await traineeOf(dataset, geometry ?? recorded?.model, serialiser, options, name);
  using _ = trainee;
  try {
    if (out) {
      const config: RunConfig = {
        kind: "pretrain",
        task: null,
        model: model.options,
        serialise: serialiser.options,
        options,
        init: null,
        data: dataSource ?? null,
        fingerprint: fingerprintOf(dataset),
      };
      await openRun(out, config, recorded && inTodaysOptions(recorded, pretrainOptions));
    }
    const outcome = await runLoop(trainee, {
      task: name,
      totalSteps: options.steps,
      dir: out,
      resume,
      validateEvery: options.validateEvery,
      saveEvery: options.saveEvery,
      signal,
      onProgress,
    });
    return { model, outcome };
  } catch (error) {
    model.dispose();
    throw error;
  }
}

type Geometry = NonNullable<PretrainRun["model"]> | RunConfig["model"];

async function traineeOf(
  dataset: Dataset,
  geometry: Geometry | undefined,
  serialiser: Serialiser,
  options: PretrainSettings,
  name: string,
): Promise<{
  model: PretrainedModel["model"];
  trainee: PretrainTrainee | ContrastTrainee;
}> {
  const { objective, batchRows: rows, seed, threads } = options;
  const columns = columnsOf(dataset, "train");
  const held = thin(columnsOf(dataset, "validation"), options.validationColumns);
  const runtime = { seed, threads, name };
  if (objective !== "next-byte") {
    const alone = new Serialiser({ ...serialiser.options, maxContext: 0 });
    const pairs = await ContrastBatches.create(columns, alone, objective, { rows, seed });
    const heldPairs = await heldBatches(held, alone, objective, { rows, seed });
    const given = { ...(geometry ?? { preset: "tiny" }), labels: ["unlabelled"] } as AnnotatorOptions;
    const model = new AegirForColumnAnnotation(given, runtime);
    try {
      checkForm(model, serialiser);
    } catch (error) {
      model.dispose();
      throw error;
    }
    return { model, trainee: new ContrastTrainee(model, pairs, heldPairs, options) };
  }
  if (serialiser.options.form === "columns") {
    throw new AegirError(
      "ERR_CONFIG",
      'pretrain: serialise.form "columns" is for annotation models; a language model reads sequences (objective: expected same-column or masked-cell, got next-byte)',
    );
  }
  const batches = await TrainingBatches.create((epoch) => encodeTargets(serialiser, columns, epoch), {
    rows,
    seed,
  });
  const validation = await encodeTargets(serialiser, held);
  const given = { init: "rwkv", ...(geometry ?? { preset: "tiny" }) } as CausalLMOptions;
  const model = new AegirForCausalLM(given, runtime);
  return { model, trainee: new PretrainTrainee(model, batches, validation, options) };
}

/** One epoch of the held-out columns; none where fewer than two can be told apart. */
async function heldBatches(
  held: readonly ColumnRef[],
  serialiser: Serialiser,
  objective: ContrastObjective,
  sizes: { rows: number; seed: number },
): Promise<[Batch, Batch][]> {
  const usable = contrastable(held).length;
  if (usable < 2) return [];
  const batches = await ContrastBatches.create(held, serialiser, objective, sizes);
  const pairs: [Batch, Batch][] = [];
  for (let row = 0; row < usable; row += sizes.rows) pairs.push(await batches.next());
  return pairs;
}

class PretrainTrainee extends ModelTrainee<AegirForCausalLM> {
  constructor(
    model: AegirForCausalLM,
    batches: TrainingBatches,
    private readonly validation: EncodedExample[],
    private readonly options: PretrainSettings,
  ) {
    super(model, batches, options);
  }

  async step(step: number): Promise<Figures> {
    const { lr, warmup, steps, finalLr, clipNorm, ratioWeight } = this.options;
    const batch = await this.batches.next();
    using scope = new Scope();
    const { loss, output } = await this.nextByteLoss(batch, scope, true);
    const { lane } = this.model;
    await backward(lane, [{ losses: [loss], weights: [1] }, ratioTerm(output, ratioWeight)]);
    const rate = learningRate(step, { lr, warmup, total: steps, finalFraction: finalLr });
    const { gradNorm, skipped } = await this.optimizer.step(lane, { lr: rate, clipNorm });
    return { loss: loss.item(), ratioLoss: output.ratioLoss.item(), gradNorm, lr: rate, skipped };
  }

  async validate(): Promise<{ score: number; figures: Figures }> {
    let total = 0;
    let bytes = 0;
    for (const batch of evaluationBatches(this.validation, { rows: this.options.batchRows })) {
      using scope = new Scope();
      const { loss, targets } = await this.nextByteLoss(batch, scope, false);
      total += loss.item() * targets;
      bytes += targets;
    }
    const loss = bytes > 0 ? total / bytes : 0;
    return { score: -loss, figures: { loss, bitsPerByte: loss / Math.LN2 } };
  }

  private async nextByteLoss(batch: Batch, scope: Scope, grad: boolean) {
    const { targets, count: counted } = nextBytes(batch);
    const inputs = scope.keep(batchInput(batch));
    const output = scope.keep(await this.model.forward(inputs, { grad }));
    const labels = scope.keep(native().Tensor.fromData(targets, [batch.size, batch.tokens], "i64"));
    const { loss, logp } = await native().crossEntropy(this.model.lane, { logits: output.logits, labels });
    scope.keep(loss);
    scope.keep(logp);
    return { loss, output, targets: counted };
  }
}

/** (B,T) the token after each, IGNORED at the last valid token and behind it. */
function nextBytes({ size, tokens, ids, lengths }: Batch): { targets: Int32Array; count: number } {
  const targets = new Int32Array(size * tokens).fill(IGNORED);
  let targetCount = 0;
  for (let b = 0; b < size; b++) {
    const row = b * tokens;
    const length = lengths[b]!;
    targets.set(ids.subarray(row + 1, row + length), row);
    targetCount += length - 1;
  }
  return { targets, count: targetCount };
}

/** Every column of the tables of a split. */
function columnsOf(dataset: Dataset, split: Split) {
  const names = new Set(dataset.splits[split].map((column) => column.table));
  return [...names].flatMap((name) => {
    const table = dataset.tables.get(name)!;
    return table.columns.map((_, column) => ({ table, column }));
  });
}
