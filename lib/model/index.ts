export { AegirForColumnAnnotation } from "./annotator.js";
export { type BatchInputs, batchInput } from "./batch.js";
export { AegirForCausalLM } from "./causal_lm.js";
export {
  type AnnotatorOptions,
  type CausalLMOptions,
  defaultRanks,
  type ModelPreset,
  type ResolvedAnnotator,
  type ResolvedBackbone,
} from "./config.js";
export type { GenerateOptions } from "./generate.js";
export type { ArchLayout } from "./layout.js";
export type { AegirModel, ModelRuntime } from "./model.js";
export type {
  AnnotatorOutput,
  CausalLMOutput,
  ForwardOptions,
  ModelGeometry,
  ModelInputs,
  Prefix,
  RestOptions,
  RunOptions,
  StepInputs,
  StepOutput,
} from "./types.js";
