import { isUtf8 } from "node:buffer";
import { AegirError } from "../errors.js";
import { Random } from "./random.js";

const QUOTE = 0x22;
const SPACE = 0x20;
const RETURN = 0x0d;

/** A quoted field that runs longer than this has an unbalanced quote. */
const LONGEST_QUOTED = 256 * 1024;
const LONGEST_RECORD = 4 * 1024 * 1024;
/** With this many unbalanced quotes, quotes are no quotes in this file. */
const MOST_UNBALANCED = 100;

/**
 * Cuts a byte stream into CSV records without parsing their fields: line ends inside quoted fields do not count. A quote opens only where
 * a field starts. Where a quote is never closed, its line is taken as it stands and cutting goes on behind it.
 */
export class RecordSplitter {
  /** Lines with a quote that is never closed, or not within `LONGEST_QUOTED`. */
  unbalanced = 0;
  readonly #delimiter: number;
  readonly #newline: number;
  readonly #onRecord: (bytes: Uint8Array) => void;
  #rest: Uint8Array = new Uint8Array(0);
  #scanned = 0;
  #quoted = false;
  #fieldStart = true;
  #justClosed = false;
  /** Off while a line with an unbalanced quote is taken as it stands. */
  #quoting = true;

  /** @param onRecord gets each non-empty record, without its line end; the bytes are only valid during the call */
  constructor(delimiter: string, newline: "\n" | "\r", onRecord: (bytes: Uint8Array) => void) {
    this.#delimiter = delimiter.charCodeAt(0);
    this.#newline = newline.charCodeAt(0);
    this.#onRecord = onRecord;
  }

  /** @throws AegirError ERR_DATA where a record is longer than 4 MB */
  push(chunk: Uint8Array): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    this.#scan();
    while (this.#quoted && this.#rest.length > LONGEST_QUOTED) this.#rescanUnquoted();
    if (this.#rest.length > LONGEST_RECORD) {
      throw new AegirError(
        "ERR_DATA",
        "a record is longer than 4 MB: not a table, or its line ends are missing",
      );
    }
  }

  end(): void {
    while (this.#quoted) this.#rescanUnquoted();
    if (this.#rest.length > 0) this.#emit(this.#rest);
    this.#rest = new Uint8Array(0);
  }

  /** Takes the first line of the open record as it stands, and goes on behind it. */
  #rescanUnquoted(): void {
    this.unbalanced++;
    this.#quoted = false;
    this.#fieldStart = true;
    this.#justClosed = false;
    this.#quoting = false;
    this.#scanned = 0;
    this.#scan();
  }

  #scan(): void {
    const bytes = this.#rest;
    const delimiter = this.#delimiter;
    const newline = this.#newline;
    let [quoted, fieldStart, justClosed] = [this.#quoted, this.#fieldStart, this.#justClosed];
    let start = 0;
    for (let i = this.#scanned; i < bytes.length; i++) {
      const byte = bytes[i]!;
      if (quoted) {
        if (byte === QUOTE) {
          quoted = false;
          justClosed = true;
        }
      } else if (byte === newline) {
        this.#emit(bytes.subarray(start, i));
        start = i + 1;
        this.#quoting = this.unbalanced < MOST_UNBALANCED;
        fieldStart = true;
        justClosed = false;
      } else if (byte === QUOTE && this.#quoting && (fieldStart || justClosed)) {
        // A quote right behind the closing one is the second half of an escaped quote: the field goes on.
        quoted = true;
        fieldStart = false;
      } else {
        fieldStart = byte === delimiter || (fieldStart && byte === SPACE);
        justClosed = false;
      }
    }
    [this.#quoted, this.#fieldStart, this.#justClosed] = [quoted, fieldStart, justClosed];
    this.#rest = start === 0 ? bytes : bytes.subarray(start);
    this.#scanned = this.#rest.length;
  }

  #emit(record: Uint8Array): void {
    const end = record[record.length - 1] === RETURN ? record.length - 1 : record.length;
    if (end > 0) this.#onRecord(record.subarray(0, end));
  }
}

/** Bytes of kept records, above which fewer are kept than asked for. */
const KEPT_BYTES = 16 * 1024 * 1024;

/** Keeps the first records of a stream and a uniform sample of the others (reservoir sampling, seeded). */
export class RecordSample {
  /** Records seen. */
  count = 0;
  /** Characters that were no UTF-8 and became U+FFFD, over all records. */
  replaced = 0;
  readonly #first: number;
  readonly #reservoirSize: number;
  readonly #random: Random;
  readonly #head: Uint8Array[] = [];
  readonly #reservoir: { index: number; bytes: Uint8Array }[] = [];
  #headBytes = 0;

  constructor(first: number, reservoir: number, seed: number) {
    this.#first = first;
    this.#reservoirSize = reservoir;
    this.#random = new Random(seed, "csv");
  }

  add(record: Uint8Array): void {
    const index = this.count++;
    if (!isUtf8(record)) this.replaced += Buffer.from(record).toString("utf8").split("\ufffd").length - 1;
    const filling = this.#head.length === index;
    if (filling && index < this.#first && this.#headBytes < KEPT_BYTES) {
      this.#head.push(Buffer.from(record));
      this.#headBytes += record.length;
      return;
    }
    const average = this.#headBytes / Math.max(1, this.#head.length);
    const capacity = Math.min(this.#reservoirSize, Math.ceil(KEPT_BYTES / Math.max(1, average)));
    if (this.#reservoir.length < capacity) {
      this.#reservoir.push({ index, bytes: Buffer.from(record) });
      return;
    }
    const slot = capacity === 0 ? 0 : this.#random.int(index - this.#head.length + 1);
    if (slot < capacity) this.#reservoir[slot] = { index, bytes: Buffer.from(record) };
  }

  /** The kept records in the order of the file. */
  records(): Uint8Array[] {
    const sampled = [...this.#reservoir].sort((a, b) => a.index - b.index).map(({ bytes }) => bytes);
    return [...this.#head, ...sampled];
  }
}
