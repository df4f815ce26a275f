// Finds a way to start the server: pure decisions, the probing is passed in.

/** A program with its arguments. */
export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
}

/** What a Python interpreter says of itself. */
export interface Probe {
  /** Version, for instance `3.11`. */
  readonly python: string;
  /** Version of stark-lsp, null where it is not installed. */
  readonly stark: string | null;
}

/** Where to look, in this order. */
export interface LaunchSources {
  /** `stark.server.path`, empty if not set. */
  readonly path: string;
  /** `stark.server.interpreter`, empty if not set. */
  readonly interpreter: string;
  readonly arguments: readonly string[];
  /** The interpreter chosen in the Python extension. */
  readonly active: string | undefined;
  /** Path of a `stark-lsp` program on the PATH. */
  readonly onPath: string | undefined;
  /** Interpreters on the PATH. */
  readonly pythons: readonly string[];
}

/** Why no way was found, with all that a message to the user needs. */
export interface LaunchProblem {
  readonly message: string;
  /** Interpreter to install stark-lsp in, undefined if there is no Python at all. */
  readonly installInto: string | undefined;
}

/** Ask an interpreter; undefined if it cannot be started. */
export type Prober = (interpreter: string) => Promise<Probe | undefined>;

export async function findLaunch(sources: LaunchSources, probe: Prober): Promise<Launch | LaunchProblem> {
  const serve = ["serve", ...sources.arguments];
  if (sources.path !== "") {
    return { command: sources.path, args: serve };
  }
  const fromInterpreter = (command: string): Launch => ({ command, args: ["-m", "stark_lsp", ...serve] });
  if (sources.interpreter !== "") {
    const found = await probe(sources.interpreter);
    if (found === undefined) {
      return {
        message: `The interpreter ${sources.interpreter} (setting stark.server.interpreter) cannot be started.`,
        installInto: undefined,
      };
    }
    return found.stark !== null ? fromInterpreter(sources.interpreter) : missing(sources.interpreter, found);
  }
  const active = sources.active === undefined ? undefined : await probe(sources.active);
  if (sources.active !== undefined && active !== undefined && active.stark !== null) {
    return fromInterpreter(sources.active);
  }
  if (sources.onPath !== undefined) {
    return { command: sources.onPath, args: serve };
  }
  let first = sources.active !== undefined && active !== undefined ? missing(sources.active, active) : undefined;
  for (const python of sources.pythons) {
    const found = await probe(python);
    if (found !== undefined && found.stark !== null) {
      return fromInterpreter(python);
    }
    if (found !== undefined) {
      first ??= missing(python, found);
    }
  }
  return (
    first ?? {
      message: "No Python was found. Install Python 3.10 or newer, or set stark.server.interpreter.",
      installInto: undefined,
    }
  );
}

function missing(interpreter: string, probe: Probe): LaunchProblem {
  const [major = 0, minor = 0] = probe.python.split(".").map(Number);
  if (major < 3 || (major === 3 && minor < 10)) {
    return {
      message: `stark-lsp needs Python 3.10 or newer, and ${interpreter} is Python ${probe.python}. Set stark.server.interpreter.`,
      installInto: undefined,
    };
  }
  return { message: `stark-lsp is not installed in ${interpreter}.`, installInto: interpreter };
}

export function isLaunch(found: Launch | LaunchProblem): found is Launch {
  return "command" in found;
}

/** The command that installs stark-lsp, to be typed into a POSIX shell or PowerShell. */
export function installCommand(interpreter: string, windows: boolean): string {
  if (!windows) {
    const quoted = /^[\w@%+=:,./-]+$/.test(interpreter) ? interpreter : `'${interpreter.replaceAll("'", `'\\''`)}'`;
    return `${quoted} -m pip install stark-lsp`;
  }
  return /\s/.test(interpreter)
    ? `& "${interpreter}" -m pip install stark-lsp`
    : `${interpreter} -m pip install stark-lsp`;
}
