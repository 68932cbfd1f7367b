import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { Serialiser } from "../data/serialise.js";
import type { Task } from "../data/types.js";
import { AegirError } from "../errors.js";
import type { ResolvedAnnotator, ResolvedBackbone } from "../model/index.js";
import { currentDirectory, makeFolder, writeFileAtomic, writing } from "./atomic.js";
import { firstDifference, hasCheckpoint } from "./checkpoint.js";
import type { MetricValue } from "./metricsLog.js";

/**
 * A run folder:
 *
 *     config.json          what was trained, on what and how
 *     metrics.jsonl        one JSON line per step and validation
 *     checkpoint/          where `--resume` continues
 *     best/                the weights that `evaluate` and `annotate` use; beside them what belongs to them alone: calibration.json,
 *                          and abstention.json, the threshold on confidence, where one was asked for
 *     specialists/<id>/    swarms: each frozen specialist as a run folder of its own
 *     summary.md, *.svg    the report
 *     lock                 while a training runs: its process
 */
export interface RunConfig {
  kind: "pretrain" | "supervised" | "parl" | "specialist";
  task: Task | null;
  /** The model; in a swarm, the primary; of a column specialist its kind, options and labels. */
  model: ResolvedAnnotator | ResolvedBackbone | ColumnModel;
  /** Options of the `Serialiser` that made the training examples, without augmentation. */
  serialise: { [key: string]: MetricValue };
  /** Options of the training, with every default filled in. */
  options: { [key: string]: MetricValue };
  /** Run whose weights it started from; null: none. */
  init: string | null;
  /** Where the data came from, for people and for the commands; null: given in memory. */
  data: { [key: string]: MetricValue } | null;
  /** `fingerprintOf` its columns; runs of before have none. */
  fingerprint?: string;
  swarm?: { [key: string]: MetricValue };
  /** Swarms that learnt on held-out sites: the runs that answered there in place of specialists. */
  standIns?: { id: string; run: string }[];
  /** The label of training columns that are of no type, as the default model has it. */
  none?: string;
  /** Distilled models: the runs that taught, the folders of unlabelled tables, and the share of steps that learn from them. */
  distill?: { [key: string]: MetricValue };
  /** Multi-task training: the other tasks and where their data came from. */
  also?: MetricValue[];
}

export interface ColumnModel {
  kind: string;
  labels: string[];
}

const FORMAT = 1;

/** Specialists have folders of their names. */
export const SPECIALIST_ID = /^[\w@-][\w.@ -]*$/;

const configSchema = z.looseObject({
  format: z.literal(FORMAT),
  kind: z.enum(["pretrain", "supervised", "parl", "specialist"]),
  task: z.enum(["cta", "cpa"]).nullable(),
  model: z.looseObject({}),
  serialise: z.looseObject({}),
  options: z.looseObject({}),
  init: z.string().nullable(),
  data: z.looseObject({}).nullable(),
  none: z.string().optional(),
  fingerprint: z.string().optional(),
  standIns: z.array(z.object({ id: z.string(), run: z.string() })).optional(),
  swarm: z
    .looseObject({
      specialists: z.array(z.string().regex(SPECIALIST_ID)),
      fuse: z.enum(["states", "outputs", "states+outputs"]),
      fusionMode: z.enum(["weighted_sum", "gated", "concat_project"]),
    })
    .optional(),
});

/**
 * Opens the folder of a training: makes it with its `config.json`, or, with `recorded`, checks that the run continues
 * with what it began with.
 * @throws AegirError ERR_CONFIG where the folder already holds something, or an option differs from the recorded one
 */
export async function openRun(dir: string, config: RunConfig, recorded: RunConfig | null): Promise<void> {
  if (recorded) {
    const { data: _, init: __, fingerprint, ...before } = recorded;
    const {
      data: ___,
      init: ____,
      fingerprint: given,
      ...now
    } = JSON.parse(JSON.stringify(config)) as RunConfig;
    if (fingerprint !== undefined && fingerprint !== given)
      throw new AegirError(
        "ERR_CONFIG",
        `${dir} cannot be resumed: the labelled columns or their cells are not those that it began with; give it those, or train a new run`,
      );
    const difference = firstDifference(before, now);
    if (!difference) return;
    const { path, left, right } = difference;
    throw new AegirError(
      "ERR_CONFIG",
      `${dir} cannot be resumed: ${path} is ${left} in the run, ${right} here`,
    );
  }
  await checkFree(dir);
  await writing(dir, () => makeFolder(dir));
  await writeFileAtomic(
    join(dir, "config.json"),
    `${JSON.stringify({ format: FORMAT, ...config }, null, 2)}\n`,
  );
}

function checkNamed(dir: string | undefined): void {
  if (dir === "") throw new AegirError("ERR_CONFIG", "out (--out): expected a run folder, got ''");
}

/** @throws AegirError ERR_CONFIG where the folder of a new run already holds something */
export async function checkFree(
  dir: string,
  advice = "choose another folder, or continue a run with resume (--resume)",
): Promise<void> {
  checkNamed(dir);
  if (!existsSync(dir) || (await writing(dir, () => readdir(dir))).length === 0) return;
  const what = existsSync(join(dir, "config.json")) ? "a run" : "files";
  throw new AegirError("ERR_CONFIG", `${dir} already holds ${what}: ${advice}`);
}

/** The recorded configuration of a run that is to be resumed; null: it starts afresh. @throws AegirError ERR_CONFIG, ERR_CHECKPOINT */
export async function recordedRun(
  dir: string | undefined,
  resume: boolean | undefined,
  kind: RunConfig["kind"],
): Promise<RunConfig | null> {
  checkNamed(dir);
  if (!resume) return null;
  if (dir === undefined)
    throw new AegirError("ERR_CONFIG", "resume: a run is resumed in its folder; give out (--out)");
  const config = await readRunConfig(dir);
  if (config.kind === kind) return config;
  throw new AegirError("ERR_CONFIG", `${dir} holds a run of kind ${config.kind}, expected ${kind}`);
}

/** A recorded run in today's options: one that came later had its default then. @param schema of the training's options */
export function inTodaysOptions(recorded: RunConfig, schema: z.ZodObject): RunConfig {
  return {
    ...recorded,
    options: schema.parse(recorded.options) as RunConfig["options"],
    serialise: new Serialiser(recorded.serialise).options,
  };
}

/** The run folders of a folder, as a demo's. */
async function runsIn(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() && existsSync(join(dir, entry.name, "config.json")))
    .map(({ name }) => join(dir, name))
    .sort();
}

/** @throws AegirError ERR_CHECKPOINT where `dir` is not a run folder */
export async function readRunConfig(dir: string): Promise<RunConfig> {
  const path = join(dir, "config.json");
  if (!existsSync(dir)) throw new AegirError("ERR_CHECKPOINT", `${dir}: no such run folder`);
  if (!existsSync(path)) {
    const inside = await runsIn(dir);
    const hint = inside.length > 0 ? `; it holds the runs ${inside.join(", ")}: give one of them` : "";
    throw new AegirError("ERR_CHECKPOINT", `${dir} is not a run folder: it has no config.json${hint}`);
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(await readFile(path, "utf8"));
  } catch (cause) {
    throw new AegirError("ERR_CHECKPOINT", `${path} is truncated or not JSON`, { cause });
  }
  const checked = configSchema.safeParse(parsed);
  if (!checked.success) {
    const issue = checked.error.issues[0]!;
    throw new AegirError(
      "ERR_CHECKPOINT",
      `${path} is not a run's: ${issue.path.join(".") || "it"}: ${issue.message}`,
    );
  }
  if (checked.data.kind === "parl" && !checked.data.swarm)
    throw new AegirError("ERR_CHECKPOINT", `${path} is not a run's: a swarm's has swarm`);
  const { format: _, ...config } = checked.data;
  return config as unknown as RunConfig;
}

/** The run that a training starts from, unless it continues from a checkpoint of its own. */
export async function startingRun(
  dir: string | undefined,
  init: string | undefined,
  recorded: RunConfig | null,
): Promise<string | null> {
  if (!recorded) return init ?? null;
  return (await hasCheckpoint(join(dir!, "checkpoint"))) ? null : recorded.init;
}

/** A file that belongs to the run's usable weights: with others in their place it is gone. */
export function besideWeights(dir: string, name: string): string {
  return join(currentDirectory(join(dir, "best")), name);
}

/** The folder of a run's usable weights. @throws AegirError ERR_CHECKPOINT where the run has none yet */
export async function bestWeightsDir(dir: string): Promise<string> {
  const best = join(dir, "best");
  if (await hasCheckpoint(best)) return best;
  throw new AegirError(
    "ERR_CHECKPOINT",
    `${dir} has no trained weights yet: best/ is absent; continue it with --resume`,
  );
}
