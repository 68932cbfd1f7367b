export {
  type BaselineOptions,
  type BaselineScores,
  labelledRefs,
  ngramBaselines,
  parametersOf,
  type Scores,
  scoresOf,
  type TrainedBaseline,
  trainBaselines,
  withoutHeldOutSites,
} from "./baselines.js";
export { type FormatSpecialistOptions, trainFormatSpecialist } from "./formatSpecialist.js";
export { SPECIALIST_KINDS, type SpecialistKind } from "./kinds.js";
export { type Learned, LinearSpecialist } from "./linearSpecialist.js";
export { type LabelledRef, type LinearData, labelsOf } from "./linearTraining.js";
export { type NgramSpecialistOptions, trainNgramSpecialist } from "./ngramSpecialist.js";
export {
  type OtherTask,
  type StackedData,
  type StackedSpecialistOptions,
  trainStackedSpecialist,
} from "./stackedSpecialist.js";
