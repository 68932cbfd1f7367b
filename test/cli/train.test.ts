import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { aegir, start } from "./support.js";

const tiny = ["--tables", "60", "--layout", '["w1",["w1"],"w1"]', "--d-model", "32", "--head-size", "16"];
const short = ["--max-tokens", "32", "--max-context", "1", "--batch-rows", "16"];

describe("train, evaluate, annotate", () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "aegir-cli-"));
  });
  afterAll(() => rm(dir, { recursive: true }));

  test("a specialist that is interrupted says that nothing is kept, and leaves nothing", async () => {
    const running = start(["train", "specialist", "--tables", "600", "--out", "cut"], dir);
    await running.sees("ngram fits: 1/5");
    running.child.kill("SIGINT");
    const stopped = await running.ended;
    expect(stopped.code, stopped.stderr).toBe(130);
    expect(stopped.stderr).toContain("Interrupted: leaving, and nothing is kept");
    expect(stopped.stderr).toContain("error [ERR_ABORTED]");
    expect(existsSync(join(dir, "cut"))).toBe(false);
  });

  test("a run is trained, interrupted, resumed, evaluated and used", async () => {
    const train = ["train", "supervised", "--out", "run"];
    const options = [...tiny, ...short, "--steps", "400", "--save-every", "400", "--validate-every", "400"];
    const running = start([...train, ...options], dir);
    await running.sees("supervised: ");
    running.child.kill("SIGINT");
    const stopped = await running.ended;
    expect(stopped.code, stopped.stderr).toBe(130);
    expect(stopped.stderr).toContain("Interrupted: saving and leaving");
    expect(stopped.stderr).toContain("error [ERR_ABORTED]");
    expect(existsSync(join(dir, "run/checkpoint/state.json"))).toBe(true);
    const { state } = JSON.parse(await readFile(join(dir, "run/checkpoint/state.json"), "utf8"));
    expect(state.step).toBeLessThan(400);

    const resumed = await aegir([...train, "--resume", "--json", "--quiet"], dir);
    expect(resumed.code, resumed.stderr).toBe(0);
    expect(resumed.stderr).toBe("");
    expect(JSON.parse(resumed.stdout)).toMatchObject({ out: "run", steps: 400, stoppedEarly: false });
    expect(await readdir(join(dir, "run"))).toEqual(
      expect.arrayContaining([
        "best",
        "checkpoint",
        "config.json",
        "curves.svg",
        "metrics.jsonl",
        "summary.md",
      ]),
    );

    const evaluated = await aegir(["evaluate", "run", "--split", "validation", "--json", "--quiet"], dir);
    const report = JSON.parse(evaluated.stdout);
    expect(Object.keys(report)).toEqual(
      expect.arrayContaining(["task", "split", "n", "microF1", "macroF1", "perClass", "columnsPerSecond"]),
    );
    expect(report).toMatchObject({ task: "cta", split: "validation" });
    expect(report.macroF1).toBeCloseTo(JSON.parse(resumed.stdout).calibration.macroF1, 10);

    const calibrated = await aegir(["evaluate", "run", "--abstain-coverage", ".5", "--json", "--quiet"], dir);
    expect(calibrated.code, calibrated.stderr).toBe(0);
    const { abstention } = JSON.parse(calibrated.stdout);
    expect(abstention).toMatchObject({ coverage: expect.any(Number), selectiveAccuracy: expect.any(Number) });
    const stored = JSON.parse(await readFile(join(dir, "run", "best", "abstention.json"), "utf8"));
    expect(stored.threshold).toBe(abstention.threshold);
    const said = await aegir(["evaluate", "run", "--quiet"], dir);
    expect(said.stdout).toContain(`coverage ${abstention.coverage.toFixed(3)}, selective accuracy `);

    const csv = "city;price\nParis;12.50 €\nLyon;3.00 €\nNice;8.10 €\n";
    await writeFile(join(dir, "shops.csv"), csv);
    const annotated = await aegir(["annotate", "run", "shops.csv", "--json", "--quiet"], dir);
    expect(annotated.code, annotated.stderr).toBe(0);
    const columns = JSON.parse(annotated.stdout);
    expect(columns.map((c: { header: string }) => c.header)).toEqual(["city", "price"]);
    const strict = await aegir(["annotate", "run", "shops.csv", "--abstain", "1", "--json", "--quiet"], dir);
    expect(JSON.parse(strict.stdout).map((c: { type: string | null }) => c.type)).toEqual([null, null]);
    const table = await aegir(
      ["annotate", "run", "shops.csv", "--csv", "--out", "types.csv", "--quiet"],
      dir,
    );
    expect(table).toMatchObject({ code: 0, stdout: "" });
    const lines = (await readFile(join(dir, "types.csv"), "utf8")).trim().split("\n");
    expect(lines).toHaveLength(3);
    expect(lines[1]).toContain(columns[0].type);
  }, 120_000);

  test("a swarm learns on sites that its primary and the specialist's stand-in held out, and goes on", async () => {
    const data = ["--tables", "60"];
    const small = [...tiny, ...short];
    const quiet = ["--quiet", "--json"];
    const linear = ["train", "specialist", ...data, "--kind", "ngram", "--folds", "0", ...quiet];
    const holdOut = ["--hold-out", "0.4"];
    const parl = [
      ...["train", "parl", ...small, "--fuse", "outputs", "--steps", "2", "--out", "held", ...quiet],
      ...["--specialist", "ngram=whole", "--stand-in", "ngram=part", "--init", "first"],
      ...["--learn-from", "held-out"],
    ];
    for (const args of [
      [...linear, "--out", "whole"],
      [...linear, ...holdOut, "--out", "part"],
      ["train", "supervised", ...small, "--steps", "2", ...holdOut, "--out", "first", ...quiet],
      [...parl, ...holdOut],
      ["train", "parl", "--resume", "--out", "held", ...quiet],
    ]) {
      const { code, stderr } = await aegir(args, dir);
      expect(code, `${args.join(" ")}: ${stderr}`).toBe(0);
    }
    for (const [task, out, judges] of [
      ["supervised", "first", "the held-out sites"],
      ["parl", "held", "validation"],
    ] as const) {
      const again = await aegir(["train", task, "--resume", "--out", out, "--quiet"], dir);
      expect(again.stdout).toContain(`calibrated on ${judges}: `);
    }
    const { options, standIns } = JSON.parse(await readFile(join(dir, "held/config.json"), "utf8"));
    expect(options).toMatchObject({ learnFrom: "held-out", holdOut: 0.4 });
    expect(standIns).toEqual([{ id: "ngram", run: join(dir, "part") }]);
    const { code, stdout } = await aegir([...parl, "--hold-out", "0.3"], dir);
    expect(code).toBe(1);
    expect(JSON.parse(stdout).error.message).toContain("--hold-out 0.3");
  }, 120_000);

  test.each([
    [["annotate", "none", "x.csv"], "ERR_CHECKPOINT", "none: no such run folder"],
    [["evaluate", "."], "ERR_CHECKPOINT", "not a run folder"],
    [["train", "supervised", "--out", "new", "--steps", "many"], "ERR_ARGUMENT", "expected a number"],
    [["train", "supervised", "--out", "new", "--step", "3"], "ERR_ARGUMENT", "--steps"],
    [["train", "supervised", "--out", "new", "--lr", "-1"], "ERR_CONFIG", "trainSupervised.lr"],
    [
      ["train", "supervised", "--out", "new", "--layout", '["m2"]', "--d-model", "32"],
      "ERR_CONFIG",
      "supported",
    ],
    [["train", "supervised", "--out", "new", "--resume"], "ERR_CHECKPOINT", "no such run folder"],
    [["train", "parl", "--out", "new"], "ERR_CONFIG", "specialists"],
    [["train", "supervised", "--task", "cpa", "--out", "new"], "ERR_CONFIG", "give --data"],
    [
      ["train", "specialist", "--kind", "stacked", "--other-task", "cpa", "--out", "new"],
      "ERR_CONFIG",
      "--other-task cpa: expected another task",
    ],
    [
      ["train", "specialist", "--kind", "stacked", "--other-task", "cta", "--out", "new"],
      "ERR_CONFIG",
      "than --task cta",
    ],
    [["demo", "--data", "nowhere", "--out", "new", "--quiet"], "ERR_DATA", "nowhere"],
  ])("%j fails with one clear error and writes nothing", async (args, code, message) => {
    const { code: exit, stdout, stderr } = await aegir([...args, "--json"], dir);
    expect(exit).toBe(1);
    const { error } = JSON.parse(stdout);
    expect(error.code).toBe(code);
    expect(error.message).toContain(message);
    expect(stderr).toContain(message);
    expect(existsSync(join(dir, "new"))).toBe(false);
  });

  test("options of no meaning and output that cannot be written are one line, without a stack", async () => {
    const train = ["train", "supervised", ...tiny, "--steps", "1", "--out"];
    await writeFile(join(dir, "plain"), "");
    for (const [args, message] of [
      [[...train, "new", "--ngrams", "0"], "ERR_CONFIG]: model options.ngrams.buckets"],
      [[...train, "new", "--ngram-shapes"], "ERR_CONFIG]: --ngram-shapes: was given without --ngrams"],
      [[...train, "new", "--shared-columns"], "ERR_CONFIG]: --shared-columns: was given without --columns"],
      [[...train, "new", "--column-heads", "2"], "ERR_CONFIG]: --column-heads: was given without --columns"],
      [
        ["train", "distill", "--out", "new", "--teacher", "run", "--unlabelled-task", "cpa"],
        "ERR_CONFIG]: --unlabelled-task: was given without --unlabelled",
      ],
      [
        ["train", "distill", "--out", "run", "--teacher", "run"],
        "ERR_CONFIG]: run already holds a run: choose another folder",
      ],
      [["train", "parl", "--out", "new", "--specialist", "a="], "ERR_ARGUMENT]: option '--specialist"],
      [
        ["train", "supervised", "--out", "--quiet"],
        "ERR_ARGUMENT]: option '--out <run>' argument '--quiet' is invalid. it looks like an option; give --out a value",
      ],
      [
        ["train", "supervised", "--out", "--steps=1"],
        "ERR_ARGUMENT]: option '--out <run>' argument '--steps=1' is invalid. it looks like an option; give --out a value",
      ],
      [
        ["train", "distill", "--out", "new", "--teacher", "--quiet"],
        "ERR_ARGUMENT]: option '--teacher <run...>' argument '--quiet' is invalid. it looks like an option; give --teacher a value",
      ],
      [[...train, "new", "--head-size", "0"], "ERR_CONFIG]: model options.headSize"],
      [[...train, "new", "--data", "."], "ERR_ARGUMENT]: option '--tables <n>' cannot be used"],
      [
        ["train", "parl", "--out", "new", "--prices", "a=1,b=1,a=5"],
        "ERR_ARGUMENT]: option '--prices <name=n,…|time>' argument 'a=1,b=1,a=5' is invalid. a stands there twice",
      ],
      [
        ["train", "parl", "--out", "new", "--prices", "tim"],
        "ERR_ARGUMENT]: option '--prices <name=n,…|time>' argument 'tim' is invalid. expected name=number,… or time",
      ],
      [[...train, "plain"], "ERR_DATA]: plain: cannot be written"],
      [["evaluate", "run", "--limit", "0"], "ERR_CONFIG]: limit: expected a whole number from 1, got 0"],
      [["annotate", "run", "shops.csv", "--out", "none/x"], "ERR_DATA]: none/x: cannot be written"],
    ] as [string[], string][]) {
      const { code, stderr } = await aegir(args, dir);
      expect(code, stderr).toBe(1);
      expect(stderr.trim()).toContain(`error [${message}`);
      expect(stderr).not.toMatch(/^ +at /m);
    }
    expect(existsSync(join(dir, "new"))).toBe(false);
  });

  test("files that are no tables are refused by name", async () => {
    if (!existsSync(join(dir, "run"))) throw new Error("needs the run of the first test");
    await writeFile(join(dir, "empty.csv"), "");
    await writeFile(
      join(dir, "picture.csv"),
      Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 0, 0, 1, 0, 0xff, 0xfe, 0]),
    );
    await writeFile(
      join(dir, "wide.csv"),
      `${Array(5000).fill("a").join(",")}\n${Array(5000).fill("1").join(",")}\n`,
    );
    for (const name of ["empty.csv", "picture.csv", "wide.csv", "missing.csv"]) {
      const { code, stdout, stderr } = await aegir(
        ["annotate", "run", name, "--out", "never.json", "--quiet"],
        dir,
      );
      expect(code, name).toBe(1);
      expect(stdout).toBe("");
      expect(stderr).toMatch(new RegExp(`^error \\[ERR_DATA\\]: .*${name}`));
      expect(existsSync(join(dir, "never.json"))).toBe(false);
    }
  });

  test("of several files the good ones are written, the others named", async () => {
    if (!existsSync(join(dir, "run"))) throw new Error("needs the run of the first test");
    for (const name of ["one", "two"]) {
      await mkdir(join(dir, name));
      await writeFile(join(dir, name, "t.csv"), "city;price\nParis;12.50\nLyon;3.00\n");
    }
    await writeFile(join(dir, "only.csv"), "Kennung;Ort\n");
    const files = ["one/t.csv", "only.csv", "none.csv", "two/t.csv"];
    const { code, stdout, stderr } = await aegir(["annotate", "run", ...files, "--json", "--quiet"], dir);
    expect(code).toBe(1);
    expect(JSON.parse(stdout).map(({ table }: { table: string }) => table)).toEqual([
      "one/t.csv",
      "one/t.csv",
      "two/t.csv",
      "two/t.csv",
    ]);
    const lines = stderr.trim().split("\n");
    expect(lines).toHaveLength(2);
    expect(lines[0]).toMatch(/^error \[ERR_DATA\]: only.csv: a header and no rows/);
    expect(lines[1]).toMatch(/^error \[ERR_DATA\]: none.csv: no such file/);

    const all = await aegir(["annotate", "run", "only.csv", "none.csv", "--out", "never.json"], dir);
    expect(all.code).toBe(1);
    expect(all.stderr).toMatch(/ERR_DATA\]: none of the files.*\n.*only.csv.*\n.*none.csv/);
    expect(existsSync(join(dir, "never.json"))).toBe(false);
    const asData = await aegir(["annotate", "run", "only.csv", "--header", "no", "--json", "--quiet"], dir);
    expect(asData.code, asData.stderr).toBe(0);
    expect(JSON.parse(asData.stdout)).toHaveLength(2);
  });

  test.each([
    "train",
    "train supervised",
    "train distill",
    "train specialist",
    "train pretrain",
    "train parl",
    "evaluate",
    "annotate",
    "demo",
  ])("%s has help", async (command) => {
    const { code, stdout } = await aegir([...command.split(" "), "--help"], dir);
    expect(code).toBe(0);
    expect(stdout).toContain(`Usage: aegir-swarm ${command}`);
  });
});
