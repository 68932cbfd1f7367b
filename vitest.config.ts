import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    pool: "forks",
    include: ["test/**/*.test.ts"],
    globalSetup: "test/globalSetup.ts",
    testTimeout: 60_000,
  },
});
