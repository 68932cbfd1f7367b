/// <reference lib="esnext.disposable" preserve="true" />
export { BatchIterator, type BatchOptions, type BatchPosition, evaluationBatches } from "./data/batches.js";
export { type CsvOptions, type CsvTable, parseCsv, readCsv, readCsvStream } from "./data/csv.js";
export { writeDataset } from "./data/csvFolder.js";
export { selectColumns } from "./data/dataset.js";
export { FAMILIES, type Family, HARD_LABELS, labelFamilies } from "./data/families.js";
export {
  DOMAINS,
  type Domain,
  EVERYDAY_DOMAINS,
  type GeneratorOptions,
  generateDataset,
} from "./data/generator.js";
export {
  type ClassificationReport,
  classificationReport,
  confusionMatrix,
  formatReport,
} from "./data/metrics.js";
export { type OpenOptions, openDataset } from "./data/open.js";
export { Random } from "./data/random.js";
export { Serialiser, type SerialiserOptions } from "./data/serialise.js";
export { readSotab, type SotabOptions } from "./data/sotab.js";
export type {
  Batch,
  Column,
  Dataset,
  EncodedExample,
  LabelledColumn,
  Split,
  Table,
  Task,
} from "./data/types.js";
export { AegirError, type ErrorCode } from "./errors.js";
export * from "./model/index.js";
export type {
  AddonInfo,
  DeviceMemory,
  DeviceName,
  Dtype,
  GraphReport,
  Interval,
  MemoryInfo,
  NestedArray,
  TensorData,
} from "./native/contract.js";
export * from "./rl/index.js";
export * from "./specialists/index.js";
export * from "./swarm/index.js";
export * from "./tensor/index.js";
export {
  type Abstention,
  type AbstentionTarget,
  calibrateAbstention,
  readAbstention,
  type SelectiveFigures,
} from "./train/abstention.js";
export {
  type AnnotateFilesOptions,
  type AnnotateOptions,
  type Annotator,
  annotateFiles,
  annotateTable,
  type ColumnAnnotation,
  type FileAnnotations,
} from "./train/annotate.js";
export { ColumnModelSpecialist } from "./train/columnModel.js";
export {
  type DataSource,
  folderSource,
  generatedSource,
  openDataSource,
} from "./train/dataSource.js";
export { type DefaultModel, type DefaultModelOptions, loadDefaultModel } from "./train/defaultModel.js";
export { type DistillRun, distill } from "./train/distill.js";
export type { Evaluation } from "./train/evaluate.js";
export {
  calibrateRun,
  evaluateRun,
  type RunEvaluation,
  type RunEvaluationOptions,
} from "./train/evaluateRun.js";
export type { SwarmFigures } from "./train/evaluateSwarm.js";
export { type LoadedRun, type LoadRunOptions, loadRun } from "./train/loadRun.js";
export type { TrainingOutcome } from "./train/loop.js";
export { AdamW, type AdamWOptions, type OptimizedModule, type StepResult } from "./train/optimizer.js";
export { type ParlRun, type SpecialistSource, type TrainedSwarm, trainParl } from "./train/parl.js";
export { type PretrainRun, pretrain } from "./train/pretrain.js";
export type { Progress, ProgressListener } from "./train/progress.js";
export {
  loadSpecialist,
  type SpecialistTraining,
  saveSpecialist,
  trainSpecialist,
} from "./train/specialistRun.js";
export { type SupervisedRun, type TrainedAnnotator, trainSupervised } from "./train/supervised.js";
