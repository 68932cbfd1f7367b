import { z } from "zod";
import { AegirError } from "./errors.js";

/**
 * Checks an options object against a strict zod schema and returns it with defaults filled in.
 * @throws AegirError ERR_CONFIG naming `what`, the key, what it was and what was expected; unknown keys come with the nearest known one.
 */
export function parseOptions<S extends z.ZodType>(what: string, schema: S, value: unknown): z.output<S> {
  const parsed = checked(what, schema, value ?? {});
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  const path = issue.path.map(String).join(".");
  if (issue.code === "unrecognized_keys") {
    const unknown = issue.keys[0]!;
    const known = knownKeys(schema, issue.path);
    const hint = nearest(unknown, known);
    const did = hint ? `; did you mean '${hint}'?` : known.length ? `; known: ${known.join(", ")}` : "";
    throw new AegirError("ERR_CONFIG", `${what}: unknown option '${path ? `${path}.` : ""}${unknown}'${did}`);
  }
  const got = describe(valueAt(value, issue.path));
  throw new AegirError("ERR_CONFIG", `${what}${path ? `.${path}` : ""}: ${issue.message} (was ${got})`);
}

function checked<S extends z.ZodType>(what: string, schema: S, value: unknown) {
  try {
    return schema.safeParse(value);
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw new AegirError("ERR_CONFIG", `${what}: nested too deeply, or an object within itself`, { cause });
  }
}

/** The candidate nearest to `word` by edit distance, or null where none is near. */
export function nearest(word: string, candidates: readonly string[]): string | null {
  let best: string | null = null;
  let bestDistance = Math.max(2, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}

function knownKeys(schema: z.ZodType, path: PropertyKey[]): string[] {
  let at: unknown = schema;
  for (const key of [undefined, ...path]) {
    if (key !== undefined) at = at instanceof z.ZodObject ? at.shape[String(key)] : undefined;
    while (at instanceof z.ZodOptional || at instanceof z.ZodDefault || at instanceof z.ZodNullable)
      at = at.unwrap();
  }
  return at instanceof z.ZodObject ? Object.keys(at.shape) : [];
}

function valueAt(value: unknown, path: PropertyKey[]): unknown {
  return path.reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown> | undefined)?.[key], value);
}

function describe(value: unknown): string {
  if (value === undefined) return "missing";
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  const text = JSON.stringify(value) ?? typeof value;
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
