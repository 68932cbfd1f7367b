import type { Prefix } from "../model/index.js";
import { native } from "../native/load.js";
import type { SwarmOrchestrator } from "../swarm/index.js";
import { type Prediction, predictionsOf } from "./predict.js";
import type { RolloutOutcome } from "./rolloutRewards.js";
import { type Answers, withoutFailed } from "./specialistAnswers.js";
import { Scope } from "./tensors.js";

/** Rows that the primary completes at a time: what rollouts need of memory does not grow with their number. */
const MAX_ROWS = 1024;

/**
 * Evaluates routings of a batch without a graph: one prefix and the specialists' answers serve all of them.
 * @param abstainBelow the head answers where its largest probability is at least this
 * @returns of actions (G,R,n), draw g of row r at g·R + r
 */
export function swarmRollouts(
  swarm: SwarmOrchestrator,
  prefix: Prefix,
  answers: Answers,
  labels: Int32Array,
  abstainBelow: number,
): (actions: Uint8Array) => Promise<RolloutOutcome> {
  const n = swarm.specialists.length;
  return async (actions) => {
    const total = actions.length / n;
    const logp = new Float64Array(total);
    const correct = new Uint8Array(total);
    const finished = new Uint8Array(total);
    for (let from = 0; from < total; from += MAX_ROWS) {
      const to = Math.min(total, from + MAX_ROWS);
      const chosen = actions.subarray(from * n, to * n);
      const rows = Int32Array.from({ length: to - from }, (_, i) => (from + i) % prefix.rows);
      const part = await complete(swarm, prefix, answers, labels, rows, chosen);
      for (let i = 0; i < rows.length; i++) {
        const { label, confidence } = part.predictions[i]!;
        const said = confidence >= abstainBelow;
        logp[from + i] = part.logp[i]!;
        correct[from + i] = said && label === labels[rows[i]!] ? 1 : 0;
        finished[from + i] = said && !callsFailed(chosen, i, answers.failed) ? 1 : 0;
      }
    }
    return { logp, correct, finished };
  };
}

async function complete(
  swarm: SwarmOrchestrator,
  prefix: Prefix,
  { results, failed }: Answers,
  labels: Int32Array,
  rows: Int32Array,
  actions: Uint8Array,
): Promise<{ logp: ArrayLike<number>; predictions: Prediction[] }> {
  using scope = new Scope();
  const { Tensor } = native();
  const index = scope.keep(Tensor.fromData(rows, [rows.length], "i64"));
  const expanded = scope.keep(await swarm.primary.selectRows(prefix, index));
  const views = results.map((result) => result.selectRows(rows));
  const output = scope.keep(await swarm.complete(expanded, withoutFailed(actions, failed), views));
  const truth = scope.keep(
    Tensor.fromData(
      rows.map((row) => labels[row]!),
      [rows.length],
      "i64",
    ),
  );
  const { loss, logp } = await native().crossEntropy(swarm.primary.lane, {
    logits: output.logits,
    labels: truth,
  });
  scope.keep(loss);
  const predictions = predictionsOf(output.logits.data() as Float32Array, output.logits.shape[1]!);
  return { logp: scope.keep(logp).data() as Float32Array, predictions };
}

function callsFailed(actions: Uint8Array, row: number, failed: readonly boolean[]): boolean {
  return failed.some((bad, i) => bad && actions[row * failed.length + i] === 1);
}
