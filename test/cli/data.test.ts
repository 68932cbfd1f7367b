import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDataset } from "../../lib/data/open.js";
import { aegir } from "./support.js";

describe("data generate", () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "aegir-cli-data-"));
  });
  afterAll(() => rm(dir, { recursive: true }));

  test("writes a data set that the readers open, and reports its counts", async () => {
    const options = [
      "--tables",
      "20",
      "--seed",
      "4",
      "--domains",
      "people,commerce",
      "--locales",
      "en",
      "--noise",
      "0",
    ];
    const result = await aegir(["data", "generate", "--out", "set", ...options, "--json"], dir);
    expect(result.code, result.stderr).toBe(0);
    const dataset = await openDataset(join(dir, "set"));
    const { train, validation, test } = dataset.splits;
    expect(JSON.parse(result.stdout)).toEqual({
      out: "set",
      tables: 20,
      labels: 22,
      columns: { train: train.length, validation: validation.length, test: test.length },
    });
    expect(dataset.tables.size).toBe(20);
  });

  test("writes nothing where an option is wrong or the folder is taken", async () => {
    const wrong = await aegir(["data", "generate", "--out", "none", "--domains", "sport"], dir);
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toMatch(/error \[ERR_CONFIG\]: generateDataset\.domains/);
    const taken = await aegir(["data", "generate", "--out", "set", "--tables", "5"], dir);
    expect(taken.code).toBe(1);
    expect(taken.stderr).toMatch(/not empty/);
    expect(await readdir(dir)).toEqual(["set"]);
  });
});
