import { join } from "node:path";
import { checkHeaders } from "../data/headers.js";
import { Serialiser } from "../data/serialise.js";
import { withoutHeldOut } from "../data/split.js";
import type { Dataset, Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import type { TensorData } from "../native/contract.js";
import { checkNumbers, checkStored } from "../specialists/checkStored.js";
import {
  LinearSpecialist,
  labelledRefs,
  SPECIALIST_KINDS,
  type SpecialistKind,
  withoutHeldOutSites,
} from "../specialists/index.js";
import { type Checkpoint, loadCheckpoint, saveCheckpoint, type TensorMap } from "./checkpoint.js";
import { defined } from "./defined.js";
import { trainableLabels } from "./examples.js";
import type { MetricValue } from "./metricsLog.js";
import { Meter, type ProgressListener } from "./progress.js";
import { bestWeightsDir, checkFree, openRun, type RunConfig, readRunConfig } from "./runFolder.js";
import { typedData } from "./tensors.js";

export interface SpecialistTraining {
  kind: SpecialistKind;
  dataset: Dataset;
  /** Of kind "stacked": labels of other tasks that are read too. Their tables of sites that `dataset` is validated or tested on are left out. */
  others?: readonly Dataset[];
  dataSource?: RunConfig["data"];
  /** Share of the training sites to leave out and judge by, as of the other trainings. */
  holdOut?: number;
  /** Options of the kind, as `trainNgramSpecialist` and `trainFormatSpecialist` take them. */
  options?: object;
  /** Run folder; absent: nothing is written. */
  out?: string;
  signal?: AbortSignal;
  onProgress?: ProgressListener;
}

/** A column specialist reads columns: nothing of their encoding is used, so as little as possible is made. */
export function columnSerialiser(): Serialiser {
  return new Serialiser({ maxContext: 0, targetCells: 1, cellBytes: 4 });
}

/**
 * Trains a specialist that reads columns in place of tokens, and saves it as a run.
 * @throws AegirError ERR_CONFIG, ERR_DATA before anything is written; ERR_ABORTED
 */
export async function trainSpecialist(run: SpecialistTraining): Promise<LinearSpecialist> {
  const { kind, others = [], holdOut, out, signal, onProgress } = run;
  const dataset = withoutHeldOut(run.dataset, holdOut);
  if (others.length > 0 && kind !== "stacked") {
    throw new AegirError(
      "ERR_CONFIG",
      `trainSpecialist.others: a specialist of kind ${kind} reads no other task; expected kind stacked`,
    );
  }
  if (out !== undefined) await checkFree(out, "choose another folder");
  if ((run.options as { headers?: boolean } | undefined)?.headers) checkHeaders(run.dataset, "target");
  const labels = trainableLabels(dataset);
  const known = new Set(labels);
  const validation = labelledRefs(dataset, "validation").filter(({ label }) => known.has(label));
  const data = {
    train: labelledRefs(dataset, "train"),
    validation,
    labels,
    others: others.map((other) => ({ name: other.task, train: withoutHeldOutSites(other, dataset) })),
  };
  let meter: Meter | undefined;
  const progress = (done: number, total: number) => {
    meter ??= new Meter(`${kind} fits`, total, onProgress);
    meter.report(done);
  };
  const specialist = await SPECIALIST_KINDS[kind].train(data, defined(run.options ?? {}), {
    signal,
    onProgress: progress,
  });
  if (out !== undefined)
    await saveSpecialist(out, specialist, dataset.task, {
      options: { ...run.options, ...defined({ holdOut }) },
      data: run.dataSource ?? null,
    });
  return specialist;
}

/** Writes the run folder of a column specialist. @throws AegirError ERR_CONFIG where the folder holds something */
export async function saveSpecialist(
  dir: string,
  specialist: LinearSpecialist,
  task: Task,
  { options = {}, data = null }: { options?: object; data?: RunConfig["data"] } = {},
): Promise<void> {
  const { extractor, labels } = specialist;
  const config: RunConfig = {
    kind: "specialist",
    task,
    model: { kind: extractor.kind, ...extractor.options, labels: [...labels] },
    serialise: columnSerialiser().options,
    options: options as RunConfig["options"],
    init: null,
    data,
  };
  await openRun(dir, config, null);
  await saveCheckpoint(join(dir, "best"), stored(specialist));
}

/**
 * The specialist of a run of kind "specialist".
 * @param id its name in a swarm; absent: its kind
 * @throws AegirError ERR_CHECKPOINT where files are missing or damaged
 */
export async function loadSpecialist(dir: string, id?: string): Promise<LinearSpecialist> {
  const { kind, model } = await readRunConfig(dir);
  const of = (model as { kind?: string }).kind ?? "";
  if (kind !== "specialist" || !Object.hasOwn(SPECIALIST_KINDS, of)) {
    const known = Object.keys(SPECIALIST_KINDS).join(" or ");
    throw new AegirError(
      "ERR_CHECKPOINT",
      `${dir} is a run of kind ${kind} (${of || "a model"}), expected a specialist: ${known}`,
    );
  }
  const checkpoint = await loadCheckpoint<{ tau: number; held: string[] }>(await bestWeightsDir(dir));
  const tensors = checkpoint.groups.model!;
  const { labels, ...options } = model as unknown as { labels: string[] } & Record<string, MetricValue>;
  const take = (name: string) => {
    const tensor = tensors.get(name);
    if (tensor) return wholeOrReal(typedData(tensor));
    throw new AegirError("ERR_CHECKPOINT", `${dir}: best/model.safetensors has no tensor '${name}'`);
  };
  const floats = (name: string) => take(name) as Float32Array;
  const extractor = named(dir, () =>
    SPECIALIST_KINDS[of as SpecialistKind].restore(options, (name) => take(`features.${name}`)),
  );
  const [weight, bias, logPrior, held] = [
    floats("weight"),
    floats("bias"),
    floats("logPrior"),
    floats("held"),
  ];
  const { tau, held: keys } = checkpoint.state;
  const classes = labels.length;
  named(dir, () => {
    checkStored(Number.isFinite(tau), `tau was ${tau}, expected a number`);
    checkStored(Array.isArray(keys), "its state names no columns (held)");
    checkNumbers(weight, extractor.columns * classes, "weights");
    checkNumbers(bias, classes, "biases");
    checkNumbers(logPrior, classes, "the labels' prior");
    checkNumbers(held, keys.length * classes, "logits of training columns");
  });
  return new LinearSpecialist(id ?? of, extractor, {
    labels,
    weight,
    bias,
    logPrior,
    tau,
    held: new Map(keys.map((key, i) => [key, held.subarray(i * classes, (i + 1) * classes)])),
  });
}

/** What `part` makes of a run's files; what it stumbles over is said of the run. */
function named<T>(dir: string, part: () => T): T {
  try {
    return part();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    if (error instanceof AegirError && why.startsWith(dir)) throw error;
    throw new AegirError("ERR_CHECKPOINT", `${dir}: ${why}`);
  }
}

function stored({
  extractor,
  learned,
  labels,
}: LinearSpecialist): Checkpoint<{ tau: number; held: string[] }> {
  const classes = labels.length;
  const held = new Float32Array(learned.held.size * classes);
  for (const [i, logits] of [...learned.held.values()].entries()) held.set(logits, i * classes);
  const { weight, bias, logPrior, tau } = learned;
  const model: TensorMap = new Map();
  const add = (name: string, data: Float32Array | Int32Array, shape: number[]) => {
    const whole = data instanceof Int32Array;
    const values = whole ? BigInt64Array.from(data, BigInt) : data;
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    model.set(name, { dtype: whole ? "i64" : "f32", shape, data: bytes });
  };
  add("weight", weight, [extractor.columns, classes]);
  add("bias", bias, [classes]);
  add("logPrior", logPrior, [classes]);
  add("held", held, [learned.held.size, classes]);
  for (const [name, values] of Object.entries(extractor.tensors()))
    add(`features.${name}`, values, [values.length]);
  return {
    geometry: { kind: extractor.kind, options: extractor.options, labels },
    groups: { model },
    state: { tau, held: [...learned.held.keys()] },
  };
}

/** As `stored` was given them: whole numbers lie in the file as i64. */
function wholeOrReal(data: TensorData): Int32Array | Float32Array {
  return data instanceof BigInt64Array ? Int32Array.from(data, Number) : (data as Float32Array);
}
