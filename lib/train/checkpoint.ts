import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { AegirError } from "../errors.js";
import { currentDirectory, replaceDirectory } from "./atomic.js";
import { encodeSafetensors, readSafetensors, type StoredTensor } from "./safetensors.js";

/** Named tensors of one file of a checkpoint. */
export type TensorMap = Map<string, StoredTensor>;

/** A checkpoint folder: `<group>.safetensors` per group of tensors, and `state.json`. */
export interface Checkpoint<State> {
  /** What the tensors' shapes follow from: model configurations, labels. Compared as a whole when loading. */
  geometry: unknown;
  /** File stem → tensors, for instance model, optimizer, generators. */
  groups: Record<string, TensorMap>;
  /** Everything else that a resumed run needs. */
  state: State;
}

const FORMAT = 1;

interface StateFile {
  format: number;
  geometry: unknown;
  groups: string[];
  state: unknown;
}

/** Writes the folder atomically: at every moment it is the former checkpoint or the new one, whole. */
export async function saveCheckpoint<State>(dir: string, checkpoint: Checkpoint<State>): Promise<void> {
  const files = new Map<string, Uint8Array | string>();
  for (const [group, tensors] of Object.entries(checkpoint.groups)) {
    files.set(`${group}.safetensors`, encodeSafetensors(tensors));
  }
  const head: StateFile = {
    format: FORMAT,
    geometry: checkpoint.geometry,
    groups: Object.keys(checkpoint.groups),
    state: checkpoint.state,
  };
  files.set("state.json", `${JSON.stringify(head, null, 1)}\n`);
  await replaceDirectory(dir, files);
}

/** Whether `dir` holds a checkpoint, also where the last save was cut off. */
export async function hasCheckpoint(dir: string): Promise<boolean> {
  return existsSync(join(currentDirectory(dir), "state.json"));
}

/**
 * Reads a checkpoint back, whole, before anything is changed by it.
 * @param geometry where given, must equal the checkpoint's
 * @param only groups to read; absent: all
 * @throws AegirError ERR_CHECKPOINT where a file is missing, truncated or malformed, or where the geometry differs:
 *   then the first difference is named.
 */
export async function loadCheckpoint<State>(
  dir: string,
  { geometry, only }: { geometry?: unknown; only?: string[] } = {},
): Promise<Checkpoint<State>> {
  const from = currentDirectory(dir);
  const head = await readStateFile(join(from, "state.json"));
  if (geometry !== undefined) {
    const difference = firstDifference(head.geometry, JSON.parse(JSON.stringify(geometry)));
    if (difference) {
      const { path, left, right } = difference;
      throw new AegirError(
        "ERR_CHECKPOINT",
        `${dir} was saved by a model of other geometry: ${path} is ${left} in the checkpoint, ${right} in this model`,
      );
    }
  }
  const absent = (only ?? ["model"]).find((group) => !head.groups.includes(group));
  if (absent) throw new AegirError("ERR_CHECKPOINT", `${dir} holds no ${absent} tensors`);
  const groups: Record<string, TensorMap> = {};
  for (const group of head.groups) {
    if (only && !only.includes(group)) continue;
    groups[group] = (await readSafetensors(join(from, `${group}.safetensors`))).tensors;
  }
  return { geometry: head.geometry, groups, state: head.state as State };
}

async function readStateFile(path: string): Promise<StateFile> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    throw new AegirError("ERR_CHECKPOINT", `${path}: cannot be read (${(cause as Error).message})`, {
      cause,
    });
  }
  let head: StateFile;
  try {
    head = JSON.parse(text) as StateFile;
  } catch (cause) {
    throw new AegirError("ERR_CHECKPOINT", `${path} is truncated or not JSON`, { cause });
  }
  if (head?.format !== FORMAT) {
    throw new AegirError("ERR_CHECKPOINT", `${path}: format ${head?.format}, expected ${FORMAT}`);
  }
  const named = Array.isArray(head.groups) && head.groups.every((group) => /^\w+$/.test(String(group)));
  if (!named) throw new AegirError("ERR_CHECKPOINT", `${path}: groups is no list of names`);
  return head;
}

export interface Difference {
  path: string;
  left: string;
  right: string;
}

/** The first place where two JSON values differ, or null. */
export function firstDifference(left: unknown, right: unknown, path = ""): Difference | null {
  if (isObject(left) && isObject(right)) {
    for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
      const at = Array.isArray(left) ? `${path}[${key}]` : path ? `${path}.${key}` : key;
      const found = firstDifference(left[key], right[key], at);
      if (found) return found;
    }
    return null;
  }
  return Object.is(left, right) ? null : { path: path || "value", left: show(left), right: show(right) };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function show(value: unknown): string {
  const text = value === undefined ? "absent" : JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}
