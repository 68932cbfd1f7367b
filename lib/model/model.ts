import { createHash } from "node:crypto";
import { z } from "zod";
import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import type {
  DeviceName,
  GraphReport,
  ModelInput,
  ModelOutput,
  NativeLane,
  NativeModule,
  NativeState,
  NativeTensor,
  ParameterInfo,
  RestInput,
} from "../native/contract.js";
import { native as addon } from "../native/load.js";
import { resolveDevice } from "../tensor/device.js";
import { Lane, withSignal } from "../tensor/lane.js";
import type { ResolvedBackbone } from "./config.js";
import { parseLayout } from "./layout.js";
import type { ForwardOptions, ModelGeometry, ModelInputs, Prefix, RestOptions, RunOptions } from "./types.js";

const runtimeSchema = z.strictObject({
  /** Decides every initial value. */
  seed: z.int().min(0).default(0),
  /** Lane to run on, which stays the caller's; absent: the model makes its own and closes it when disposed. */
  lane: z.custom<Lane | NativeLane>(isLane, "expected a Lane").optional(),
  /** Intra-op threads of the model's own lane; default 1. */
  threads: z.int().positive().optional(),
  /** Name of the model and of its own lane. */
  name: z.string().min(1).optional(),
  /** Where the parameters lie and the model computes; default "cpu". Inputs may lie anywhere, outputs lie here. */
  device: z
    .custom<DeviceName | "auto">((value) => typeof value === "string", 'expected "cpu", "cuda" or "auto"')
    .optional(),
});

export type ModelRuntime = z.input<typeof runtimeSchema>;

function isLane(value: unknown): boolean {
  return value instanceof Lane || value instanceof (addon().Lane as unknown as new () => NativeLane);
}

/** What annotation models and causal language models share: a native module and the lane that it runs on. */
export abstract class AegirModel<Output> {
  readonly geometry: ModelGeometry;
  readonly name: string;
  readonly lane: NativeLane;
  private readonly ownsLane: boolean;

  protected constructor(
    readonly native: NativeModule,
    /** Every choice spelled out, for checkpoints: `new` with these options makes the same model. */
    readonly options: ResolvedBackbone,
    runtime: z.output<typeof runtimeSchema>,
  ) {
    if (runtime.device !== undefined) native.to(resolveDevice(runtime.device));
    this.geometry = geometryOf(options);
    this.name = runtime.name ?? native.kind;
    this.ownsLane = runtime.lane === undefined;
    const { lane = new Lane({ name: this.name, threads: runtime.threads }) } = runtime;
    this.lane = lane instanceof Lane ? lane.native : lane;
  }

  /** The whole model. @throws AegirError ERR_SHAPE, ERR_DTYPE, ERR_ARGUMENT, ERR_NON_FINITE naming the input; ERR_DISPOSED; ERR_ABORTED */
  async forward(inputs: ModelInputs, options: ForwardOptions = {}): Promise<Output> {
    const input = { ...this.nativeInput(inputs, options), threads: options.threads };
    if (options.lane !== undefined && !(options.lane instanceof Lane))
      throw new AegirError("ERR_ARGUMENT", `lane: expected a Lane, got ${typeof options.lane}`);
    const lane = options.lane?.native ?? this.lane;
    return this.wrap(
      await withSignal(options.signal, (cancel) => addon().modelForward(lane, this.native, input, cancel)),
    );
  }

  /** Embedding and first stage's encoder (flat layouts: first block). `rest(prefix(x))` equals `forward(x)` bit for bit. */
  async prefix(inputs: ModelInputs, options: RunOptions = {}): Promise<Prefix> {
    const input = this.nativeInput(inputs, options);
    const { prefix, routingHidden, interval } = await withSignal(options.signal, (cancel) =>
      addon().modelPrefix(this.lane, this.native, input, cancel),
    );
    return makePrefix(prefix, routingHidden, interval);
  }

  /** Everything after the prefix, from other recurrent states and with a residual into the head where they are given. */
  async rest(prefix: Prefix, options: RestOptions = {}): Promise<Output> {
    const { signal, innerKv, grad = false, ...given } = options;
    const input = { ...given, innerKv: this.kvByStage(innerKv), grad };
    return this.wrap(
      await withSignal(signal, (cancel) =>
        addon().modelRest(this.lane, this.native, prefix?.native, input, cancel),
      ),
    );
  }

  /** The prefix of chosen rows, repeats allowed: rows (R) i64. */
  async selectRows(prefix: Prefix, rows: NativeTensor): Promise<Prefix> {
    const selected = await addon().prefixSelectRows(this.lane, prefix?.native, rows);
    return makePrefix(selected.prefix, prefix.routingHidden.indexSelect(0, rows), selected.interval);
  }

  /** A state from named tensors, as `state.tensors()` gives them. @throws AegirError ERR_CHECKPOINT naming the tensor */
  createState(tensors: Record<string, NativeTensor>): NativeState {
    return addon().createState(this.native, tensors);
  }

  get numParameters(): number {
    return this.native.numParameters;
  }

  get device(): DeviceName {
    return this.native.device;
  }

  get frozen(): boolean {
    return this.native.frozen;
  }

  get disposed(): boolean {
    return this.native.disposed;
  }

  parameters(): ParameterInfo[] {
    return this.native.parameters();
  }

  /**
   * Handles that share storage with the parameters: dispose them, and clone what must outlive the next step. Calls that are running
   * on the lane read and write the same storage: await them first, here and in `loadStateDict` and `weightsHash`.
   */
  stateDict(): Record<string, NativeTensor> {
    return this.native.stateDict();
  }

  /** Copies values in; all names and shapes must agree. @throws AegirError ERR_CHECKPOINT; then nothing is changed */
  loadStateDict(tensors: Record<string, NativeTensor>): void {
    this.native.loadStateDict(tensors);
  }

  /** SHA-256 over the names, shapes and bytes of all parameters, hexadecimal. */
  weightsHash(): string {
    const hash = createHash("sha256");
    const tensors = this.stateDict();
    for (const name of Object.keys(tensors).sort()) {
      const tensor = tensors[name]!;
      const { buffer, byteOffset, byteLength } = tensor.data();
      hash.update(`${name} ${tensor.dtype} ${tensor.shape.join("x")}\n`);
      hash.update(new Uint8Array(buffer, byteOffset, byteLength));
      tensor.dispose();
    }
    return hash.digest("hex");
  }

  /**
   * Parameters stop requiring gradients, for good.
   * @param options graphs: a flat annotation model on a GPU captures its forward as a CUDA graph for every shape that comes twice,
   * in buckets of at most an eighth more rows and tokens, and replays it; results agree to rounding (`graphs` says what became of it)
   */
  freeze({ graphs = false }: { graphs?: boolean } = {}): void {
    this.native.freeze(graphs);
  }

  /** Captured and replayed forwards, and why one was eager; null where `freeze({ graphs: true })` was not called. */
  get graphs(): GraphReport | null {
    return this.native.graphs;
  }

  /** Frees the parameters; jobs already queued still run. */
  dispose(): void {
    if (this.native.disposed) return;
    this.native.dispose();
    if (this.ownsLane) void this.lane.close();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  protected abstract wrap(output: ModelOutput): Output;

  private kvByStage(innerKv: RestOptions["innerKv"]): RestInput["innerKv"] {
    if (!innerKv) return undefined;
    const byStage = Array.isArray(innerKv) ? { [this.geometry.stages - 1]: innerKv } : innerKv;
    return Object.entries(byStage).map(([stage, layers]) => ({ stage: Number(stage), layers }));
  }

  private nativeInput(inputs: ModelInputs, options: RunOptions): ModelInput {
    const { grad = false, recompute, dropout } = options;
    return { ...inputs, grad, recompute, dropout };
  }
}

function makePrefix(
  native: Prefix["native"],
  routingHidden: NativeTensor,
  interval: Prefix["interval"],
): Prefix {
  const dispose = () => {
    native.dispose();
    routingHidden.dispose();
  };
  return { native, rows: native.rows, routingHidden, interval, dispose, [Symbol.dispose]: dispose };
}

function geometryOf(options: ResolvedBackbone): ModelGeometry {
  const layout = parseLayout(options.archLayout);
  const encoders = layout.map(({ encoder: { length: blocks } }, stage) => {
    // A flat model's first block is its prefix, unless it is the only one.
    const layers = layout.length === 1 && blocks > 1 ? blocks - 1 : blocks;
    const dModel = options.dModel[stage]!;
    const headSize = options.headSize[stage]!;
    return { layers, dModel, heads: dModel / headSize, headSize };
  });
  return { dModel: options.dModel[0]!, inner: encoders.at(-1)!, encoders, stages: layout.length };
}

/** Adds `dispose` to a native output. */
export function disposable<T extends object>(
  output: T,
  parts: { dispose(): void }[],
): T & Disposable & { dispose(): void } {
  const dispose = () => {
    for (const part of parts) part.dispose();
  };
  return Object.assign(output, { dispose, [Symbol.dispose]: dispose });
}

/** @throws AegirError ERR_CONFIG naming the option */
export function parseRuntime(runtime: ModelRuntime): z.output<typeof runtimeSchema> {
  return parseOptions("model runtime", runtimeSchema, runtime);
}

/** A native module of random weights drawn from the runtime's seed. */
export function createModule(kind: "annotator" | "causalLM", config: object, seed: number): NativeModule {
  const generator = new (addon().Generator)(seed);
  try {
    return addon().createModule(kind, config, generator);
  } finally {
    generator.dispose();
  }
}
