// Finds a Python whose torch is of the version of the libtorch in use.
import { spawnSync } from "node:child_process";
import path from "node:path";

/** Keeps glibc from returning memory to the system between steps: page faults would be timed in place of PyTorch. */
const KEEP_MEMORY = { MALLOC_TRIM_THRESHOLD_: "4000000000", MALLOC_MMAP_THRESHOLD_: "4000000000" };

/** { command, env } or { command: null, reason }. AEGIR_PYTHON names an interpreter; else `python3`, as it is and with libtorch's own packages. */
export function findPython(libtorch) {
  const command = process.env.AEGIR_PYTHON ?? "python3";
  const packages = path.dirname(libtorch.realPath);
  let reason = "";
  for (const extra of [{}, { PYTHONPATH: packages }]) {
    const env = { ...process.env, ...KEEP_MEMORY, ...extra };
    const run = spawnSync(command, ["-c", "import torch; print(torch.__version__)"], {
      encoding: "utf8",
      env,
    });
    if (run.status === 0 && run.stdout.trim() === libtorch.version) return { command, env };
    if (run.error) reason = run.error.message;
    else if (run.status === 0) reason = `${command} has torch ${run.stdout.trim()}`;
    else reason = run.stderr.trim().split("\n").at(-1) ?? "import failed";
  }
  return { command: null, reason };
}
