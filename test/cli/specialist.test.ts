import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { folderSource, openDataSource } from "../../lib/train/dataSource.js";
import { loadSpecialist, trainSpecialist } from "../../lib/train/specialistRun.js";
import { aegir } from "./support.js";

/**
 * Two types that share no character, in training columns that mirror each other (a as 1, b as 2). `z` and `9` occur in one
 * column each, every other character in four: with --max-n 1 the features are the characters, and can be counted.
 */
const TABLES: Record<string, string> = {
  t1: "ab,12\nba,21\n",
  t2: "aab,112\nb,2\n",
  t3: "abz,129\nbab,212\n",
  t4: "bb a,22 1\na,1\n",
  v1: "ba,21\nabb,1 2\n",
  e1: "a b,221\nbba,12\n",
  e2: "b,2\naa,11\n",
};
const SPLITS: Record<string, string> = { t: "train", v: "validation", e: "test" };

describe("train specialist", () => {
  let dir: string;
  const specialist = (...args: string[]) =>
    aegir(["train", "specialist", "--data", "data", "--json", "--quiet", ...args], dir);
  const outcome = async (...args: string[]) => {
    const { code, stdout, stderr } = await specialist(...args);
    expect(code, stderr).toBe(0);
    expect(stderr).toBe("");
    return JSON.parse(stdout);
  };

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "aegir-specialist-"));
    await mkdir(join(dir, "data"));
    const labels = ["table_name,column_index,label,split,header"];
    for (const [name, text] of Object.entries(TABLES)) {
      await writeFile(join(dir, "data", `${name}.csv`), text);
      for (const [column, label] of ["word", "digits"].entries())
        labels.push(`${name}.csv,${column},${label},${SPLITS[name[0]!]},no`);
    }
    await writeFile(join(dir, "data/labels.csv"), `${labels.join("\n")}\n`);
  });
  afterAll(() => rm(dir, { recursive: true }));

  test("n-grams: what it prints can be counted, and its options reach the training", async () => {
    const characters = ["--max-n", "1", "--no-context"];
    // a, b, 1 and 2; z and 9 are in one column each. Any tau is right on validation: the least of equals.
    expect(await outcome("--out", "four", ...characters)).toEqual({
      out: "four",
      kind: "ngram",
      labels: 2,
      features: 4,
      tau: 0,
      macroF1: 1,
      cpuSeconds: expect.any(Number),
    });
    const options = [
      ...characters,
      "--min-df",
      "1",
      "--tau",
      ".5",
      "--c",
      "3",
      "--folds",
      "2",
      "--seed",
      "5",
    ];
    const six = await outcome("--out", "six", ...options);
    expect(six).toMatchObject({ features: 6, tau: 0.5 });
    // Nothing was judged: its tau was given.
    expect(six).not.toHaveProperty("macroF1");
    // With the other column as a block of its own there are as many features again.
    expect(await outcome("--out", "eight", "--max-n", "1")).toMatchObject({ features: 8 });

    const given = { maxN: 1, context: false, minDf: 1, tau: 0.5, c: 3, folds: 2, seed: 5 };
    const config = JSON.parse(await readFile(join(dir, "six/config.json"), "utf8"));
    expect(config).toMatchObject({ kind: "specialist", task: "cta", options: given });
    expect(config.model).toMatchObject({ kind: "ngram", labels: ["digits", "word"] });
    const dataset = await openDataSource(folderSource(join(dir, "data")));
    const same = await trainSpecialist({ kind: "ngram", dataset, options: given });
    const saved = await loadSpecialist(join(dir, "six"));
    expect(saved.weightsHash()).toBe(same.weightsHash());
    expect(saved.learned.held).toEqual(same.learned.held);
    const other = await trainSpecialist({ kind: "ngram", dataset, options: { ...given, c: 30 } });
    expect(saved.weightsHash()).not.toBe(other.weightsHash());
  }, 60_000);

  test.each(["ngram", "format"])(
    "a run of kind %s evaluates, annotates and serves a swarm",
    async (kind) => {
      expect(await outcome("--kind", kind, "--out", kind)).toMatchObject({ kind, labels: 2 });
      const evaluated = await aegir(
        ["evaluate", kind, "--data", "data", "--split", "test", "--json", "--quiet"],
        dir,
      );
      expect(evaluated.code, evaluated.stderr).toBe(0);
      expect(JSON.parse(evaluated.stdout)).toMatchObject({ n: 4, macroF1: 1, microF1: 1 });

      await writeFile(join(dir, "new.csv"), "12,ab\n21,ba\n");
      const annotated = await aegir(
        ["annotate", kind, "new.csv", "--header", "no", "--json", "--quiet"],
        dir,
      );
      const types = JSON.parse(annotated.stdout).map(({ type }: { type: string }) => type);
      expect(types).toEqual(["digits", "word"]);

      const sizes = ["--steps", "2", "--batch-rows", "4", "--layout", '["w1"]', "--d-model", "32"];
      const swarm = await aegir(
        [
          ...["train", "parl", "--out", `swarm-${kind}`, "--data", "data", "--specialist", `own=${kind}`],
          ...["--fuse", "outputs", "--json", "--quiet", ...sizes],
        ],
        dir,
      );
      expect(swarm.code, swarm.stderr).toBe(0);
      expect(JSON.parse(swarm.stdout)).toMatchObject({ steps: 2 });
      expect(existsSync(join(dir, `swarm-${kind}/specialists/own/best/model.safetensors`))).toBe(true);
    },
    60_000,
  );

  test("a column without any known character has the probability of the prior", async () => {
    // Types mirror each other, so neither is likelier: 1/2.
    expect((await specialist("--max-n", "1", "--no-context", "--out", "even")).code).toBe(0);
    await writeFile(join(dir, "unknown.csv"), "?,!\n!,?\n");
    const { stdout } = await aegir(["annotate", "even", "unknown.csv", "--header", "no", "--json"], dir);
    for (const { confidence } of JSON.parse(stdout)) expect(confidence).toBeCloseTo(0.5, 4);
  }, 60_000);

  test("bad input is one error, and nothing is written", async () => {
    const cases: [args: string[], code: string, message: string][] = [
      [["--kind", "words"], "ERR_ARGUMENT", "--kind"],
      [["--kind", "format", "--buckets", "4"], "ERR_CONFIG", "buckets"],
      [["--buckets", "1000"], "ERR_CONFIG", "expected a power of two"],
      [["--c", "0"], "ERR_CONFIG", "c:"],
      [["--data", "nowhere"], "ERR_DATA", "nowhere"],
    ];
    for (const [args, code, message] of cases) {
      const { code: exit, stdout, stderr } = await specialist("--out", "bad", ...args);
      expect(exit, args.join(" ")).toBe(1);
      expect(JSON.parse(stdout).error.code, stderr).toBe(code);
      expect(stderr).toContain(message);
      expect(existsSync(join(dir, "bad")), args.join(" ")).toBe(false);
    }
    await mkdir(join(dir, "full"));
    await writeFile(join(dir, "full/notes.txt"), "mine");
    const full = await specialist("--out", "full");
    expect(full.code).toBe(1);
    expect(full.stderr).toContain("already holds");
    expect(await readFile(join(dir, "full/notes.txt"), "utf8")).toBe("mine");
  }, 60_000);
});
