import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Dtype } from "../../lib/native/contract.js";
import {
  decodeSafetensors,
  encodeSafetensors,
  readSafetensors,
  type StoredTensor,
  writeSafetensors,
} from "../../lib/train/safetensors.js";

const BYTES: Record<Dtype, number> = { f32: 4, f64: 8, bf16: 2, i64: 8, u8: 1, bool: 1 };

const storedTensor: fc.Arbitrary<StoredTensor> = fc
  .record({
    dtype: fc.constantFrom<Dtype>("f32", "f64", "bf16", "i64", "u8", "bool"),
    shape: fc.array(fc.nat({ max: 4 }), { maxLength: 3 }),
  })
  .chain(({ dtype, shape }) => {
    const length = shape.reduce((a, b) => a * b, 1) * BYTES[dtype];
    return fc
      .uint8Array({ minLength: length, maxLength: length })
      .map((data) => ({ dtype, shape, data: new Uint8Array(data) }));
  });
const tensorFile = fc
  .dictionary(
    fc.string({ minLength: 1 }).filter((name) => name !== "__metadata__" && name !== "__proto__"),
    storedTensor,
  )
  .map((record) => new Map(Object.entries(record)));

describe("safetensors", () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "aegir-safetensors-"));
  });
  afterAll(() => rm(dir, { recursive: true }));

  test("decoding what was encoded gives the same tensors and metadata", () => {
    fc.assert(
      fc.property(
        tensorFile,
        fc.dictionary(fc.string({ minLength: 1 }), fc.string()),
        (tensors, metadata) => {
          const decoded = decodeSafetensors(encodeSafetensors(tensors, metadata), "x");
          expect(decoded.tensors.size).toBe(tensors.size);
          for (const [name, { dtype, shape, data }] of tensors) {
            const got = decoded.tensors.get(name)!;
            expect({ dtype: got.dtype, shape: got.shape }).toEqual({ dtype, shape });
            expect(Buffer.from(got.data).equals(Buffer.from(data))).toBe(true);
          }
          expect({ ...decoded.metadata }).toEqual({ ...metadata });
        },
      ),
    );
  });

  test("the layout is the format's: length, JSON, data at the offsets", () => {
    const bytes = encodeSafetensors(
      new Map([["w", { dtype: "f32", shape: [2], data: new Uint8Array(new Float32Array([1, -2]).buffer) }]]),
    );
    const view = Buffer.from(bytes);
    const length = Number(view.readBigUInt64LE(0));
    expect(length % 8).toBe(0);
    expect(JSON.parse(view.toString("utf8", 8, 8 + length))).toEqual({
      w: { dtype: "F32", shape: [2], data_offsets: [0, 8] },
    });
    expect(view.readFloatLE(8 + length)).toBe(1);
    expect(view.readFloatLE(12 + length)).toBe(-2);
    expect(view.length).toBe(16 + length);
  });

  test("every truncation is refused with the file's name", () => {
    const bytes = encodeSafetensors(
      new Map([
        ["a", { dtype: "f32", shape: [3], data: new Uint8Array(12) }],
        ["b", { dtype: "bool", shape: [5], data: new Uint8Array(5) }],
      ]),
    );
    for (let length = 0; length < bytes.length; length++) {
      expect(
        () => decodeSafetensors(bytes.subarray(0, length), "cut.safetensors"),
        `cut at ${length}`,
      ).toThrow(/cut\.safetensors (is truncated|has|is not)/);
    }
  });

  test("garbage, gaps, overlaps and wrong sizes are refused", () => {
    const craft = (header: unknown, data: number) => {
      const text = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
      const out = Buffer.alloc(8 + text.length + data);
      out.writeBigUInt64LE(BigInt(text.length), 0);
      text.copy(out, 8);
      return out;
    };
    const f32 = (begin: number, end: number) => ({ dtype: "F32", shape: [1], data_offsets: [begin, end] });
    const cases: [Uint8Array, RegExp][] = [
      [Buffer.from("this is no tensor file at all"), /not a safetensors file/],
      [craft("{oops", 0), /header is not JSON/],
      [craft([1], 0), /not a JSON object/],
      [craft({ a: f32(0, 3) }, 3), /takes 4/],
      [craft({ a: f32(4, 8) }, 8), /expected at 0/],
      [craft({ a: f32(0, 4), b: f32(2, 6) }, 6), /expected at 4/],
      [craft({ a: f32(0, 4) }, 9), /tensors take 4/],
      [craft({ a: { dtype: "F8", shape: [1], data_offsets: [0, 1] } }, 1), /dtype F8; known/],
      [craft({ a: { dtype: "F32", shape: [-1], data_offsets: [0, 4] } }, 4), /malformed shape/],
    ];
    for (const [bytes, message] of cases) expect(() => decodeSafetensors(bytes, "f")).toThrow(message);
  });

  test("a file is written whole and leaves nothing beside it", async () => {
    const path = join(dir, "model.safetensors");
    const tensors = new Map<string, StoredTensor>([
      ["x", { dtype: "i64", shape: [1], data: new Uint8Array(8) }],
    ]);
    await writeFile(path, "old");
    await writeSafetensors(path, tensors, { step: "3" });
    expect(await readdir(dir)).toEqual(["model.safetensors"]);
    expect((await readSafetensors(path)).metadata).toEqual({ step: "3" });
    await writeFile(path, (await readFile(path)).subarray(0, 20));
    await expect(readSafetensors(path)).rejects.toMatchObject({ code: "ERR_CHECKPOINT" });
    await expect(readSafetensors(join(dir, "absent"))).rejects.toMatchObject({ code: "ERR_CHECKPOINT" });
  });
});
