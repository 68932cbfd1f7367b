import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Diagnosis, diagnose } from "../../lib/cli/doctor.js";
import { builtAddon, prebuiltDirectory } from "../../scripts/build/compile.mjs";
import { packageRoot } from "../../scripts/build/libtorch.mjs";

let copy: string;

/** A second package root, with the binaries of this one, whose libtorch a test may change. */
beforeAll(() => {
  copy = fs.mkdtempSync(path.join(os.tmpdir(), "aegir-doctor-"));
  for (const part of ["dist", "scripts", "package.json"]) {
    fs.cpSync(path.join(packageRoot, part), path.join(copy, part), { recursive: true });
  }
  fs.symlinkSync(path.join(packageRoot, "node_modules"), path.join(copy, "node_modules"));
  for (const directory of [path.dirname(builtAddon), prebuiltDirectory]) {
    if (!fs.existsSync(directory)) continue;
    for (const name of fs.readdirSync(directory).filter((file) => /\.(node|json)$/.test(file))) {
      const at = path.join(copy, path.relative(packageRoot, directory), name);
      fs.mkdirSync(path.dirname(at), { recursive: true });
      fs.copyFileSync(path.join(directory, name), at);
    }
  }
});
afterAll(() => fs.rmSync(copy, { recursive: true }));

function link(target: string | null): void {
  fs.rmSync(path.join(copy, "libtorch"), { force: true });
  if (target) fs.symlinkSync(target, path.join(copy, "libtorch"));
}

/** An environment in which no libtorch is found. */
const nowhere = { PATH: "", HOME: "/nowhere" };

function aegir(args: string[], env: Record<string, string> = nowhere) {
  const run = spawnSync(process.execPath, [path.join(copy, "dist/cli/main.js"), ...args], {
    env,
    encoding: "utf8",
  });
  return { ...run, json: <T>() => JSON.parse(run.stdout) as T };
}

describe("doctor", () => {
  it("says what is in use", () => {
    const diagnosis = diagnose();
    expect(diagnosis).toMatchObject({ ok: true, problems: [], package: { root: packageRoot } });
    expect(diagnosis.libtorch).toMatchObject({ path: expect.stringMatching(/./), cuda: expect.any(Boolean) });
    expect(diagnosis.addon?.path).toMatch(/\.node$/);
    expect(diagnosis.libtorch?.version.startsWith(diagnosis.addon!.torchLoaded)).toBe(true);
    expect(diagnosis.threads).toBeGreaterThan(0);
    expect(["sse2", "avx2", "avx512"]).toContain(diagnosis.simd);
    expect(diagnosis.cuda.available || diagnosis.cuda.reason.length > 0).toBe(true);
  });

  it("prints the same as JSON and as text, from a copy of the package", () => {
    link(fs.realpathSync(path.join(packageRoot, "libtorch")));
    const run = aegir(["doctor", "--json"]);
    expect(run.status).toBe(0);
    expect(run.json<Diagnosis>()).toMatchObject({ ok: true, package: { root: copy }, simd: diagnose().simd });
    const text = aegir(["doctor"]);
    expect(text.status).toBe(0);
    expect(text.stdout).toMatch(/^libtorch +2\.\d+.*\naddon +.*\.node/m);
  });

  it("names an instruction set that there is not", () => {
    link(fs.realpathSync(path.join(packageRoot, "libtorch")));
    const run = aegir(["doctor", "--json"], { ...nowhere, AEGIR_SIMD: "avx1024" });
    expect(run.status).toBe(1);
    expect(JSON.stringify(run.json<Diagnosis>().problems)).toContain(
      "AEGIR_SIMD: expected sse2, avx2 or avx512, got avx1024",
    );
    expect(aegir(["doctor", "--json"], { ...nowhere, AEGIR_SIMD: "sse2" }).json<Diagnosis>().simd).toBe(
      "sse2",
    );
  });

  it("has one problem, with both versions and the command, where libtorch is of another minor", () => {
    const other = path.join(copy, "other");
    fs.mkdirSync(path.join(other, "lib"), { recursive: true });
    fs.writeFileSync(path.join(other, "lib/libtorch_cpu.so"), "");
    const built = diagnose().addon!.torchBuilt.split(".").slice(0, 2).join(".");
    const version = built === "2.12" ? "2.11.0" : "2.12.0";
    fs.writeFileSync(path.join(other, "version.py"), `__version__ = '${version}'\n`);
    link(other);
    const run = aegir(["doctor", "--json"]);
    expect(run.status).toBe(1);
    const { ok, problems, libtorch, addon } = run.json<Diagnosis>();
    expect({ ok, addon }).toEqual({ ok: false, addon: null });
    expect(libtorch).toMatchObject({ path: other, version });
    expect(problems).toHaveLength(1);
    expect(problems[0]!.code).toBe("ERR_LIBTORCH");
    for (const word of [`torch ${built}`, version, "npx aegir-swarm setup"])
      expect(problems[0]!.message).toContain(word);
  });

  it("names where it looked and the command where there is no libtorch, and downloads nothing", () => {
    link(null);
    const run = aegir(["doctor"]);
    expect(run.status).toBe(1);
    expect(run.stdout).toMatch(/problem +\[ERR_LIBTORCH\] no libtorch found .*run 'npx aegir-swarm setup'/);
    expect(fs.existsSync(path.join(copy, "libtorch"))).toBe(false);
  });

  it("links a libtorch that a variable names at first use, where nothing was set up", () => {
    link(null);
    const real = fs.realpathSync(path.join(packageRoot, "libtorch"));
    const run = aegir(["doctor", "--json"], { ...nowhere, AEGIR_LIBTORCH: real });
    expect(run.stderr).toBe("");
    expect(run.status).toBe(0);
    expect(run.json<Diagnosis>().libtorch).toMatchObject({ path: real, source: "AEGIR_LIBTORCH" });
    expect(fs.realpathSync(path.join(copy, "libtorch"))).toBe(real);
    const later = aegir(["doctor", "--json"], { ...nowhere, AEGIR_LIBTORCH: "/nowhere" });
    expect(later.status).toBe(0);
    expect(later.json<Diagnosis>().notes.join()).toContain("AEGIR_LIBTORCH: /nowhere");
  });
});

describe("setup", () => {
  it("refuses a directory that holds no libtorch, as one line and as JSON", () => {
    const run = aegir(["setup", "--libtorch", "/nowhere", "--json"]);
    expect(run.status).toBe(1);
    const { error } = run.json<{ error: { code: string; message: string } }>();
    expect(error).toMatchObject({
      code: "ERR_LIBTORCH",
      message: expect.stringMatching(/^--libtorch: \/nowhere/),
    });
    expect(run.stderr).toBe(`error [ERR_LIBTORCH]: ${error.message}\n`);
  });

  it("takes a binary that fits without compiling", () => {
    link(null);
    const real = fs.realpathSync(path.join(packageRoot, "libtorch"));
    const run = aegir(["setup", "--libtorch", real, "--json"]);
    expect(run.stderr).not.toContain("compiling");
    expect(run.status).toBe(0);
    expect(run.json<Diagnosis>()).toMatchObject({ ok: true, libtorch: { path: real } });
  });
});

describe("the command line", () => {
  it("refuses unknown commands and options with a suggestion", () => {
    const command = aegir(["doctr"]);
    expect(command.status).toBe(1);
    expect(command.stderr).toMatch(
      /error \[ERR_ARGUMENT\]: unknown command 'doctr' \(Did you mean doctor\?\)/,
    );
    const option = aegir(["doctor", "--jsn"]);
    expect(option.status).toBe(1);
    expect(option.stderr).toMatch(/error \[ERR_ARGUMENT\]: unknown option '--jsn' \(Did you mean --json\?\)/);
  });

  it("has help for every command", () => {
    const help = aegir(["--help"]);
    expect(help.status).toBe(0);
    const commands = [...help.stdout.matchAll(/^ {2}(\w+) .*/gm)].map((match) => match[1]!);
    for (const command of commands.filter((name) => name !== "help")) {
      const run = aegir([command, "--help"]);
      expect([command, run.status]).toEqual([command, 0]);
      expect(run.stdout).toContain(`Usage: aegir-swarm ${command}`);
    }
    expect(commands).toContain("doctor");
  });
});
