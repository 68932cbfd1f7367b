export { AegirError, type ErrorCode } from "./errors.js";
export * from "./swarm/index.js";
export {
  type AnnotateOptions,
  type Annotator,
  annotateTable,
  type ColumnAnnotation,
} from "./train/annotate.js";
export {
  type DataSource,
  folderSource,
  generatedSource,
  openDataSource,
} from "./train/dataSource.js";
export type { Evaluation } from "./train/evaluate.js";
export { evaluateRun, type RunEvaluation, type RunEvaluationOptions } from "./train/evaluateRun.js";
export type { SwarmFigures } from "./train/evaluateSwarm.js";
export { type LoadedRun, loadRun } from "./train/loadRun.js";
export type { TrainingOutcome } from "./train/loop.js";
export { type ParlRun, type SpecialistSource, type TrainedSwarm, trainParl } from "./train/parl.js";
export { type PretrainRun, pretrain } from "./train/pretrain.js";
export type { Progress, ProgressListener } from "./train/progress.js";
export { type SupervisedRun, type TrainedAnnotator, trainSupervised } from "./train/supervised.js";
