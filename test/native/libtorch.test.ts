import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import * as torch from "../../scripts/build/libtorch.mjs";

let folder: string;

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "aegir-libtorch-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

/** A directory that looks like libtorch: a torch wheel's `torch/` of this version. */
function fakeLibtorch(name: string, version: string, files: Record<string, string> = {}): string {
  const directory = path.join(folder, name);
  const all = {
    "lib/libtorch_cpu.so": "",
    "version.py": `__version__ = '${version}'\ncuda = None\n`,
    ...files,
  };
  for (const [file, text] of Object.entries(all)) {
    fs.mkdirSync(path.join(directory, path.dirname(file)), { recursive: true });
    fs.writeFileSync(path.join(directory, file), text);
  }
  return directory;
}

/** An environment with no torch in it but what the test puts there; `python` is what its Python says of torch. */
function environment(python = ""): Record<string, string> {
  const bin = path.join(folder, "bin");
  fs.mkdirSync(bin, { recursive: true });
  fs.writeFileSync(path.join(bin, "python3"), `#!/bin/sh\necho "${python}"\n`, { mode: 0o755 });
  return { PATH: bin, HOME: path.join(folder, "home") };
}

function cached(version: string): string {
  return fakeLibtorch(path.join("home/.cache/aegir-swarm", `torch-${version}`, "torch"), version);
}

describe("describeLibtorch", () => {
  it("reads the version of a wheel, of the zip and of the headers alone", () => {
    const wheel = fakeLibtorch("wheel", "2.13.0+cpu");
    expect(torch.describeLibtorch(wheel)).toMatchObject({
      version: "2.13.0+cpu",
      minor: "2.13",
      cuda: false,
    });
    const zip = fakeLibtorch("zip", "", { "version.py": "", "build-version": "2.12.1+cu130\n" });
    fs.writeFileSync(path.join(zip, "lib/libtorch_cuda.so"), "");
    expect(torch.describeLibtorch(zip)).toMatchObject({ version: "2.12.1+cu130", minor: "2.12", cuda: true });
    const header = '#define TORCH_VERSION \\\n  "2.11.0"\n';
    const headers = fakeLibtorch("headers", "", {
      "version.py": "",
      "include/torch/headeronly/version.h": header,
    });
    expect(torch.describeLibtorch(headers).version).toBe("2.11.0");
  });

  it("says what it misses where the directory is no libtorch", () => {
    expect(() => torch.describeLibtorch(folder)).toThrow(/no libtorch.*lib\/libtorch_cpu\.so/);
  });
});

describe("findLibtorch", () => {
  it("goes option, AEGIR_LIBTORCH, LIBTORCH, cache, Python", () => {
    const option = fakeLibtorch("option", "2.11.0");
    const aegir = fakeLibtorch("aegir", "2.12.0");
    const plain = fakeLibtorch("plain", "2.13.0");
    const cache = cached("2.13.0");
    const python = fakeLibtorch("site-packages/torch", "2.14.0");
    const env: Record<string, string | undefined> = {
      ...environment(python),
      AEGIR_LIBTORCH: aegir,
      LIBTORCH: plain,
    };
    const find = (given?: string) => {
      const found = torch.findLibtorch({ option: given, env, root: folder });
      return found && [found.source, found.path];
    };
    expect(find(option)).toEqual(["option", option]);
    expect(find()).toEqual(["AEGIR_LIBTORCH", aegir]);
    env.AEGIR_LIBTORCH = "";
    expect(find()).toEqual(["LIBTORCH", plain]);
    env.LIBTORCH = undefined;
    expect(find()).toEqual(["cache", cache]);
    fs.rmSync(path.join(folder, "home"), { recursive: true });
    expect(find()).toEqual(["python", python]);
    fs.rmSync(path.join(folder, "site-packages"), { recursive: true });
    expect(find()).toBeNull();
  });

  it("prefers the version that the package gets to others in the cache, and the package's own cache comes last", () => {
    const env = environment();
    const local = fakeLibtorch(".libtorch/torch-2.13.0/torch", "2.13.0");
    expect(torch.findLibtorch({ env, root: folder })?.path).toBe(local);
    const newer = cached("2.14.0");
    expect(torch.findLibtorch({ env, root: folder })?.path).toBe(newer);
    const own = cached("2.13.0");
    expect(torch.findLibtorch({ env, root: folder })?.path).toBe(own);
  });

  it("refuses a named libtorch that does not serve, naming both versions and the command", () => {
    const old = fakeLibtorch("old", "2.9.1");
    const env = { ...environment(), AEGIR_LIBTORCH: old };
    cached("2.13.0");
    expect(() => torch.findLibtorch({ env, root: folder })).toThrow(
      /^AEGIR_LIBTORCH: .*old: torch 2\.9\.1 .*2\.11 to 2\.14.*npx aegir-swarm setup/,
    );
    expect(() => torch.findLibtorch({ option: "/nowhere", env, root: folder })).toThrow(
      /^--libtorch: \/nowhere/,
    );
  });

  it("passes over a found libtorch that does not serve, and says why", () => {
    const python = fakeLibtorch("site-packages/torch", "2.5.0");
    const skipped: string[] = [];
    expect(torch.findLibtorch({ env: environment(python), root: folder, skipped })).toBeNull();
    expect(skipped).toHaveLength(1);
    expect(skipped[0]).toMatch(/^python: .*torch 2\.5\.0/);
  });
});

describe("cacheDirectories", () => {
  it("is the user's cache, else the package's folder where there is no home", () => {
    const local = path.join(folder, ".libtorch");
    const of = (env: Record<string, string>) => torch.cacheDirectories(env, folder);
    expect(of({ HOME: "/home/u" })).toEqual(["/home/u/.cache/aegir-swarm", local]);
    expect(of({ HOME: "/home/u", XDG_CACHE_HOME: "/c" })).toEqual(["/c/aegir-swarm", local]);
    expect(of({ HOME: "" })).toEqual([local]);
  });
});

describe("linkLibtorch", () => {
  it("makes the link, leaves it alone where it is right and moves it where it is not", () => {
    const link = path.join(folder, "libtorch");
    expect(torch.linkedLibtorch(link)).toBeNull();
    torch.linkLibtorch(torch.describeLibtorch(fakeLibtorch("a", "2.13.0")), link);
    const made = fs.lstatSync(link);
    torch.linkLibtorch(torch.describeLibtorch(path.join(folder, "a")), link);
    expect(fs.lstatSync(link).ino).toBe(made.ino);
    torch.linkLibtorch(torch.describeLibtorch(fakeLibtorch("b", "2.12.0")), link);
    expect(torch.linkedLibtorch(link)).toMatchObject({ version: "2.12.0", realPath: path.join(folder, "b") });
  });

  it("gives the reason where the link leads to one that does not serve", () => {
    const link = path.join(folder, "libtorch");
    fs.symlinkSync(fakeLibtorch("old", "2.10.0"), link);
    const skipped: string[] = [];
    expect(torch.linkedLibtorch(link, skipped)).toBeNull();
    expect(skipped.join()).toContain("torch 2.10.0 does not serve");
    fs.rmSync(path.join(folder, "old"), { recursive: true });
    expect(torch.linkedLibtorch(link, skipped)).toBeNull();
    expect(skipped[1]).toContain("no libtorch");
  });
});

describe("downloadLibtorch", () => {
  it("gets torch with pip and no dependencies into the cache, and leaves nothing half-made behind", () => {
    const env = environment();
    // A pip that writes what a CPU wheel holds, and notes how it was called.
    const pip = `#!/bin/sh
echo "$@" >> "${folder}/calls"
[ "$3" = install ] || exit 0
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/torch/lib"; : > "$2/torch/lib/libtorch_cpu.so"; echo "__version__ = '2.13.0+cpu'" > "$2/torch/version.py"
`;
    fs.writeFileSync(path.join(env.PATH!, "python3"), pip, { mode: 0o755 });
    env.PATH = `${env.PATH}:${process.env.PATH}`;
    const got = torch.downloadLibtorch({ env, root: folder, log: () => {} });
    const cache = path.join(folder, "home/.cache/aegir-swarm");
    expect(got).toMatchObject({
      source: "cache",
      path: path.join(cache, "torch-2.13.0/torch"),
      minor: "2.13",
    });
    expect(fs.readdirSync(cache)).toEqual(["torch-2.13.0"]);
    expect(fs.readFileSync(path.join(folder, "calls"), "utf8")).toMatch(
      /install .*torch==2\.13\.0 --no-deps\n$/,
    );
  });

  it("names the command and pip's words where pip fails, and leaves nothing behind", () => {
    const env = environment();
    const pip = '#!/bin/sh\n[ "$3" = install ] || exit 0\necho "No matching distribution" >&2\nexit 1\n';
    fs.writeFileSync(path.join(env.PATH!, "python3"), pip, { mode: 0o755 });
    const cache = path.join(folder, "home/.cache/aegir-swarm");
    expect(() => torch.downloadLibtorch({ env, root: folder, log: () => {} })).toThrow(
      /pip install.*npx aegir-swarm setup --libtorch DIR.*\n.*No matching distribution/,
    );
    expect(fs.readdirSync(cache)).toEqual([]);
  });
});
