import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const script = fileURLToPath(new URL("../../scripts/build/addon.mjs", import.meta.url));

describe("building the addon", () => {
  it.each(["abc", "0", "-3", "2.5", "100000"])(
    "refuses AEGIR_BUILD_JOBS=%s before it touches what is there",
    (given) => {
      const folder = fileURLToPath(new URL("../../build/Release", import.meta.url));
      const changed = () => statSync(folder, { throwIfNoEntry: false })?.mtimeMs;
      const before = changed();
      const env = { ...process.env, AEGIR_BUILD_JOBS: given };
      const { status, stderr } = spawnSync(process.execPath, [script], { encoding: "utf8", env });
      expect(status).toBe(1);
      expect(stderr).toMatch(`AEGIR_BUILD_JOBS was '${given}', expected how many compilers run at once`);
      expect(changed()).toBe(before);
    },
  );
});
