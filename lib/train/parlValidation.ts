import { classificationReport } from "../data/metrics.js";
import type { Batch, EncodedExample } from "../data/types.js";
import { AegirError } from "../errors.js";
import { batchInput } from "../model/index.js";
import { Activation, type SwarmOrchestrator } from "../swarm/index.js";
import { type Abstention, calibrateAbstention } from "./abstention.js";
import { adjust, type Calibration, calibrate } from "./calibration.js";
import type { Figures } from "./loop.js";
import { allLogits, type Prediction, predictionsOf } from "./predict.js";
import { activationRates } from "./routingDraws.js";
import { type SpecialistAnswers, withoutFailed } from "./specialistAnswers.js";
import { Scope } from "./tensors.js";

/** Validation of a swarm in training: as its router decides, with the specialists' stored answers. */
export class SwarmValidation {
  /** @param abstainAccuracy share of right answers that a threshold on confidence is calibrated to; absent: none is */
  constructor(
    private readonly swarm: SwarmOrchestrator,
    private readonly examples: EncodedExample[],
    private readonly answers: SpecialistAnswers,
    private readonly abstainAccuracy: number | undefined,
    private readonly onWarning: ((message: string) => void) | undefined,
  ) {}

  async run(): Promise<{ score: number; figures: Figures; abstention: Abstention | null }> {
    const { logits, rates } = await this.said();
    const predictions = predictionsOf(logits, this.swarm.primary.labels.length);
    const { macroF1, microF1 } = classificationReport(
      this.examples.map(({ label }) => label),
      predictions.map(({ label }) => label),
      this.swarm.primary.labels,
    );
    const activation = rates.reduce((sum, rate) => sum + rate / rates.length, 0);
    const abstention = this.calibrate(predictions);
    const selective = abstention && { abstainBelow: abstention.threshold, ...abstention.validation };
    return {
      score: macroF1,
      figures: { macroF1, microF1, activation, activations: rates, ...selective },
      abstention,
    };
  }

  /**
   * Power of the prior and temperature of the present weights, and the threshold on confidence that they give: null where none was asked for,
   * or none reaches the share.
   * @param counts training columns of each class
   */
  async calibrated(
    counts: readonly number[],
  ): Promise<{ calibration: Calibration; abstention: Abstention | null }> {
    const { logits } = await this.said();
    const truth = this.examples.map(({ label }) => label);
    const calibration = calibrate(logits, truth, counts);
    const predictions = predictionsOf(adjust(logits, calibration), counts.length);
    return { calibration, abstention: this.calibrate(predictions) };
  }

  private calibrate(predictions: Prediction[]): Abstention | null {
    const accuracy = this.abstainAccuracy;
    if (accuracy === undefined) return null;
    const truth = this.examples.map(({ label }) => label);
    try {
      return calibrateAbstention(predictions, truth, { accuracy });
    } catch (error) {
      if (!(error instanceof AegirError && error.code === "ERR_DATA")) throw error;
      // Early weights need not reach it: the threshold stays what it was.
      this.onWarning?.(error.message);
      return null;
    }
  }

  /** Logits (examples, classes), and the share of the examples that activates each specialist. */
  private async said(): Promise<{ logits: Float32Array; rates: number[] }> {
    const { swarm } = this;
    const n = swarm.specialists.length;
    const activations: Activation[] = [];
    const logitsOf = async (batch: Batch) => {
      using scope = new Scope();
      const inputs = scope.keep(batchInput(batch));
      const prefix = scope.keep(await swarm.prefix(inputs));
      const routing = scope.keep((await swarm.route(prefix.routingHidden)).logits);
      const activation = Activation.fromLogits(routing, swarm.activationThreshold, n);
      activations.push(activation);
      const { results, failed } = await this.answers.of(batch, inputs, scope);
      const output = await swarm.complete(prefix, withoutFailed(activation.mask, failed), results);
      return scope.keep(output).logits.data() as Float32Array;
    };
    const logits = await allLogits(logitsOf, this.examples, swarm.primary.labels.length);
    const mask = Uint8Array.from(activations.flatMap((activation) => [...activation.mask]));
    return { logits, rates: activationRates(mask, n) };
  }
}
