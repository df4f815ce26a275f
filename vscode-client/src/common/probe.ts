// Runs interpreters to see what is in them, and looks along the PATH.

import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import * as path from "node:path";
import type { Probe } from "./launch";

const TIMEOUT_MS = 20_000;

// Finds the package without importing it: the answer takes some 30 ms.
const SCRIPT = `
import importlib.util, json, sys
stark = None
if importlib.util.find_spec("stark_lsp") is not None:
    stark = "unknown"
    try:
        from importlib.metadata import version
        stark = version("stark-lsp")
    except Exception:
        pass
print(json.dumps({"python": "%d.%d" % sys.version_info[:2], "stark": stark}))
`;

/**
 * Ask an interpreter for its version and that of stark-lsp; undefined if it cannot be started.
 *
 * @param cwd an empty folder: Python looks for modules in the current one first
 */
export function probeInterpreter(interpreter: string, cwd: string): Promise<Probe | undefined> {
  return new Promise((resolve) => {
    execFile(interpreter, ["-c", SCRIPT], { cwd, timeout: TIMEOUT_MS, windowsHide: true }, (error, stdout) => {
      resolve(error === null ? parseProbe(stdout) : undefined);
    });
  });
}

/** The last line is the answer: site hooks of an interpreter may print before it. */
export function parseProbe(stdout: string): Probe | undefined {
  try {
    const answer = JSON.parse(stdout.trim().split(/\r?\n/).at(-1) ?? "") as Partial<Probe>;
    return typeof answer.python === "string" ? { python: answer.python, stark: answer.stark ?? null } : undefined;
  } catch {
    return undefined;
  }
}

/** The first program of this name on the PATH. */
export async function which(name: string): Promise<string | undefined> {
  const endings = process.platform === "win32" ? [".exe", ".cmd", ".bat"] : [""];
  for (const folder of (process.env["PATH"] ?? "").split(path.delimiter)) {
    for (const ending of endings) {
      const candidate = path.join(folder, name + ending);
      if (path.isAbsolute(candidate) && (await executable(candidate))) {
        return candidate;
      }
    }
  }
  return undefined;
}

async function executable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
