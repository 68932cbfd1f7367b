/** Codes of every error that the package throws. */
export type ErrorCode =
  | "ERR_SHAPE"
  | "ERR_DTYPE"
  | "ERR_DEVICE"
  | "ERR_OUT_OF_MEMORY"
  | "ERR_CONFIG"
  | "ERR_CHECKPOINT"
  | "ERR_DATA"
  | "ERR_LIBTORCH"
  | "ERR_DISPOSED"
  | "ERR_ABORTED"
  | "ERR_ARGUMENT"
  | "ERR_NON_FINITE"
  | "ERR_INTERNAL";

/** The one error class of the package: `code` says what kind, the message names the argument, what it was and what to do. */
export class AegirError extends Error {
  override readonly name = "AegirError";
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

/** Of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
