import { AsyncLocalStorage } from "node:async_hooks";
import type { NativeScope } from "../native/contract.js";
import { native } from "../native/load.js";

const current = new AsyncLocalStorage<NativeScope | undefined>();
let connected = false;

/**
 * Runs `fn` and frees every tensor, state and prefix that was made inside, but for those in the value it returns (handles, and
 * arrays, maps and objects that hold them), which pass to the enclosing `tidy` if there is one. With an async function the
 * scope lasts until its promise settles, whatever else runs in between. Where `fn` throws, everything made inside is freed.
 *
 *     const total = await tidy(async () => (await model.forward(inputs)).logits.sum().item());
 */
export function tidy<T>(fn: () => T): T {
  const addon = native();
  if (!connected) {
    addon.setScopeProvider(() => current.getStore());
    connected = true;
  }
  const outer = current.getStore();
  const scope = new addon.Scope();
  const succeed = <V>(value: V): V => {
    moveHandles(value, scope, outer);
    scope.dispose();
    return value;
  };
  const fail = (error: unknown): never => {
    scope.dispose();
    throw error;
  };
  let result: T;
  try {
    result = current.run(scope, fn);
  } catch (error) {
    return fail(error);
  }
  return isPromise(result) ? (result.then(succeed, fail) as T) : succeed(result);
}

/** Takes the handles in a value out of every `tidy`: they live until they are disposed. Returns the value. */
export function keep<T>(value: T): T {
  const scope = new (native().Scope)();
  moveHandles(value, scope, undefined);
  scope.dispose();
  return value;
}

/** Runs `fn` with no scope current: what it makes belongs to no `tidy` around it. */
export function untracked<T>(fn: () => T): T {
  return current.run(undefined, fn);
}

function isPromise(value: unknown): value is Promise<unknown> {
  return value instanceof Promise;
}

function moveHandles(value: unknown, from: NativeScope, to: NativeScope | undefined): void {
  const seen = new Set<object>();
  const visit = (part: unknown): void => {
    if (typeof part !== "object" || part === null || seen.has(part) || ArrayBuffer.isView(part)) return;
    seen.add(part);
    if (from.move(part, to)) return;
    if (Array.isArray(part) || part instanceof Set) for (const item of part) visit(item);
    else if (part instanceof Map) for (const item of part.values()) visit(item);
    else for (const item of Object.values(part)) visit(item);
  };
  visit(value);
}
