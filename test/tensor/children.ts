import { spawn } from "node:child_process";

const entry = new URL("../../dist/index.js", import.meta.url).href;

export interface ChildResult {
  stdout: string;
  stderr: string;
  /** Exit code; null where a signal ended the process. */
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** Runs module code in a Node.js process of its own, with `aegir` the compiled package and `entry` its URL. */
export function runChild(code: string): Promise<ChildResult> {
  const source = `const entry = ${JSON.stringify(entry)}; const aegir = await import(entry);\n${code}`;
  const child = spawn(process.execPath, ["--input-type=module", "--expose-gc", "-e", source]);
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (text) => {
    stdout += text;
  });
  child.stderr.on("data", (text) => {
    stderr += text;
  });
  return new Promise((resolve) => {
    child.on("close", (exitCode, signal) => resolve({ stdout, stderr, code: exitCode, signal }));
  });
}
