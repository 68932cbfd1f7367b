import { describe, expect, it } from "vitest";
import { CriticalStepsMetric, PARLReward } from "../../lib/rl/parl.js";
import { expectClose, vector } from "./support.js";

interface ParlInputs {
  num_subagents: number[];
  trajectory_features: number[][];
  success: number[];
  training_step: number;
  max_subagents?: number;
  completed: number[];
  assigned: number[];
}

function inputOf(inputs: ParlInputs) {
  return {
    numSubagents: inputs.num_subagents,
    trajectoryFeatures: inputs.trajectory_features,
    success: inputs.success,
    trainingStep: inputs.training_step,
    maxSubagents: inputs.max_subagents,
    completed: inputs.completed,
    assigned: inputs.assigned,
  };
}

describe("PARLReward", () => {
  it("agrees with the golden values of the two-term form", () => {
    const { inputs, expected } = vector<{
      inputs: ParlInputs;
      expected: { lambda_aux: number; r_parallel: number[]; task_quality: number[]; total_reward: number[] };
    }>("V9_open_parl_two_term");
    const result = new PARLReward().computeFullReward(inputOf(inputs));
    expect(result.lambdaAux).toBeCloseTo(expected.lambda_aux, 12);
    expectClose(result.rParallel, expected.r_parallel);
    expectClose(result.taskQuality, expected.task_quality);
    expectClose(result.totalReward, expected.total_reward);
    result.totalReward.forEach((total, i) => {
      expect(result.instantiationComponent[i]! + result.taskComponent[i]!).toBe(total);
    });
  });

  it("agrees with the golden values of the three-term form", () => {
    const { inputs, expected } = vector<{
      inputs: ParlInputs;
      expected: {
        lambda1: number;
        r_parallel: number[];
        r_finish: number[];
        r_perf: number[];
        total: number[];
      };
    }>("V9_open_parl_three_term");
    const result = new PARLReward().computeThreeTermReward(inputOf(inputs));
    expect(result.lambda1).toBeCloseTo(expected.lambda1, 12);
    expectClose(result.rParallel, expected.r_parallel);
    expectClose(result.rFinish, expected.r_finish);
    expectClose(result.rPerf, expected.r_perf);
    expectClose(result.totalReward, expected.total);
  });

  it("counts a fractional success once", () => {
    const { totalReward } = new PARLReward({ lambdaInit: 0 }).computeFullReward({
      numSubagents: [1],
      trajectoryFeatures: [[0.8]],
      success: [0.5],
      trainingStep: 0,
    });
    expectClose(totalReward, [0.4], 1e-12);
  });

  it("clamps r_parallel in the three-term form alone", () => {
    const reward = new PARLReward();
    expect(reward.computeInstantiationReward([150])).toEqual([1.5]);
    const three = reward.computeThreeTermReward({
      numSubagents: [150],
      trajectoryFeatures: [[1]],
      success: [1],
      trainingStep: 0,
      completed: [3],
      assigned: [0],
    });
    expect(three.rParallel).toEqual([1]);
    expect(three.rFinish).toEqual([1]);
  });

  it("anneals to its final value, stays there, and refuses impossible arguments", () => {
    const reward = new PARLReward({ lambdaInit: 0.4, lambdaFinal: 0.2, totalTrainingSteps: 100 });
    expectClose(
      [0, 50, 100, 900].map((e) => reward.annealLambda(e)),
      [0.4, 0.3, 0.2, 0.2],
      1e-12,
    );
    expect(() => reward.annealLambda(-1)).toThrow(/trainingStep/);
    expect(() => new PARLReward({ totalTrainingSteps: 0 })).toThrow(/totalTrainingSteps/);
    expect(() => reward.computeTaskQuality([[1], [1]], [1])).toThrow(/success/);
  });
});

describe("CriticalStepsMetric", () => {
  const { inputs, expected } = vector<{
    inputs: { main_steps: number[][]; sub_steps: number[][][] };
    expected: number[];
  }>("V9_critical_steps");

  it("agrees with the golden values", () => {
    expectClose(new CriticalStepsMetric().compute(inputs.main_steps, inputs.sub_steps), expected);
  });

  it("adds the overhead at every valid stage, takes no subagents as 0 and leaves masked stages out", () => {
    const metric = new CriticalStepsMetric({ orchestrationOverhead: 0.5 });
    expect(metric.compute([[1, 2]], [[[], []]])).toEqual([4]);
    expect(metric.compute([[1, Number.NaN, 2]], [[[3], [Number.NaN], [4]]], [[true, false, true]])).toEqual([
      11,
    ]);
    expect(() => metric.compute([[1, 2]], [[[1]]])).toThrow(/sub\[0\]/);
  });
});

describe('compat: "open-parl-0.1.0"', () => {
  const compat = "open-parl-0.1.0";

  // Numbers that open-parl 0.1.0 printed for these inputs, float32.
  it("multiplies by success twice and extrapolates before step 0", () => {
    const reward = new PARLReward({ totalTrainingSteps: 100, compat });
    const result = reward.computeFullReward({
      numSubagents: [10, 150],
      trajectoryFeatures: [
        [0.8, 0.9, 0.7],
        [0.4, 0.4, 0.4],
      ],
      success: [0.5, 1],
      trainingStep: 50,
    });
    expectClose(result.totalReward, [0.195, 0.455], 1e-6);
    expectClose(result.taskComponent, [0.19, 0.38], 1e-6);
    expectClose(result.taskQuality, [0.4, 0.4], 1e-6);
    expect(reward.annealLambda(-10)).toBeCloseTo(0.11, 9);
  });

  it("ignores the overhead, refuses masks and stages without subagents", () => {
    const metric = new CriticalStepsMetric({ orchestrationOverhead: 0.5, compat });
    expect(metric.compute([[1, 1]], [[[-1, -1], [2]]])).toEqual([3]);
    expect(() => metric.compute([[1]], [[[]]])).toThrow(/without subagents/);
    expect(() => metric.compute([[1]], [[[1]]], [[true]])).toThrow(/mask/);
  });

  it("is refused by any other name", () => {
    expect(() => new PARLReward({ compat: "open-parl-0.2" as never })).toThrow(/compat/);
  });
});
