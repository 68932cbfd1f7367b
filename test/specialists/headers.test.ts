import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Dataset, LabelledColumn, Table } from "../../lib/data/types.js";
import { labelledRefs, ngramBaselines, scoresOf } from "../../lib/specialists/index.js";
import { annotateTable } from "../../lib/train/annotate.js";
import { specialistOf } from "../../lib/train/columnModel.js";
import { loadRun } from "../../lib/train/loadRun.js";
import { type ParlRun, trainParl } from "../../lib/train/parl.js";
import { pretrain } from "../../lib/train/pretrain.js";
import { trainSpecialist } from "../../lib/train/specialistRun.js";
import { trainSupervised } from "../../lib/train/supervised.js";
import { expectError } from "../swarm/support.js";
import { folder } from "../train/support.js";

const HEADERS = { born: ["born", "date of birth"], died: ["died", "date of death"] };

/** Columns of years of birth and of death, the same cells in turn: nothing but their headers tells them apart. */
function years(given = true): Dataset {
  const tables = new Map<string, Table>();
  const columns = (from: number, count: number): LabelledColumn[] =>
    Array.from({ length: count }, (_, i): LabelledColumn => {
      const name = `table ${from + i}`;
      const label = i % 2 === 0 ? "born" : "died";
      const header = given ? HEADERS[label][(from + i) % 3 === 0 ? 1 : 0]! : null;
      const cells = Array.from({ length: 4 }, (_, k) => `${1800 + ((((from + i) >> 1) * 7 + k * 31) % 200)}`);
      tables.set(name, {
        name,
        columns: [
          { header, cells },
          { header: null, cells: ["x", "y"] },
        ],
      });
      return { table: name, column: 0, label };
    });
  const splits = { train: columns(0, 24), validation: columns(100, 12), test: columns(200, 12) };
  return { name: "years", task: "cta", labels: ["born", "died"], tables, splits, warnings: [] };
}

const REFUSED = expectError("ERR_DATA", /^headers .*: no (labelled )?training column of years has a header/);

describe.each(["ngram", "stacked"] as const)("a specialist of kind %s that reads headers", (kind) => {
  it("tells apart by them what cells do not, also as it was stored, and reads columns without one", async () => {
    const dataset = years();
    await using dir = await folder();
    const out = join(dir.path, "run");
    const [blind, seeing] = [
      await trainSpecialist({ kind, dataset, out: join(dir.path, "blind") }),
      await trainSpecialist({ kind, dataset, options: { headers: true }, out }),
    ];
    const test = labelledRefs(dataset, "test");
    expect((await scoresOf(blind, test)).micro).toBeLessThan(0.9);
    expect((await scoresOf(seeing, test)).micro).toBe(1);
    using run = await loadRun(out);
    expect(await run.specialist!.logProbabilities(test)).toEqual(await seeing.logProbabilities(test));
    const headless = labelledRefs(years(false), "test");
    for (const logp of await run.specialist!.logProbabilities(headless)) expect(logp).toBeLessThanOrEqual(0);
    const [annotated] = await annotateTable(run, {
      name: "people",
      columns: [{ header: "date of death", cells: ["1830", "1901"] }],
    });
    expect(annotated!.type).toBe("died");
  });

  it("is refused where no training column has one", async () => {
    await using dir = await folder();
    const run = { kind, dataset: years(false), options: { headers: true }, out: join(dir.path, "run") };
    await expect(trainSpecialist(run)).rejects.toThrow(REFUSED);
  });
});

it("a model that is to read headers is refused where no training table has one", async () => {
  await using dir = await folder();
  const run = { dataset: years(false), serialise: { headers: true }, out: join(dir.path, "run"), steps: 1 };
  await expect(trainSupervised(run)).rejects.toThrow(REFUSED);
  await expect(pretrain(run)).rejects.toThrow(REFUSED);
  expect(existsSync(run.out)).toBe(false);
});

it("a swarm notes a member that learnt otherwise than the tokens that it reads", async () => {
  const dataset = years();
  await using dir = await folder();
  const notes: string[] = [];
  const trained = { dataset, steps: 1, batchRows: 4, validateEvery: 1 };
  for (const headers of [true, false])
    (
      await trainSupervised({ ...trained, serialise: { headers }, out: join(dir.path, `${headers}`) })
    ).model.dispose();
  using seeing = await loadRun(join(dir.path, "true"));
  using blind = await loadRun(join(dir.path, "false"));
  const members = { seeing: specialistOf(seeing, "seeing", ""), blind: specialistOf(blind, "blind", "") };
  const train = async (data: Dataset, ...ids: (keyof typeof members)[]) => {
    const specialists = ids.map((id) => members[id]);
    const run = {
      ...trained,
      dataset: data,
      specialists,
      fuse: "outputs",
      onWarning: (note: string) => notes.push(note),
    };
    (await trainParl(run as ParlRun))[Symbol.dispose]();
    return notes.splice(0).filter((note) => note.includes("headers"));
  };
  expect(await train(dataset, "seeing")).toEqual([]);
  expect(await train(dataset, "seeing", "blind")).toEqual([
    expect.stringMatching(/^specialist 'blind' learnt without column headers and reads .* with them/),
  ]);
  expect(await train(dataset, "blind", "seeing")).toEqual([
    expect.stringMatching(
      /^specialist 'seeing' learnt with column headers and reads .* without them: give --headers/,
    ),
  ]);
  expect(await train(years(false), "seeing")).toEqual([
    expect.stringMatching(/no training column of years has one/),
  ]);
});

it("baselines read headers where they are asked to", async () => {
  const scores = await ngramBaselines(years(), { features: { headers: true }, splits: ["test"] });
  for (const { name, scores: of } of scores) expect(of.test!.micro, name).toBe(1);
});
