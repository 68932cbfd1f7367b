export { Activation, type ActivationLike } from "./activation.js";
export { type AlignmentOptions, AlignmentProjection, latentRidge } from "./alignment.js";
export { type CacheOptions, SpecialistCache } from "./cache.js";
export { ColumnSpecialist } from "./columnSpecialist.js";
export type { Execution, ExecutionChoice } from "./executionChoice.js";
export { fitAlignment } from "./fitAlignment.js";
export {
  type FusionInput,
  type FusionMode,
  type FusionOptions,
  type FusionResult,
  RWKVStateFusion,
} from "./fusion.js";
export type { RowInputs } from "./inputs.js";
export { type Routing, type SwarmInputs, SwarmOrchestrator, type SwarmOutput } from "./orchestrator.js";
export { OutputFusion, type OutputFusionOptions } from "./outputFusion.js";
export { SpecialistResult } from "./results.js";
export { type RouterOptions, SpecialistRouter } from "./router.js";
export {
  FrozenSpecialist,
  Specialist,
  type SpecialistModel,
  type SpecialistOptions,
  type SpecialistOutput,
  type SpecialistRun,
  type StageStates,
} from "./specialist.js";
export { type PerStage, stateGeometry } from "./stages.js";
export type { SwarmOptions } from "./swarmOptions.js";
export { isolatedCriticalPath, type SwarmNode, type SwarmTiming } from "./timing.js";
