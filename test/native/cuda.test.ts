import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CudaInfo, DeviceMemory } from "../../lib/native/contract.js";
import { native } from "../../lib/native/load.js";
import { packageRoot } from "../../scripts/build/libtorch.mjs";

const compiler = spawnSync("c++", ["--version"]).status === 0;
let folder: string;

beforeAll(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "aegir-cuda-"));
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

/** What a process says that opens this plug-in, and what it answers where CUDA is asked for. */
function opened(plugin: string): { cuda: CudaInfo; refusal: string } {
  const load = path.join(packageRoot, "dist/native/load.js");
  const device = path.join(packageRoot, "dist/tensor/device.js");
  const script = `
    const { native } = await import(${JSON.stringify(load)});
    const { resolveDevice } = await import(${JSON.stringify(device)});
    let refusal = "";
    try { resolveDevice("cuda"); } catch (error) { refusal = error.code + " " + error.message; }
    process.stdout.write(JSON.stringify({ cuda: native().info().cuda, refusal }));`;
  const run = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    env: { ...process.env, AEGIR_CUDA_PLUGIN: plugin },
    encoding: "utf8",
  });
  expect(run.stderr).toBe("");
  return JSON.parse(run.stdout);
}

/** A plug-in without CUDA: a table with these first fields, or a library without one. */
function fakePlugin(name: string, body: string): string {
  const source = path.join(folder, `${name}.cc`);
  const library = path.join(folder, `${name}.so`);
  fs.writeFileSync(source, `#include "native/cuda/table.h"\n${body}\n`);
  const flags = ["-std=c++20", "-shared", "-fPIC", `-I${packageRoot}`, source, "-o", library];
  const run = spawnSync("c++", flags, { encoding: "utf8" });
  expect(run.stderr).toBe("");
  return library;
}

function fakeTable(name: string, abi: string, torch: string): string {
  return fakePlugin(
    name,
    `static const aegir::cuda::Table table{${abi}, "${torch}", [] { return "the fake has none"; },
       [] { return int32_t{0}; }};
     extern "C" const aegir::cuda::Table* aegir_cuda_table() { return &table; }`,
  );
}

describe("the CUDA plug-in", () => {
  it("is a reason, not a crash, where there is none", () => {
    const { cuda, refusal } = opened(path.join(folder, "nothing.so"));
    expect(cuda).toMatchObject({ available: false, plugin: null, devices: [] });
    expect(cuda.reason).toMatch(/^no CUDA build of libtorch: .*libtorch_cuda\.so|^no plug-in: .*nothing\.so/);
    expect(refusal).toBe(`ERR_DEVICE device: "cuda" is not usable here: ${cuda.reason}`);
  });

  it("is a reason where the file is no library", () => {
    const file = path.join(folder, "text.so");
    fs.writeFileSync(file, "no library");
    const { cuda } = opened(file);
    expect(cuda.available).toBe(false);
    expect(cuda.reason).toMatch(/^no CUDA build of libtorch|^the plug-in does not load: .*text\.so/);
  });

  it.runIf(compiler)("is refused where it exports no table, another ABI or another torch", () => {
    expect(opened(fakePlugin("empty", "")).cuda.reason).toMatch(/empty\.so is no plug-in/);
    const other = opened(fakeTable("abi", "99", "x")).cuda;
    expect(other.reason).toMatch(/^the plug-in has ABI 99, expected \d+$/);
    const { reason, plugin } = opened(fakeTable("torch", "aegir::cuda::abi", "0.1.0")).cuda;
    expect(plugin).toBeNull();
    expect(reason).toBe(`the plug-in was built for torch 0.1.0, the addon for ${native().info().torchBuilt}`);
  });

  it.runIf(compiler)("says what the plug-in says where there is no device", () => {
    const library = fakeTable("idle", "aegir::cuda::abi", native().info().torchBuilt);
    const { cuda, refusal } = opened(library);
    expect(cuda).toEqual({
      available: false,
      reason: "no device: the fake has none",
      plugin: library,
      devices: [],
    });
    expect(refusal).toContain("no device: the fake has none");
  });
});

describe("memory of devices", () => {
  /** memory().devices, and what resetPeakMemory and emptyCache say, where this plug-in is open. */
  function memoryWith(plugin: string): { devices: DeviceMemory[]; said: string[] } {
    const memory = path.join(packageRoot, "dist/tensor/memory.js");
    const script = `
      const { memory, resetPeakMemory, emptyCache } = await import(${JSON.stringify(memory)});
      const said = [];
      const tell = (call) => { try { return call(); } catch (error) { said.push(error.code + " " + error.message); } };
      const { devices } = memory();
      for (const call of [resetPeakMemory, emptyCache]) tell(call);
      process.stdout.write(JSON.stringify({ devices, said }));`;
    const run = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
      env: { ...process.env, AEGIR_CUDA_PLUGIN: plugin },
      encoding: "utf8",
    });
    expect(run.stderr).toBe("");
    return JSON.parse(run.stdout);
  }

  it.runIf(compiler)("comes from the plug-in, whose lack of memory is ERR_OUT_OF_MEMORY", () => {
    const library = fakePlugin(
      "memory",
      `using aegir::cuda::Memory;
       static const aegir::cuda::Table table{aegir::cuda::abi, "${native().info().torchBuilt}",
         []() -> const char* { return nullptr; }, [] { return int32_t{2}; }, [](int32_t) { return "fake"; },
         [](int32_t device, Memory* to) -> const char* { *to = {10 + device, 20, 30, 40, 50}; return nullptr; },
         [](int32_t) -> const char* { return "out of memory"; },
         []() -> const char* { return "unspecified launch failure"; }};
       extern "C" const aegir::cuda::Table* aegir_cuda_table() { return &table; }`,
    );
    const { devices, said } = memoryWith(library);
    const shared = { reservedBytes: 20, peakAllocatedBytes: 30, peakReservedBytes: 40, totalBytes: 50 };
    expect(devices).toEqual([
      { device: "cuda:0", allocatedBytes: 10, ...shared },
      { device: "cuda:1", allocatedBytes: 11, ...shared },
    ]);
    expect(said).toEqual([
      "ERR_OUT_OF_MEMORY CUDA: out of memory",
      "ERR_DEVICE CUDA: unspecified launch failure",
    ]);
  });
});

describe("devices", () => {
  it("names what is expected where a device is unknown", () => {
    const tensor = native().Tensor.full([2], 1, "f32");
    expect(() => tensor.to("cuda:x" as "cuda")).toThrow(/target: expected cpu, cuda or cuda:<n>/);
    const copy = tensor.to("cpu");
    expect(copy.toArray()).toEqual([1, 1]);
    for (const made of [tensor, copy]) made.dispose();
  });

  it.skipIf(native().info().cuda.available)("is ERR_DEVICE with the reason where CUDA cannot be used", () => {
    const tensor = native().Tensor.full([2], 1, "f32");
    const { reason } = native().info().cuda;
    expect(() => tensor.to("cuda")).toThrow(
      expect.objectContaining({ code: "ERR_DEVICE", message: expect.stringContaining(reason) }),
    );
    tensor.dispose();
  });
});
