import { parseOptions } from "../config.js";
import { AegirError } from "../errors.js";
import type {
  AegirForColumnAnnotation,
  AnnotatorOutput,
  Prefix,
  RestOptions,
  RunOptions,
} from "../model/index.js";
import type { Interval, NativeModule, NativeTensor } from "../native/contract.js";
import { checkTensor } from "../tensor/tensor.js";
import { Activation, type ActivationLike } from "./activation.js";
import type { Execution, ExecutionChoice } from "./executionChoice.js";
import type { RWKVStateFusion } from "./fusion.js";
import { lengthsOfMask, type RowInputs } from "./inputs.js";
import { disposeAll, type SwarmModule } from "./module.js";
import type { OutputFusion } from "./outputFusion.js";
import { type ActiveRows, activeRows, type SpecialistResult } from "./results.js";
import type { SpecialistRouter } from "./router.js";
import { FrozenSpecialist, type Specialist } from "./specialist.js";
import { SpecialistRunner } from "./specialistRunner.js";
import { fuseStage, type StageFusion } from "./stageFusion.js";
import { modulesByStage, type PerStage } from "./stages.js";
import { executionSchema, resolveSwarm, type SwarmOptions } from "./swarmOptions.js";
import { type SwarmTiming, SwarmTrace, specialistNode } from "./timing.js";

/** Who decides: the router, or a control that every evaluation prints beside it. */
export type Routing = "learned" | "all-on" | "all-off" | { mask: ActivationLike };

export interface SwarmInputs extends RowInputs, RunOptions {
  /** (B,T) bool, true … true false … false: what `lengths` says in another form. */
  mask?: NativeTensor;
  /**
   * (B,dModel): the router's features; "auto": the primary's own; null or absent: no specialist runs and the result is the
   * primary's own, bit for bit.
   */
  routingHidden?: NativeTensor | "auto" | null;
  /** Default "learned". */
  routing?: Routing;
}

export interface SwarmOutput {
  output: AnnotatorOutput;
  /** Of the specialists that ran, in order; each holds the rows that activated it. */
  specialistOutputs: SpecialistResult[];
  /** (B,numSpecialists) bool */
  activationMask: NativeTensor;
  /** (B,numSpecialists) sigmoid(logits); null where the router did not run. */
  scores: NativeTensor | null;
  timing: SwarmTiming;
  /** Frees every tensor of the output. */
  dispose(): void;
  [Symbol.dispose](): void;
}

interface TracedOptions extends RunOptions {
  trace?: SwarmTrace;
}

/**
 * A trainable primary that routes rows to frozen specialists and reads what they know (Parallel Agent Reinforcement Learning):
 * the primary's first layers → router → the activated specialists side by side → fusion → the primary's other layers.
 *
 *     const swarm = new SwarmOrchestrator({ primaryModel, specialists });
 *     using result = await swarm.forward({ inputIds, routingHidden: "auto" });
 *
 * Training calls the steps one by one: `prefix`, `route`, `runSpecialists`, `complete`.
 */
export class SwarmOrchestrator {
  readonly primary: AegirForColumnAnnotation;
  readonly specialists: readonly Specialist[];
  readonly router: SpecialistRouter;
  readonly fusion: PerStage<RWKVStateFusion> | null;
  readonly outputFusion: OutputFusion | null;
  readonly activationThreshold: number;
  readonly lambdaParallel: number;
  readonly lambdaFinish: number;
  readonly fuse: "states" | "outputs" | "states+outputs";
  /** Whether outputs reach the logits directly too. */
  readonly fuseLabels: boolean;
  /** Per specialist its stages whose states are fused: what a SpecialistCache must hold. */
  readonly specialistStages: readonly number[][];
  private how: Execution | "auto";
  private readonly maxActive: number;
  private readonly stages: readonly StageFusion[];
  private readonly created: { dispose(): void }[];
  private readonly runner: SpecialistRunner;

  /** @throws AegirError ERR_CONFIG naming the option, and both geometries where they differ */
  constructor(options: SwarmOptions) {
    const swarm = resolveSwarm(options);
    this.primary = swarm.primary;
    this.specialists = swarm.specialists;
    this.router = swarm.router;
    this.fusion = swarm.fusion;
    this.outputFusion = swarm.outputFusion;
    this.activationThreshold = swarm.options.activationThreshold;
    this.lambdaParallel = swarm.options.lambdaParallel;
    this.lambdaFinish = swarm.options.lambdaFinish;
    this.fuse = swarm.options.fuse;
    this.fuseLabels = swarm.outputFusion?.options.specialists.some(({ labels }) => labels) ?? false;
    this.how = swarm.options.execution;
    this.maxActive = swarm.options.maxActive ?? this.specialists.length;
    this.stages = swarm.stages;
    this.specialistStages = this.specialists.map((_, n) =>
      swarm.stages.flatMap(({ sources }) => sources[n]?.stage ?? []),
    );
    this.created = swarm.created;
    this.runner = new SpecialistRunner(this.specialists, this.specialistStages, swarm.options.threads);
    // Beside the primary, on whose lane they run.
    for (const module of Object.values(this.modules())) {
      if (module.device !== this.primary.device) module.to(this.primary.device);
    }
  }

  /** How the activated specialists run; may be changed between forwards. @throws AegirError ERR_CONFIG */
  get execution(): Execution | "auto" {
    return this.how;
  }
  set execution(value: Execution | "auto") {
    this.how = parseOptions("SwarmOrchestrator.execution", executionSchema, value);
  }

  /** @throws AegirError ERR_SHAPE, ERR_DTYPE, ERR_ARGUMENT naming the input; ERR_ABORTED */
  async forward(inputs: SwarmInputs): Promise<SwarmOutput> {
    checkKeys(inputs);
    const { mask, routingHidden = null, routing = "learned" } = inputs;
    const { inputIds, roleIds, poolMask, columns, grad, signal, recompute, dropout } = inputs;
    if (mask && inputs.lengths) throw new AegirError("ERR_ARGUMENT", "mask: give mask or lengths, not both");
    const lengths = mask && lengthsOfMask(mask, inputIds);
    const read = { inputIds, roleIds, poolMask, columns, lengths: lengths ?? inputs.lengths };
    const options = { grad, signal, recompute, dropout };
    try {
      if (routingHidden === null) {
        checkAlone(routing);
        return await this.alone(read, options);
      }
      if (this.specialists.length === 0) return await this.alone(read, options);
      return await this.together(read, routingHidden, routing, options);
    } finally {
      lengths?.dispose();
    }
  }

  /** The same swarm under another decision: a control, or a mask given by row. */
  withRouting(routing: Routing): { forward(inputs: Omit<SwarmInputs, "routing">): Promise<SwarmOutput> } {
    return { forward: (inputs) => this.forward({ ...inputs, routing }) };
  }

  /** Step 1: the primary up to its first stage's encoder, with routingHidden. */
  prefix(inputs: RowInputs, options: RunOptions = {}): Promise<Prefix> {
    return this.primary.prefix(inputs, options);
  }

  /**
   * Step 2: router logits (B,n). The features are detached, so the router's loss does not reach the backbone;
   * `detach: false` lets it.
   */
  async route(
    routingHidden: NativeTensor,
    { grad = false, detach = true }: { grad?: boolean; detach?: boolean } = {},
  ): Promise<{ logits: NativeTensor; interval: Interval }> {
    checkTensor(routingHidden, "routingHidden");
    if (!detach) return this.router.forward(this.primary.lane, routingHidden, { grad });
    const features = routingHidden.detach();
    try {
      return await this.router.forward(this.primary.lane, features, { grad });
    } finally {
      features.dispose();
    }
  }

  /** Step 3: every activated specialist on the rows that activated it; all are launched before any is awaited. */
  async runSpecialists(
    inputs: RowInputs,
    activation: ActivationLike,
    options: Pick<TracedOptions, "signal"> = {},
  ): Promise<SpecialistResult[]> {
    const batch = inputs.inputIds.shape[0] as number;
    const active = Activation.from(activation, batch, this.specialists.length);
    return this.runner.run(this.how, { inputs, activation: active, signal: options.signal });
  }

  /** What execution "auto" has measured and chosen so far, by shape of the forwards. */
  executionChoices(): ExecutionChoice[] {
    return this.runner.chooser.choices();
  }

  /**
   * Steps 4 and 5: fuses the results of the activated specialists into the primary and completes its forward. `results` may hold
   * more rows and specialists than are active, as those of a cache do.
   * @throws AegirError ERR_ARGUMENT where an active row has no result
   */
  async complete(
    prefix: Prefix,
    activation: ActivationLike,
    results: readonly SpecialistResult[],
    options: TracedOptions = {},
  ): Promise<AnnotatorOutput> {
    const active = Activation.from(activation, prefix.rows, this.specialists.length);
    const agents = activeRows(active, results);
    const made: NativeTensor[] = [];
    try {
      const innerKv = await this.fuseStates(prefix.rows, agents, made, options);
      const residuals = await this.fuseOutputs(prefix.rows, agents, made, options);
      const { grad, signal, recompute, trace } = options;
      const output = await this.primary.rest(prefix, { innerKv, ...residuals, grad, signal, recompute });
      const fused = this.stages.map(({ suffix }) => `fuse${suffix}`);
      trace?.add("rest", "primary", output.interval, ["prefix", "router", ...fused, "outputFuse"]);
      return output;
    } finally {
      disposeAll([...agents, ...made]);
    }
  }

  /**
   * The trainable modules by name: primary, router, fusion, outputFusion, alignment.<id>; those of a record by stage are
   * fusion.<stage> and alignment.<id>.<stage>. Those without parameters are left out.
   */
  modules(): Record<string, NativeModule> {
    const modules: [string, { native: NativeModule } | null][] = [
      ["primary", this.primary],
      ["router", this.router],
      ...this.stages.map(({ suffix, fusion }) => named(`fusion${suffix}`, fusion)),
      ["outputFusion", this.outputFusion],
      ...this.specialists.flatMap(({ id, alignment }) =>
        modulesByStage(alignment, this.primary).map(({ suffix, module }) =>
          named(`alignment.${id}${suffix}`, module),
        ),
      ),
    ];
    return Object.fromEntries(
      modules.flatMap(([name, module]) =>
        module && module.native.numParameters > 0 ? [[name, module.native]] : [],
      ),
    );
  }

  /** Frees what the swarm made itself, router, fusions and stacks of weights; models and modules that were passed in stay the caller's. */
  dispose(): void {
    disposeAll([...this.created, this.runner]);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  private async alone(inputs: RowInputs, options: RunOptions): Promise<SwarmOutput> {
    const output = await this.primary.forward(inputs, options);
    const trace = new SwarmTrace();
    trace.add("primary", "primary", output.interval, []);
    const batch = inputs.inputIds.shape[0] as number;
    return swarmOutput(output, [], Activation.constant(false, batch, this.specialists.length), null, trace);
  }

  private async together(
    inputs: RowInputs,
    routingHidden: NativeTensor | "auto",
    routing: Routing,
    options: RunOptions,
  ): Promise<SwarmOutput> {
    const trace = new SwarmTrace();
    using prefix = await this.prefix(inputs, options);
    trace.add("prefix", "primary", prefix.interval, []);
    const { logits, interval } = await this.route(this.features(prefix, routingHidden));
    trace.add("router", "router", interval, ["prefix"]);
    try {
      const activation = this.decide(logits, routing);
      const results = await this.runSpecialists(inputs, activation, options);
      this.traceSpecialists(trace, results);
      try {
        const output = await this.complete(prefix, activation, results, { ...options, trace });
        return swarmOutput(output, results, activation, logits, trace);
      } catch (error) {
        disposeAll(results);
        throw error;
      }
    } finally {
      logits.dispose();
    }
  }

  private features(prefix: Prefix, routingHidden: NativeTensor | "auto"): NativeTensor {
    const hidden = routingHidden === "auto" ? prefix.routingHidden : routingHidden;
    checkTensor(hidden, "routingHidden");
    const expected = [prefix.rows, this.router.dModel];
    if (hidden.shape.join() === expected.join()) return hidden;
    throw new AegirError(
      "ERR_SHAPE",
      `routingHidden: expected (${expected.join(",")}), got (${hidden.shape.join(",")})` +
        (routingHidden === "auto" ? `; "auto" needs dModel ${prefix.routingHidden.shape[1]}` : ""),
    );
  }

  private decide(logits: NativeTensor, routing: Routing): Activation {
    const [batch, n] = logits.shape as [number, number];
    if (routing === "learned") return Activation.fromLogits(logits, this.activationThreshold, this.maxActive);
    if (routing === "all-on" || routing === "all-off")
      return Activation.constant(routing === "all-on", batch, n);
    if (routing?.mask !== undefined) return Activation.from(routing.mask, batch, n);
    throw new AegirError(
      "ERR_ARGUMENT",
      `routing: expected "learned", "all-on", "all-off" or { mask }, got ${JSON.stringify(routing)}`,
    );
  }

  /** One node a run: specialists that ran as one share it. One that runs no model takes no step (docs/swarm.md). */
  private traceSpecialists(trace: SwarmTrace, results: readonly SpecialistResult[]): void {
    for (const { id, index, members, interval } of results) {
      if (id !== members[0]) continue;
      const several = members.length > 1 ? members : undefined;
      const steps = this.specialists[index]!.model ? undefined : 0;
      const agent = members.join("+");
      trace.add(specialistNode(members), "specialist", interval!, ["router"], {
        agent,
        members: several,
        steps,
      });
    }
  }

  /** Fused attKv by stage; undefined where no agent with states is active, so that the primary starts as it does alone. */
  private async fuseStates(
    batch: number,
    active: readonly ActiveRows[],
    made: NativeTensor[],
    options: TracedOptions,
  ): Promise<Record<number, NativeTensor[]> | undefined> {
    const agents = active.filter(({ result }) => this.specialists[result.index] instanceof FrozenSpecialist);
    if (agents.length === 0) return undefined;
    const fused: Record<number, NativeTensor[]> = {};
    for (const stage of this.stages) {
      const { states, weights } = await fuseStage(stage, this.primary.lane, batch, agents, options);
      made.push(...states, ...weights);
      fused[stage.stage] = states;
    }
    return fused;
  }

  /** What the primary's head adds; nothing where no agent is active. */
  private async fuseOutputs(
    batch: number,
    agents: readonly ActiveRows[],
    made: NativeTensor[],
    { grad, trace }: TracedOptions,
  ): Promise<Pick<RestOptions, "headResidual" | "logitResidual" | "logitScale">> {
    if (!this.outputFusion || agents.length === 0) return {};
    const outputs = agents.map(({ result, rows, take }) => ({
      index: result.index,
      rows,
      take,
      pooled: result.output!.pooled,
      logits: result.output!.logits,
    }));
    const { embedding, logits, scale, interval } = await this.outputFusion.forward(
      this.primary.lane,
      { batch, agents: outputs },
      { grad },
    );
    made.push(embedding, ...(logits ? [logits] : []), ...(scale ? [scale] : []));
    trace?.add("outputFuse", "fusion", interval, specialistNodes(agents));
    return { headResidual: embedding, logitResidual: logits, logitScale: scale };
  }
}

function named(name: string, module: SwarmModule): [string, SwarmModule] {
  return [name, module];
}

function specialistNodes(agents: readonly ActiveRows[]): string[] {
  return agents.map(({ result }) => specialistNode([result.id]));
}

const KEYS = [
  ...["inputIds", "roleIds", "lengths", "mask", "poolMask", "columns", "routingHidden", "routing"],
  ...["grad", "recompute", "dropout", "signal"],
];

/** Inputs of a batch bring their `dispose` along. */
function checkKeys(inputs: SwarmInputs): void {
  const unknown = Object.entries(inputs).find(
    ([key, value]) => value !== undefined && key !== "dispose" && !KEYS.includes(key),
  );
  if (!unknown) return;
  throw new AegirError(
    "ERR_ARGUMENT",
    `inputs: a swarm reads no '${unknown[0]}'; it reads ${KEYS.join(", ")}`,
  );
}

function checkAlone(routing: Routing): void {
  if (routing === "learned" || routing === "all-off") return;
  throw new AegirError(
    "ERR_ARGUMENT",
    `routing: ${routing === "all-on" ? '"all-on"' : "a mask"} needs routingHidden, "auto" or a tensor; without it no specialist runs`,
  );
}

function swarmOutput(
  output: AnnotatorOutput,
  specialistOutputs: SpecialistResult[],
  activation: Activation,
  logits: NativeTensor | null,
  trace: SwarmTrace,
): SwarmOutput {
  const activationMask = activation.toTensor();
  const scores = logits?.unary("sigmoid") ?? null;
  const dispose = () => disposeAll([output, ...specialistOutputs, activationMask, scores]);
  const timing = trace.timing();
  return { output, specialistOutputs, activationMask, scores, timing, dispose, [Symbol.dispose]: dispose };
}
