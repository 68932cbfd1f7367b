import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  // Examples import the package by its name; under test that is the source.
  resolve: { alias: { "aegir-swarm": fileURLToPath(new URL("lib/index.ts", import.meta.url)) } },
  test: {
    pool: "forks",
    include: ["test/**/*.test.ts"],
    globalSetup: "test/globalSetup.ts",
    testTimeout: 60_000,
  },
});
