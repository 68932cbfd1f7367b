/** How a command says on stderr that something failed. */
export function errorLine(code: string, message: string): string {
  return `error [${code}]: ${message}\n`;
}
