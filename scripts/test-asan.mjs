// npm run test:asan: builds the executables native/**/*_check.cc with the address and undefined-behaviour sanitizers
// in build/asan, and runs each on every instruction set that the processor has. libtorch itself is not instrumented.
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { ensureLibtorch, packageRoot } from "./build/libtorch.mjs";

const folder = path.join(packageRoot, "build", "asan");
const flags = "-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=vptr";
const jobs = process.env.AEGIR_BUILD_JOBS || String(os.availableParallelism());

function run(command, args, env = {}) {
  return spawnSync(command, args, { stdio: "inherit", env: { ...process.env, ...env } }).status === 0;
}

ensureLibtorch();
const configured = run("cmake", [
  ...[
    "-S",
    packageRoot,
    "-B",
    folder,
    "-DCMAKE_BUILD_TYPE=Release",
    "-DAEGIR_BUILD_CHECKS=ON",
    "-DAEGIR_CUDA=OFF",
  ],
  `-DCMAKE_CXX_FLAGS_RELEASE=${flags}`,
]);
if (!configured || !run("cmake", ["--build", folder, "-j", jobs])) process.exit(1);

const checks = fs.readdirSync(folder).filter((name) => name.endsWith("_check"));
const bare = checks.filter((check) => !fs.readFileSync(path.join(folder, check)).includes("__asan_init"));
if (bare.length > 0) {
  console.log(`built without the sanitizer: ${bare.join(", ")}`);
  process.exit(1);
}
const processor = fs.readFileSync("/proc/cpuinfo", "utf8");
const levels = ["sse2", "avx2", "avx512"].filter((level) => level === "sse2" || processor.includes(level));
// Leaks are not looked for: libtorch keeps what it made until the process ends. Threads of emulated GPU blocks have
// stacks of their own, which the check of stacks after return takes for misuse.
const env = {
  ASAN_OPTIONS: "detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=0",
  UBSAN_OPTIONS: "print_stacktrace=1:halt_on_error=1",
};
let failed = 0;
for (const check of checks) {
  for (const level of levels) {
    console.log(`${check}, ${level}`);
    if (!run(path.join(folder, check), [], { ...env, AEGIR_SIMD: level })) failed++;
  }
}
console.log(`${checks.length * levels.length - failed} passed, ${failed} failed`);
process.exitCode = failed > 0 || checks.length === 0 ? 1 : 0;
