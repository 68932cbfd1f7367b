import { AegirError } from "../errors.js";

export interface LearningRateSchedule {
  /** Peak learning rate. */
  lr: number;
  /** Steps of linear warm-up; step 0 has lr / warmup. */
  warmup: number;
  /** Steps in all. */
  total: number;
  /** The decay ends at lr * finalFraction. */
  finalFraction: number;
  /** Default "cosine". */
  decay?: "cosine" | "linear";
}

/** Learning rate of a step: linear warm-up, then half a cosine, or a line, down to `lr * finalFraction` at the last step. */
export function learningRate(
  step: number,
  { lr, warmup, total, finalFraction, decay = "cosine" }: LearningRateSchedule,
): number {
  if (step < 0 || total < 1) {
    throw new AegirError("ERR_ARGUMENT", `step ${step} of ${total}: expected a step >= 0 and a total >= 1`);
  }
  if (step < warmup) return (lr * (step + 1)) / warmup;
  const span = Math.max(1, total - 1 - warmup);
  const progress = Math.min(1, (step - warmup) / span);
  const left = decay === "linear" ? 1 - progress : 0.5 * (1 + Math.cos(Math.PI * progress));
  return lr * (finalFraction + (1 - finalFraction) * left);
}
