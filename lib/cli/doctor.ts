import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { packageRoot, setupCommand } from "../../scripts/build/libtorch.mjs";
import { AegirError } from "../errors.js";
import type { CudaInfo } from "../native/contract.js";
import { libtorchInUse, namedElsewhere, sourceOf } from "../native/libtorch.js";
import { loadAddon } from "../native/load.js";

/** What `aegir-swarm doctor --json` prints. */
export interface Diagnosis {
  ok: boolean;
  package: { version: string; root: string };
  node: { version: string; napi: number; platform: string; arch: string };
  libtorch: { path: string; source: string; version: string; cuda: boolean } | null;
  addon: { path: string; kind: "built" | "prebuilt"; torchBuilt: string; torchLoaded: string } | null;
  threads: number | null;
  simd: string | null;
  cuda: CudaInfo;
  problems: { code: string; message: string }[];
  notes: string[];
}

/** Looks at libtorch and the addon without changing anything that already serves. */
export function diagnose(): Diagnosis {
  const manifest = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8"));
  const diagnosis: Diagnosis = {
    ok: false,
    package: { version: manifest.version, root: packageRoot },
    node: {
      version: process.version,
      napi: Number(process.versions.napi),
      platform: process.platform,
      arch: process.arch,
    },
    libtorch: null,
    addon: null,
    threads: null,
    simd: null,
    cuda: { available: false, reason: "the addon is not loaded", plugin: null, devices: [] },
    problems: [],
    notes: [],
  };
  try {
    const libtorch = libtorchInUse();
    const { realPath, version, cuda } = libtorch;
    diagnosis.libtorch = { path: realPath, source: sourceOf(libtorch), version, cuda };
    const { addon, path, kind } = loadAddon();
    const info = addon.info();
    diagnosis.addon = { path, kind, torchBuilt: info.torchBuilt, torchLoaded: info.torchLoaded };
    diagnosis.threads = info.threads;
    diagnosis.simd = info.simd;
    diagnosis.cuda = info.cuda;
    const elsewhere = namedElsewhere(libtorch);
    if (elsewhere) diagnosis.notes.push(`${elsewhere}; '${setupCommand}' takes it over`);
  } catch (error) {
    if (!(error instanceof AegirError)) throw error;
    diagnosis.problems.push({ code: error.code, message: error.message });
  }
  diagnosis.ok = diagnosis.problems.length === 0;
  return diagnosis;
}

export function printDiagnosis(diagnosis: Diagnosis): void {
  const { package: self, node, libtorch, addon, threads, simd, cuda } = diagnosis;
  const rows: [string, string][] = [
    ["aegir-swarm", `${self.version} in ${self.root}`],
    ["node", `${node.version}, Node-API ${node.napi}, ${node.platform}-${node.arch}`],
    [
      "libtorch",
      libtorch
        ? `${libtorch.version}${libtorch.cuda ? " with CUDA" : ""} in ${libtorch.path} (from: ${libtorch.source})`
        : "none",
    ],
    ["addon", addon ? `${addon.path} (${addon.kind}, for torch ${addon.torchBuilt})` : "none"],
    ["threads", String(threads ?? "unknown")],
    ["simd", simd ?? "unknown"],
    ["cuda", cuda.available ? cuda.devices.join(", ") : `not available: ${cuda.reason}`],
  ];
  const lines = rows.map(([name, value]) => `${name.padEnd(12)}${value}`);
  for (const note of diagnosis.notes) lines.push(`note        ${note}`);
  for (const { code, message } of diagnosis.problems) lines.push(`problem     [${code}] ${message}`);
  process.stdout.write(`${lines.join("\n")}\n`);
}

export function register(program: Command): void {
  program
    .command("doctor")
    .description("say which libtorch and addon are in use, and what is wrong")
    .option("--json", "print an object")
    .action((options: { json?: boolean }) => {
      const diagnosis = diagnose();
      if (options.json) process.stdout.write(`${JSON.stringify(diagnosis, null, 2)}\n`);
      else printDiagnosis(diagnosis);
      if (!diagnosis.ok) process.exitCode = 1;
    });
}
