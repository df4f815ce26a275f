// Paths in settings may name the home folder, the workspace folder and environment variables.

import * as path from "node:path";

export interface ExpandContext {
  readonly home: string;
  readonly workspaceFolder: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Fill in `~`, `${workspaceFolder}`, `${userHome}` and `${env:NAME}`; an unset variable becomes the empty string. */
export function expandPath(value: string, context: ExpandContext): string {
  const filled = value
    .trim()
    .replace(/\$\{(workspaceFolder|userHome|env:[^}]+)\}/g, (_match, name: string) => {
      if (name === "workspaceFolder") {
        return context.workspaceFolder ?? "";
      }
      return name === "userHome" ? context.home : (context.env[name.slice("env:".length)] ?? "");
    });
  return /^~(?=$|[/\\])/.test(filled) ? context.home + filled.slice(1) : filled;
}

/**
 * A program of the settings, filled in. A relative path starts at the workspace folder, since the server is started in a
 * folder of its own; a bare name is looked for on the `PATH`.
 */
export function expandProgram(value: string, context: ExpandContext): string {
  const filled = expandPath(value, context);
  const relative = /[/\\]/.test(filled) && !path.isAbsolute(filled);
  return relative && context.workspaceFolder !== undefined ? path.join(context.workspaceFolder, filled) : filled;
}
