import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { folder } from "../train/support.js";
import { aegir } from "./support.js";

const common = ["experiment", "learn", "--quick", "--seeds", "1", "--jobs", "1", "--quiet"];

test("experiment learn reports, and adds what is asked for later", async () => {
  await using dir = await folder();
  const small = [...common, "--out", "out", "--ablations", "none", "--curve", "none"];
  const made = await aegir(small, dir.path);
  expect(made.code, made.stderr).toBe(0);
  expect(made.stdout).toContain("TF-IDF, context, τ");
  expect(made.stdout).toContain("net, distilled");
  expect(made.stdout).not.toContain("no context columns");
  for (const file of ["report.md", "report.json", "learning-curve.svg", "confusions-1.svg"])
    expect(existsSync(join(dir.path, "out", file)), file).toBe(true);

  const more = await aegir(
    [...common, "--out", "out", "--ablations", "no context columns", "--curve", "none", "--json"],
    dir.path,
  );
  expect(more.code, more.stderr).toBe(0);
  const report = JSON.parse(more.stdout);
  expect(report).toEqual(JSON.parse(await readFile(join(dir.path, "out/report.json"), "utf8")));
  expect(report.ablations.map(({ name }: { name: string }) => name)).toEqual(["no context columns"]);

  const other = await aegir([...small, "--steps", "3"], dir.path);
  expect(other.code).toBe(1);
  expect(other.stderr).toContain("options.recipe.train.steps is 12 there, 3 here");
  const latent = await aegir([...small, "--latent", "5"], dir.path);
  expect(latent.code).toBe(1);
  expect(latent.stderr).toMatch(/options\.recipe\.specialists\.\w+\.options/);
  const headers = await aegir([...small, "--headers"], dir.path);
  expect(headers.code).toBe(1);
  expect(headers.stderr).toContain("options.recipe.serialise.headers is absent there, true here");
}, 120_000);

test("bad input of experiment learn is one line that says what to do", async () => {
  await using dir = await folder();
  const cases: [args: string[], message: string][] = [
    [["--ablations", "no tables"], "no change is called 'no tables'; they are no context columns"],
    [["--latent", "2.5"], "experiment learn: specialists.ngram.latent"],
    [["--latent", "1001"], "experiment learn: specialists.ngram.latent"],
    [["--steps", "-1"], "experiment learn: train.steps"],
    [["--distill-steps", "0"], "experiment learn: distill.steps"],
    [["--curve", "3"], "curve: expected"],
    [["--curve", "many"], "expected a number"],
    [["--data", "nowhere"], "nowhere: no such folder"],
    [["--split", "train"], "Allowed choices are validation, test"],
  ];
  for (const [args, message] of cases) {
    const { code, stderr } = await aegir([...common, "--out", "bad", ...args], dir.path);
    expect(code, args.join(" ")).toBe(1);
    expect(stderr).toContain(message);
  }
  expect(existsSync(join(dir.path, "bad"))).toBe(false);
});
