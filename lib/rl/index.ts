export {
  type Baseline,
  batchAdvantages,
  type GaeOptions,
  gae,
  gdpoAdvantages,
  groupAdvantages,
  type RewardComponent,
  whiten,
} from "./advantages.js";
export { AdaptiveEntropy, AdaptiveKl } from "./controllers.js";
export { brentBound, type CriticalPath, criticalPath, type NodeRole, type PathNode } from "./criticalPath.js";
export {
  type ClipLossResult,
  type K25ClipLossOptions,
  k25ClipLoss,
  type PpoClipLossOptions,
  ppoClipLoss,
  type TokenClipLossOptions,
  tokenClipLoss,
} from "./loss.js";
export {
  CriticalStepsMetric,
  type OpenParlCompat,
  type PARLInput,
  PARLReward,
  type PARLRewardOptions,
  type PARLThreeTermInput,
  type PARLThreeTermResult,
  type PARLTwoTermResult,
} from "./parl.js";
export { type Action, CappedBernoulli } from "./policy.js";
export {
  activationCost,
  classWeights,
  correctReward,
  coverage,
  criticalStepsHinge,
  finishReward,
  loglikReward,
  type ParallelRewardOptions,
  parallelReward,
  RateController,
  type RewardTerms,
  type RoutingStatistics,
  routingStatistics,
  totalReward,
} from "./rewards.js";
export { RoutingPolicy, restrictLogits, weightedSum } from "./routingPolicy.js";
export {
  type Activations,
  type DegeneratePenalty,
  degeneratePenalty,
  parallelDifferenceRewards,
  parallelSurrogate,
  RoutingMonitor,
  type RoutingMonitorState,
  type RoutingTerm,
} from "./routingTerms.js";
export {
  budgetCap,
  clipRange,
  estimateBudget,
  type LambdaScheduleOptions,
  type Lambdas,
  lambdaSchedule,
  type PhaseKind,
  phaseAt,
  type RoutingPhase,
  type RoutingPhaseOptions,
  routingPhase,
  type ToggleOptions,
  toggleRewards,
} from "./schedules.js";
export {
  TOKEN_WEIGHTS,
  type TokenKind,
  type TypeIndicativeOptions,
  tokenWeights,
  typeIndicativeTokens,
} from "./tokenWeights.js";
