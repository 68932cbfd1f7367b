// The quick start of open-parl with this package's classes: node examples/parl.mjs
import { CriticalStepsMetric, PARLReward, Random } from "aegir-swarm";

const random = new Random(0, "example");
const grid = (rows, columns, value) =>
  Array.from({ length: rows }, () => Array.from({ length: columns }, value));

const reward = new PARLReward({ lambdaInit: 0.1, lambdaFinal: 0, totalTrainingSteps: 10_000 });
const rewards = reward.computeFullReward({
  numSubagents: [25, 30, 40],
  trajectoryFeatures: grid(3, 64, () => random.next()),
  success: [1, 1, 0],
  trainingStep: 5000,
  maxSubagents: 100,
});
console.log("total reward", rewards.totalReward);
console.log("λ", rewards.lambdaAux);
console.log("parallelism component", rewards.instantiationComponent);
console.log("task component", rewards.taskComponent);

const mainSteps = grid(3, 5, () => 0.1);
const subSteps = Array.from({ length: 3 }, () => grid(5, 10, () => random.next()));
console.log("critical steps", new CriticalStepsMetric().compute(mainSteps, subSteps));
