import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AegirError } from "../../lib/errors.js";
import { loadFrom, native } from "../../lib/native/load.js";
import { type AddonCandidate, probeAddon, readRecord, writeRecord } from "../../scripts/build/compile.mjs";
import type { FoundLibtorch } from "../../scripts/build/libtorch.mjs";

let folder: string;

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "aegir-load-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

const libtorch: FoundLibtorch = {
  path: "/t/torch",
  realPath: "/t/torch",
  version: "2.13.0+cpu",
  minor: "2.13",
  cuda: false,
  source: "link",
};

function candidate(name: string, record: Partial<AddonCandidate["record"]> | null): AddonCandidate {
  const file = path.join(folder, `${name}.node`);
  fs.writeFileSync(file, "no binary");
  const full = { torch: "2.13", torchVersion: "2.13.0", napi: 8, built: "", ...record };
  return { path: file, kind: "built", record: record && full };
}

function errorOf(candidates: AddonCandidate[]): AegirError {
  try {
    loadFrom(candidates, libtorch);
  } catch (error) {
    if (error instanceof AegirError) return error;
    throw error;
  }
  throw new Error("loaded");
}

describe("loadFrom", () => {
  it("names both versions and the command, and does not open a binary for another torch minor", () => {
    const error = errorOf([candidate("other", { torch: "2.12" })]);
    expect(error.code).toBe("ERR_LIBTORCH");
    expect(error.message).toMatch(
      /torch 2\.13\.0\+cpu .*other\.node: built for torch 2\.12, .*; run 'npx aegir-swarm setup'$/,
    );
    expect(error.cause).toBeUndefined();
  });

  it("gathers every cause", () => {
    const { message, cause } = errorOf([
      candidate("unrecorded", null),
      candidate("future", { napi: 99 }),
      candidate("broken", {}),
    ]);
    expect(message).toMatch(/unrecorded\.node: no record.*future\.node: needs Node-API 99.*broken\.node: /);
    expect(String(cause)).toContain("broken.node");
  });

  it("says that there is none where there is none", () => {
    expect(errorOf([]).message).toMatch(/none was built and none came.*npx aegir-swarm setup/);
  });
});

describe("native", () => {
  it("loads once, and the addon runs on the libtorch that it was built for", () => {
    const addon = native();
    expect(native()).toBe(addon);
    const { torchBuilt, torchLoaded } = addon.info();
    expect(torchLoaded.split(".").slice(0, 2)).toEqual(torchBuilt.split(".").slice(0, 2));
  });
});

describe("records and probes", () => {
  it("a record written beside a binary is read back", () => {
    const { path: file } = candidate("x", null);
    expect(readRecord(file)).toBeNull();
    writeRecord(file, libtorch);
    expect(readRecord(file)).toMatchObject({ torch: "2.13", torchVersion: "2.13.0+cpu", napi: 8 });
  });

  it("a binary that does not load is a reason, not a crash", () => {
    expect(probeAddon(candidate("broken", {}).path)).toMatch(/broken\.node/);
  });
});
