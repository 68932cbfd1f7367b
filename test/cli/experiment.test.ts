import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { aegir, start } from "./support.js";

const steps = ["--steps", "2", "--specialist-steps", "2", "--router-steps", "2"];
const common = ["experiment", "parl", "--data", "tables", "--seeds", "1", "--jobs", "1", ...steps];
/** One specialist, of all labels: few columns for a test of the command. */
const parl = [...common, "--no-groups", "--specialist-data", "all=tables"];

describe("experiment parl", () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "aegir-experiment-"));
    const made = await aegir(["data", "generate", "--out", "tables", "--tables", "30"], dir);
    expect(made.code, made.stderr).toBe(0);
  });
  afterAll(() => rm(dir, { recursive: true }));

  test("it is interrupted, continues with the same command and reports", async () => {
    const running = start([...parl, "--out", "out"], dir);
    await running.sees("specialist-all: done");
    running.child.kill("SIGINT");
    const stopped = await running.ended;
    expect(stopped.code, stopped.stderr).toBe(130);
    expect(stopped.stderr).toMatch(/error \[ERR_ABORTED\].*the same command continues in out/);

    const resumed = await aegir([...parl, "--out", "out"], dir);
    expect(resumed.code, resumed.stderr).toBe(0);
    expect(resumed.stderr).toMatch(/parts are done already/);
    expect(resumed.stderr).not.toContain("specialist-all …");
    expect(resumed.stdout).toContain("primary alone, same steps");
    expect(resumed.stdout).toContain("At equal work the learned router is");
    for (const file of ["report.md", "report.json", "frontier-together-work.svg", "curves-router.svg"])
      expect(existsSync(join(dir, "out", file)), file).toBe(true);

    // Nothing is left to train: the report comes from what is stored.
    const again = await aegir([...parl, "--out", "out", "--json", "--quiet"], dir);
    expect(again.stderr).toBe("");
    expect(JSON.parse(again.stdout)).toEqual(
      JSON.parse(await readFile(join(dir, "out/report.json"), "utf8")),
    );

    const other = await aegir([...parl, "--steps", "3", "--out", "out", "--quiet"], dir);
    expect(other.code).toBe(1);
    expect(other.stderr).toContain("options.plan.primary.steps is 2 there, 3 here");
  }, 240_000);

  test("bad input is one line that says what to do", async () => {
    const cases: [args: string[], message: string][] = [
      [["--specialist", "people="], "expected name=run"],
      [["--specialist", "people=nowhere"], "nowhere: no such run folder"],
      [[], "specialists: expected at least one"],
      [["--specialist-data", "all=tables", "--out", "tables"], "already holds files"],
    ];
    for (const [args, message] of cases) {
      const { code, stderr } = await aegir([...common, "--no-groups", "--out", "bad", ...args], dir);
      expect(code, args.join(" ")).toBe(1);
      expect(stderr).toContain(message);
    }
    expect(existsSync(join(dir, "bad"))).toBe(false);
  });
});
