// npm run test:asan, npm run test:tsan: builds the executables native/**/*_check.cc with the address and
// undefined-behaviour sanitizers in build/asan, or with the thread sanitizer in build/tsan, and runs them.
// libtorch itself is not instrumented.
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { ensureLibtorch, packageRoot } from "./build/libtorch.mjs";

const sanitizers = {
  asan: {
    flags: "-fsanitize=address,undefined -fno-sanitize=vptr",
    symbol: "__asan_init",
    levels: ["sse2", "avx2", "avx512"],
    // Leaks are not looked for: libtorch keeps what it made until the process ends. Threads of emulated GPU blocks
    // have stacks of their own, which the check of stacks after return takes for misuse.
    env: {
      ASAN_OPTIONS: "detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=0",
      UBSAN_OPTIONS: "print_stacktrace=1:halt_on_error=1",
    },
  },
  tsan: {
    flags: "-fsanitize=thread",
    symbol: "__tsan_init",
    // Who touches what is the same on every instruction set; masked vector instructions are not seen.
    levels: ["sse2"],
    env: {},
  },
};
const name = process.argv[2];
const { flags, symbol, levels, env } = sanitizers[name];
const folder = path.join(packageRoot, "build", name);
const jobs = process.env.AEGIR_BUILD_JOBS || String(os.availableParallelism());

function run(command, args, extra = {}) {
  return spawnSync(command, args, { stdio: "inherit", env: { ...process.env, ...extra } }).status === 0;
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
  `-DCMAKE_CXX_FLAGS_RELEASE=-O1 -g1 -fno-omit-frame-pointer ${flags}`,
]);
if (!configured || !run("cmake", ["--build", folder, "-j", jobs])) process.exit(1);

const checks = fs.readdirSync(folder).filter((file) => file.endsWith("_check"));
const bare = checks.filter((check) => !fs.readFileSync(path.join(folder, check)).includes(symbol));
if (bare.length > 0) {
  console.log(`built without the sanitizer: ${bare.join(", ")}`);
  process.exit(1);
}
const processor = fs.readFileSync("/proc/cpuinfo", "utf8");
const runs = checks.flatMap((check) =>
  levels.filter((level) => level === "sse2" || processor.includes(level)).map((level) => ({ check, level })),
);
let failed = 0;
for (const { check, level } of runs) {
  console.log(`${check}, ${level}`);
  if (!run(path.join(folder, check), [], { ...env, AEGIR_SIMD: level })) failed++;
}
console.log(`${runs.length - failed} passed, ${failed} failed`);
process.exitCode = failed > 0 || runs.length === 0 ? 1 : 0;
