import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { packageRoot } from "../../scripts/build/libtorch.mjs";

export interface CommandResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface RunningCommand {
  child: ChildProcess;
  /** Resolves once stderr holds the text. */
  sees(text: string): Promise<void>;
  ended: Promise<CommandResult>;
}

/** Starts the compiled command line. */
export function start(args: string[], cwd: string): RunningCommand {
  const child = spawn(process.execPath, [join(packageRoot, "dist/cli/main.js"), ...args], { cwd });
  const result: CommandResult = { code: null, stdout: "", stderr: "" };
  const waiting: { text: string; resolve: () => void }[] = [];
  child.stdout!.setEncoding("utf8").on("data", (chunk: string) => {
    result.stdout += chunk;
  });
  child.stderr!.setEncoding("utf8").on("data", (chunk: string) => {
    result.stderr += chunk;
    for (const { text, resolve } of waiting) if (result.stderr.includes(text)) resolve();
  });
  const ended = new Promise<CommandResult>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ ...result, code }));
  });
  const sees = (text: string) =>
    new Promise<void>((resolve, reject) => {
      if (result.stderr.includes(text)) return resolve();
      waiting.push({ text, resolve });
      void ended.then(
        ({ code, stderr }) => reject(new Error(`ended with ${code} before '${text}': ${stderr}`)),
        reject,
      );
    });
  return { child, sees, ended };
}

export function aegir(args: string[], cwd: string): Promise<CommandResult> {
  return start(args, cwd).ended;
}
