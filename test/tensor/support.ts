import { expect } from "vitest";
import { AegirError, type ErrorCode } from "../../lib/errors.js";
import { Generator, Tensor } from "../../lib/tensor/index.js";

/** Expects an AegirError with this code whose message names the argument. */
export function expectAegirError(run: () => unknown, code: ErrorCode, message: RegExp): void {
  let thrown: unknown;
  try {
    run();
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(AegirError);
  expect((thrown as AegirError).code).toBe(code);
  expect((thrown as AegirError).message).toMatch(message);
}

/** The same of a promise. */
export async function expectRejection(
  promise: Promise<unknown>,
  code: ErrorCode,
  message: RegExp,
): Promise<void> {
  const outcome = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  expectAegirError(
    () => {
      if (outcome) throw outcome;
    },
    code,
    message,
  );
}

/** A scalar whose backward takes a chain of matrix products, tens of milliseconds with the defaults, and its leaf. */
export function slowLoss({ size = 320, depth = 24 } = {}): { loss: Tensor; leaf: Tensor } {
  const generator = new Generator(1);
  const leaf = Tensor.randn([size, size], generator);
  generator.dispose();
  leaf.requiresGrad = true;
  let product = leaf.mul(1 / size);
  for (let i = 0; i < depth; i++) {
    const next = product.matmul(leaf);
    product.dispose();
    product = next;
  }
  const loss = product.mean();
  product.dispose();
  return { loss, leaf };
}
