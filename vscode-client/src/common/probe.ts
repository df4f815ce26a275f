// Runs interpreters to see what they are, and looks for them where they usually lie.

import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, readdir } from "node:fs/promises";
import * as path from "node:path";
import type { Probe } from "./launch";

const TIMEOUT_MS = 20_000;
const WINDOWS = process.platform === "win32";
const SCRIPT = 'import json, sys; print(json.dumps({"python": "%d.%d" % sys.version_info[:2], "executable": sys.executable}))';

/** Ask an interpreter for its version; undefined if it cannot be started. */
export function probeInterpreter(interpreter: string): Promise<Probe | undefined> {
  return new Promise((resolve) => {
    // -I -S: nothing of what is installed there runs, and no module of the current folder.
    execFile(interpreter, ["-I", "-S", "-c", SCRIPT], { timeout: TIMEOUT_MS, windowsHide: true }, (error, stdout) => {
      resolve(error === null ? parseProbe(stdout) : undefined);
    });
  });
}

export function parseProbe(stdout: string): Probe | undefined {
  try {
    const { python, executable } = JSON.parse(stdout) as Partial<Probe>;
    return typeof python === "string" && typeof executable === "string" ? { python, executable } : undefined;
  } catch {
    return undefined;
  }
}

/** Where interpreters may lie. */
export interface Places {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  /** Workspace folders. */
  readonly folders: readonly string[];
}

const NAMES = ["python3", "python", ...[15, 14, 13, 12, 11, 10].map((minor) => `python3.${minor}`)];

/** The interpreters of this machine: on the PATH, of active environments, of the folders, and of uv and pyenv. */
export async function* interpreters({ env, home, folders }: Places): AsyncGenerator<string> {
  const onPath = (env["PATH"] ?? "").split(path.delimiter).filter((folder) => path.isAbsolute(folder));
  for (const name of NAMES) {
    yield* existing(onPath.map((folder) => path.join(folder, WINDOWS ? `${name}.exe` : name)));
  }
  const named = [env["VIRTUAL_ENV"], env["CONDA_PREFIX"]].filter((folder) => folder !== undefined);
  const inFolders = folders.flatMap((folder) => [path.join(folder, ".venv"), path.join(folder, "venv")]);
  const managed = [path.join(home, ".local", "share", "uv", "python"), path.join(home, ".pyenv", "versions")];
  const versions = (await Promise.all(managed.map(entries))).flat();
  yield* existing([...named, ...inFolders, ...versions].map(pythonOf));
}

/** The interpreter of an environment. */
function pythonOf(environment: string): string {
  return WINDOWS ? path.join(environment, "Scripts", "python.exe") : path.join(environment, "bin", "python3");
}

async function entries(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  return names.map((name) => path.join(folder, name));
}

async function* existing(files: readonly string[]): AsyncGenerator<string> {
  for (const file of files) {
    const found = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) {
      yield file;
    }
  }
}
