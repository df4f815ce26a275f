// Paths in settings may name the home folder, the workspace folder and environment variables.

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
