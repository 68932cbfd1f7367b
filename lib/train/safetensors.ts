import { readFile } from "node:fs/promises";
import { AegirError } from "../errors.js";
import type { Dtype } from "../native/contract.js";
import { writeFileAtomic } from "./atomic.js";

/** One tensor of a safetensors file: little-endian, row-major bytes. */
export interface StoredTensor {
  dtype: Dtype;
  shape: number[];
  data: Uint8Array;
}

export interface SafetensorsFile {
  tensors: Map<string, StoredTensor>;
  metadata: Record<string, string>;
}

const FORMAT_NAMES: Record<Dtype, string> = {
  f32: "F32",
  f64: "F64",
  bf16: "BF16",
  i64: "I64",
  u8: "U8",
  bool: "BOOL",
};
const DTYPES = new Map(Object.entries(FORMAT_NAMES).map(([dtype, name]) => [name, dtype as Dtype]));
const BYTES: Record<Dtype, number> = { f32: 4, f64: 8, bf16: 2, i64: 8, u8: 1, bool: 1 };
/** The format's own limit on its header. */
const MAX_HEADER_BYTES = 100_000_000;

/**
 * Encodes tensors in the safetensors format: 8-byte little-endian header length, JSON header, raw data.
 * Data starts at a multiple of 8 bytes; tensors are laid out in order of falling element size, so each is aligned.
 * @throws AegirError ERR_CHECKPOINT where a tensor's bytes do not fit its dtype and shape.
 */
export function encodeSafetensors(
  tensors: Map<string, StoredTensor>,
  metadata: Record<string, string> = {},
): Uint8Array {
  const names = [...tensors.keys()].sort(
    (a, b) => BYTES[tensors.get(b)!.dtype] - BYTES[tensors.get(a)!.dtype] || (a < b ? -1 : 1),
  );
  const header: Record<string, unknown> = {};
  if (Object.keys(metadata).length > 0) header.__metadata__ = metadata;
  let offset = 0;
  for (const name of names) {
    const { dtype, shape, data } = tensors.get(name)!;
    const expected = numel(shape) * BYTES[dtype];
    if (data.byteLength !== expected) {
      throw new AegirError(
        "ERR_CHECKPOINT",
        `tensor '${name}': ${data.byteLength} bytes do not fit ${dtype} [${shape}], which takes ${expected}`,
      );
    }
    header[name] = { dtype: FORMAT_NAMES[dtype], shape, data_offsets: [offset, offset + expected] };
    offset += expected;
  }
  const text = Buffer.from(JSON.stringify(header));
  const headerBytes = Math.ceil(text.length / 8) * 8;
  const file = Buffer.alloc(8 + headerBytes + offset, 0x20);
  file.writeBigUInt64LE(BigInt(headerBytes), 0);
  text.copy(file, 8);
  let at = 8 + headerBytes;
  for (const name of names) {
    const { data } = tensors.get(name)!;
    file.set(data, at);
    at += data.byteLength;
  }
  return file;
}

/**
 * Decodes a safetensors file; the tensors' data are views into `bytes`.
 * @param file named in errors
 * @throws AegirError ERR_CHECKPOINT for a truncated or malformed file, saying what is wrong.
 */
export function decodeSafetensors(bytes: Uint8Array, file: string): SafetensorsFile {
  const { header, dataStart } = readHeader(bytes, file);
  const tensors = new Map<string, StoredTensor>();
  const spans: { name: string; begin: number; end: number }[] = [];
  const dataBytes = bytes.byteLength - dataStart;
  let metadata: Record<string, string> = {};
  for (const [name, value] of Object.entries(header)) {
    if (name === "__metadata__") {
      metadata = checkMetadata(value, file);
      continue;
    }
    const { dtype, shape, begin, end } = checkEntry(name, value, file);
    if (end > dataBytes) {
      throw bad(file, `is truncated: tensor '${name}' ends at byte ${end} of ${dataBytes} bytes of data`);
    }
    const data = new Uint8Array(bytes.buffer, bytes.byteOffset + dataStart + begin, end - begin);
    tensors.set(name, { dtype, shape, data });
    spans.push({ name, begin, end });
  }
  checkCover(spans, dataBytes, file);
  return { tensors, metadata };
}

/** Reads and validates one file. @throws AegirError ERR_CHECKPOINT where it is missing, truncated or malformed. */
export async function readSafetensors(path: string): Promise<SafetensorsFile> {
  let bytes: Uint8Array;
  try {
    bytes = await readFile(path);
  } catch (cause) {
    throw new AegirError("ERR_CHECKPOINT", `${path}: cannot be read (${(cause as Error).message})`, {
      cause,
    });
  }
  return decodeSafetensors(bytes, path);
}

/** Writes one file atomically. */
export async function writeSafetensors(
  path: string,
  tensors: Map<string, StoredTensor>,
  metadata: Record<string, string> = {},
): Promise<void> {
  await writeFileAtomic(path, encodeSafetensors(tensors, metadata));
}

function readHeader(bytes: Uint8Array, file: string): { header: Record<string, unknown>; dataStart: number } {
  if (bytes.byteLength < 8)
    throw bad(file, `is truncated: ${bytes.byteLength} bytes, a header length takes 8`);
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.readBigUInt64LE(0);
  if (length > BigInt(MAX_HEADER_BYTES)) {
    throw bad(file, `is not a safetensors file: its header would take ${length} bytes`);
  }
  const dataStart = 8 + Number(length);
  if (dataStart > bytes.byteLength) {
    throw bad(
      file,
      `is truncated: the header takes ${length} bytes, the file has ${bytes.byteLength - 8} after its length`,
    );
  }
  let header: unknown;
  try {
    header = JSON.parse(view.toString("utf8", 8, dataStart));
  } catch (cause) {
    throw bad(file, "is not a safetensors file: its header is not JSON", cause);
  }
  if (!isRecord(header)) throw bad(file, "is not a safetensors file: its header is not a JSON object");
  return { header, dataStart };
}

function checkEntry(name: string, value: unknown, file: string) {
  if (!isRecord(value)) throw bad(file, `has a malformed entry for tensor '${name}'`);
  const { dtype: formatName, shape, data_offsets: offsets } = value;
  const dtype = DTYPES.get(String(formatName));
  if (!dtype) {
    throw bad(
      file,
      `has tensor '${name}' of dtype ${String(formatName)}; known: ${[...DTYPES.keys()].join(", ")}`,
    );
  }
  if (!isCounts(shape)) throw bad(file, `has tensor '${name}' of malformed shape ${JSON.stringify(shape)}`);
  if (!isCounts(offsets) || offsets.length !== 2) {
    throw bad(file, `has tensor '${name}' of malformed data_offsets ${JSON.stringify(offsets)}`);
  }
  const [begin, end] = offsets as [number, number];
  const expected = numel(shape) * BYTES[dtype];
  if (end - begin !== expected) {
    throw bad(
      file,
      `has ${end - begin} bytes for tensor '${name}', but ${dtype} [${shape}] takes ${expected}`,
    );
  }
  return { dtype, shape, begin, end };
}

/** The format wants the tensors to cover the data without holes or overlaps. */
function checkCover(
  spans: { name: string; begin: number; end: number }[],
  dataBytes: number,
  file: string,
): void {
  let at = 0;
  for (const span of spans.sort((a, b) => a.begin - b.begin || a.end - b.end)) {
    if (span.begin !== at)
      throw bad(file, `has tensor '${span.name}' at byte ${span.begin}, expected at ${at}`);
    at = span.end;
  }
  if (at !== dataBytes) throw bad(file, `has ${dataBytes} bytes of data, but its tensors take ${at}`);
}

function checkMetadata(value: unknown, file: string): Record<string, string> {
  if (!isRecord(value) || Object.values(value).some((entry) => typeof entry !== "string")) {
    throw bad(file, "has __metadata__ that is not a map of strings");
  }
  return value as Record<string, string>;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((n) => Number.isSafeInteger(n) && n >= 0);
}

function numel(shape: number[]): number {
  return shape.reduce((product, n) => product * n, 1);
}

function bad(file: string, what: string, cause?: unknown): AegirError {
  return new AegirError("ERR_CHECKPOINT", `${file} ${what}`, { cause });
}
