import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { packageRoot } from "../../scripts/build/libtorch.mjs";
import { aegir } from "./support.js";

describe("annotate without a run", () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "aegir-cli-annotate-"));
    await copyFile(join(packageRoot, "examples/data/customers.csv"), join(dir, "customers.csv"));
    await copyFile(join(packageRoot, "examples/data/orders.csv"), join(dir, "orders"));
    await mkdir(join(dir, "folder"));
    const cells = Array.from({ length: 8 }, (_, i) => `${"~^{}|<>#"[i]}${"%&§$"[i % 4]}}{~${i}^^`);
    await writeFile(
      join(dir, "odd.csv"),
      `zzz;mail\n${cells.map((cell, i) => `${cell};a${i}@mail.example`).join("\n")}\n`,
    );
  });
  afterAll(() => rm(dir, { recursive: true }));

  test("uses the default model, for files of any name", async () => {
    const one = await aegir(["annotate", "customers.csv", "--json", "--quiet"], dir);
    expect(one.code, one.stderr).toBe(0);
    const columns = JSON.parse(one.stdout);
    expect(columns.map((column: { header: string }) => column.header)).toContain("e-mail");
    expect(columns.find((column: { header: string }) => column.header === "e-mail").type).toBe("email");
    const two = await aegir(["annotate", "orders", "customers.csv", "--csv", "--quiet"], dir);
    expect(two.code, two.stderr).toBe(0);
    expect(two.stdout).toMatch(/^customers.csv,1,e-mail,email,/m);
    expect(two.stdout).toMatch(/^orders,\d,currency,currency,/m);
  });

  test("shows what it leaves open", async () => {
    const { code, stdout, stderr } = await aegir(["annotate", "odd.csv"], dir);
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/zzz +unknown /);
    expect(stdout).toMatch(/mail +email /);
    expect(stderr).toMatch(/1 of 2 columns have no type.*--list-types/);
    const json = await aegir(["annotate", "odd.csv", "--json", "--quiet"], dir);
    expect(JSON.parse(json.stdout)[0].type).toBeNull();
    const forced = await aegir(["annotate", "odd.csv", "--abstain", "0", "--json", "--quiet"], dir);
    expect(JSON.parse(forced.stdout)[0].type).toEqual(expect.any(String));
  });

  test("warns of bytes that are no UTF-8, quiet or not, and reads them as it is told", async () => {
    const towns = ["Mühlhausen", "Köln", "Düsseldorf", "Münster"];
    await writeFile(join(dir, "latin1.csv"), Buffer.from(`ort\n${towns.join("\n")}\n`, "latin1"));
    const plain = await aegir(["annotate", "latin1.csv", "--quiet"], dir);
    expect(plain.code, plain.stderr).toBe(0);
    expect(plain.stderr).toMatch(
      /^latin1\.csv: 4 characters not in UTF-8.*annotate --encoding windows-1252/m,
    );
    const told = await aegir(
      ["annotate", "latin1.csv", "--quiet", "--header", "yes", "--encoding", "windows-1252"],
      dir,
    );
    expect(told).toMatchObject({ code: 0, stderr: "" });
    const unknown = await aegir(["annotate", "latin1.csv", "--encoding", "latin1"], dir);
    expect(unknown.code).toBe(1);
    expect(unknown.stderr).toContain("Allowed choices are utf-8, utf-16le, utf-16be, windows-1252");
  });

  test("lists the types that it knows", async () => {
    const json = await aegir(["annotate", "--list-types", "--json"], dir);
    expect(json.code, json.stderr).toBe(0);
    const types: string[] = JSON.parse(json.stdout);
    expect(types.length).toBeGreaterThanOrEqual(60);
    expect(types).toEqual(expect.arrayContaining(["email", "iban", "currency", "latitude"]));
    expect(types).not.toContain("other");
    const { stdout } = await aegir(["annotate", "--list-types"], dir);
    expect(stdout).toMatch(/^measures: .*\barea\b/m);
    for (const type of types) expect(stdout).toContain(type);
  });

  test.each([
    [[], "ERR_ARGUMENT", "no CSV file given"],
    [["folder"], "ERR_ARGUMENT", "no CSV file given; folder is a folder and was taken for a run"],
    [["folder", "customers.csv"], "ERR_CHECKPOINT", "folder is not a run folder"],
    [["rums/cta", "customers.csv"], "ERR_CHECKPOINT", "rums/cta: no such run folder"],
    [["nothing.csv"], "ERR_DATA", "nothing.csv: no such file"],
    [["customers.csv", "--abstain", "2"], "ERR_CONFIG", "abstain: expected a confidence in [0, 1], got 2"],
  ])("annotate %j is refused in one line", async (args, code, message) => {
    const result = await aegir(["annotate", ...args, "--json"], dir);
    expect(result.code).toBe(1);
    const { error } = JSON.parse(result.stdout);
    expect(error.code).toBe(code);
    expect(error.message).toContain(message);
  });
});
