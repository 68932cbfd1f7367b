import { largestOf } from "../../data/logitAdjustment.js";
import type { Dataset } from "../../data/types.js";
import { labelledRefs } from "../../specialists/index.js";
import { classIds } from "../../specialists/linearTraining.js";
import { type Head, meanProbabilities } from "../../train/heads.js";
import { type LoadedRun, loadRun } from "../../train/loadRun.js";
import { Scope } from "../../train/tensors.js";
import type { CellContext } from "../cells.js";

/** Splits that can be scored. */
export type ScoredSplit = "validation" | "test";

/** What a system says of every column of a split, as class ids; with the data set's labels all that a report needs. */
export interface Answers {
  truth: number[];
  predicted: number[];
}

export interface SystemResult extends Answers {
  /** Power of the prior that probabilities are divided by, chosen on validation; null: another for each member. */
  tau: number | null;
  parameters: number;
  /** Of what is measured by itself; absent: the cell's. */
  cpuSeconds?: number;
  /** Swarms: ids of the specialists, what each costs, and the answers under the router and under controls. */
  specialists?: string[];
  /** Milliseconds a column. */
  times?: number[];
  routings?: Record<string, RoutedAnswers>;
}

/** What a swarm says of the columns when its specialists are activated in one way. */
export interface RoutedAnswers {
  predicted: number[];
  /** (n) share of the columns that activate each specialist. */
  rates: number[];
  /** Share of the time that all specialists take together. */
  work: number;
}

/** The class with the largest mean probability. @throws AegirError ERR_DATA for labels that the heads do not know; ERR_ABORTED */
export async function answersOf(
  heads: readonly Head[],
  dataset: Dataset,
  split: ScoredSplit,
  context: Pick<CellContext, "signal" | "onProgress">,
): Promise<Answers> {
  const columns = labelledRefs(dataset, split);
  const { labels } = heads[0]!;
  const probabilities = await meanProbabilities(heads, columns, context);
  return {
    truth: [...classIds(columns, labels)],
    predicted: [...largestOf(probabilities, labels.length)],
  };
}

/** The same of runs, by their folders. */
export async function answersOfRuns(
  dirs: readonly string[],
  dataset: Dataset,
  split: ScoredSplit,
  context: CellContext,
): Promise<SystemResult> {
  using scope = new Scope();
  const runs: LoadedRun[] = [];
  for (const dir of dirs) runs.push(scope.keep(await loadRun(dir)));
  const answers = await answersOf(runs, dataset, split, context);
  return {
    ...answers,
    tau: runs.length === 1 ? (runs[0]!.calibration?.priorPower ?? 0) : null,
    parameters: runs.reduce((sum, { model }) => sum + (model?.numParameters ?? 0), 0),
  };
}
