import { availableParallelism } from "node:os";
import { AegirError } from "../errors.js";
import type { Activation } from "./activation.js";
import { Ensemble, stackableGroups } from "./ensemble.js";
import { type Execution, ExecutionChooser } from "./executionChoice.js";
import { type RowInputs, selectInputRows } from "./inputs.js";
import { allOrNone, disposeAll } from "./module.js";
import { SpecialistResult } from "./results.js";
import {
  type FrozenSpecialist,
  type Specialist,
  type SpecialistOutput,
  type StageStates,
  specialistOutput,
} from "./specialist.js";

/** What runs by itself: one specialist, or several as one. */
type Unit = { index: number } | { ensemble: Ensemble; indices: number[] };

interface Run {
  inputs: RowInputs;
  activation: Activation;
  signal?: AbortSignal;
}

/** Results of one unit, as allOrNone takes them. */
interface UnitResults {
  results: SpecialistResult[];
  dispose(): void;
}

/** Runs the activated specialists of a swarm on the rows that activated them. */
export class SpecialistRunner {
  readonly chooser = new ExecutionChooser();
  private readonly threads: number;
  /** Made at the first batched run; models then stay on their devices. */
  private groups: { ensemble: Ensemble; indices: number[] }[] | null = null;
  private disposed = false;
  private started = 0;
  private running = 0;

  /**
   * @param stages per specialist its stages whose states it gives
   * @param threads that the specialists of one forward share; absent: the processors
   */
  constructor(
    private readonly specialists: readonly Specialist[],
    private readonly stages: readonly (readonly number[])[],
    threads: number | undefined,
  ) {
    this.threads = threads ?? availableParallelism();
  }

  /** Results in the order of the specialists. */
  async run(execution: Execution | "auto", run: Run): Promise<SpecialistResult[]> {
    if (this.disposed) throw new AegirError("ERR_DISPOSED", "swarm: it has been disposed");
    const active = this.specialists.flatMap((_, index) =>
      run.activation.rowsOf(index).length > 0 ? [index] : [],
    );
    const alone = active.map((index): Unit => ({ index }));
    if (execution === "serial") return this.oneByOne(alone, run);
    if (execution === "streams") return this.sideBySide(alone, run);
    const units = this.unitsOf(active);
    if (execution === "batched" || units.length === alone.length) return this.sideBySide(units, run);
    return this.measured(alone, units, run);
  }

  dispose(): void {
    this.disposed = true;
    disposeAll(this.groups?.map(({ ensemble }) => ensemble) ?? []);
    this.groups = null;
  }

  /** The faster of the two, or the one whose turn it is to be measured. */
  private async measured(alone: Unit[], units: Unit[], run: Run): Promise<SpecialistResult[]> {
    const active = alone.flatMap(indicesOf);
    const rows = alone.reduce((sum, unit) => sum + this.rowsOf(unit, run), 0);
    const tokens = run.inputs.inputIds.shape[1] as number;
    const sizes = units.map((unit) => indicesOf(unit).filter((index) => active.includes(index)).length);
    const shape = `${sizes.sort().join("+")}: ${roundUp(rows)} x ${roundUp(tokens)}`;
    const { form, measure } = this.chooser.choose(shape);
    const turn = ++this.started;
    const byItself = this.running === 0;
    this.running++;
    try {
      const called = performance.now();
      const results = await this.sideBySide(form === "batched" ? units : alone, run);
      // Beside another forward the time says nothing. On a GPU the end is waited for.
      if (measure && byItself && turn === this.started) {
        const end = Math.max(...results.map(({ interval }) => interval!.end));
        this.chooser.record(shape, form, (1000 * (end - called)) / (rows * tokens));
      }
      return results;
    } finally {
      this.running--;
    }
  }

  private unitsOf(active: readonly number[]): Unit[] {
    this.groups ??= stackableGroups(this.specialists).map((indices) => ({
      ensemble: new Ensemble(indices.map((index) => this.specialists[index] as FrozenSpecialist)),
      indices,
    }));
    const stacked = this.groups.filter(
      ({ indices }) => indices.filter((index) => active.includes(index)).length > 1,
    );
    const taken = new Set(stacked.flatMap(({ indices }) => indices));
    return [...stacked, ...active.filter((index) => !taken.has(index)).map((index) => ({ index }))];
  }

  private async oneByOne(units: Unit[], run: Run): Promise<SpecialistResult[]> {
    const results: SpecialistResult[] = [];
    try {
      for (const unit of units) results.push(...(await this.runUnit(unit, run, this.threads)).results);
    } catch (error) {
      disposeAll(results);
      throw error;
    }
    return results;
  }

  /** All are launched before any is awaited, each with its share of the threads: they never ask for more than there are. */
  private async sideBySide(units: Unit[], run: Run): Promise<SpecialistResult[]> {
    const total = units.reduce((sum, unit) => sum + this.rowsOf(unit, run), 0);
    const spare = Math.max(0, this.threads - units.length);
    const done = await allOrNone(
      units.map((unit) => this.runUnit(unit, run, 1 + Math.floor((spare * this.rowsOf(unit, run)) / total))),
    );
    return done.flatMap(({ results }) => results).sort((a, b) => a.index - b.index);
  }

  private rowsOf(unit: Unit, { activation }: Run): number {
    return indicesOf(unit).reduce((sum, index) => sum + activation.rowsOf(index).length, 0);
  }

  private async runUnit(unit: Unit, run: Run, threads: number): Promise<UnitResults> {
    const results = await ("index" in unit
      ? this.runOne(unit.index, run, threads)
      : this.runGroup(unit, run, threads));
    return { results, dispose: () => disposeAll(results) };
  }

  private async runOne(index: number, run: Run, threads: number): Promise<SpecialistResult[]> {
    const rows = run.activation.rowsOf(index);
    const chosen = chooseRows(run, rows);
    try {
      const { signal } = run;
      const stages = this.stages[index];
      const output = await this.specialists[index]!.forward(chosen?.inputs ?? run.inputs, {
        signal,
        stages,
        threads,
      });
      return [resultOf(index, rows, run, output)];
    } finally {
      chosen?.dispose();
    }
  }

  private async runGroup(
    { ensemble, indices }: { ensemble: Ensemble; indices: number[] },
    run: Run,
    threads: number,
  ): Promise<SpecialistResult[]> {
    const rows = indices.map((index) => run.activation.rowsOf(index));
    const chosen = rows.map((own) => (own.length > 0 ? chooseRows(run, own) : null));
    try {
      const inputs = rows.map((own, member) =>
        own.length > 0 ? (chosen[member]?.inputs ?? run.inputs) : null,
      );
      const { outputs, interval } = await ensemble.forward(inputs, { threads, signal: run.signal });
      const members = ensemble.members.filter((_, member) => outputs[member]).map(({ id }) => id);
      return outputs.flatMap((said, member) => {
        if (!said) return [];
        const index = indices[member]!;
        const wanted = this.stages[index]!.includes(0);
        if (!wanted) disposeAll(said.states);
        const states: StageStates = wanted ? { 0: said.states } : {};
        const output = specialistOutput(this.specialists[index]!.id, said, states, interval);
        return [resultOf(index, rows[member]!, run, output, members)];
      });
    } finally {
      disposeAll(chosen);
    }
  }
}

function chooseRows({ inputs, activation }: Run, rows: number[]) {
  if (rows.length === activation.batch) return null;
  const chosen = selectInputRows(inputs, rows);
  return { inputs: chosen, dispose: () => chosen.dispose() };
}

function resultOf(
  index: number,
  rows: number[],
  { activation }: Run,
  output: SpecialistOutput,
  members: readonly string[] = [output.id],
): SpecialistResult {
  const positions = new Int32Array(activation.batch).fill(-1);
  for (const [position, row] of rows.entries()) positions[row] = position;
  const { interval, dispose } = output;
  return new SpecialistResult({ index, positions, output, interval, members, dispose });
}

function indicesOf(unit: Unit): number[] {
  return "index" in unit ? [unit.index] : unit.indices;
}

function roundUp(count: number): number {
  return 2 ** Math.ceil(Math.log2(count));
}
