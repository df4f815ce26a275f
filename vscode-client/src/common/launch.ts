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
  /** Its own path: what was asked may be a script that chooses among several. */
  readonly executable: string;
}

export interface LaunchSources {
  /** `stark.server.path`, empty if not set. */
  readonly path: string;
  /** `stark.server.interpreter`, empty if not set. */
  readonly interpreter: string;
  readonly arguments: readonly string[];
  /** The folder with the server and its libraries. */
  readonly bundle: string;
  /** Interpreters to try, the first ones first. */
  readonly pythons: AsyncIterable<string>;
}

/** Why no way was found, for the user. */
export interface LaunchProblem {
  readonly message: string;
}

/** Ask an interpreter; undefined if it cannot be started. */
export type Prober = (interpreter: string) => Promise<Probe | undefined>;

export async function findLaunch(sources: LaunchSources, probe: Prober): Promise<Launch | LaunchProblem> {
  const serve = ["serve", ...sources.arguments];
  if (sources.path !== "") {
    return { command: sources.path, args: serve };
  }
  // Nothing that is installed for this Python, and no variable of the environment, gets in between.
  const under = (found: Probe): Launch => ({ command: found.executable, args: ["-I", "-S", sources.bundle, ...serve] });
  if (sources.interpreter !== "") {
    const found = await probe(sources.interpreter);
    if (found !== undefined && recent(found)) {
      return under(found);
    }
    const why = found === undefined ? "cannot be started" : `is Python ${found.python}, and 3.10 or newer is needed`;
    return { message: `The interpreter ${sources.interpreter} (setting stark.server.interpreter) ${why}.` };
  }
  const older: string[] = [];
  const asked = new Set<string>();
  for await (const python of sources.pythons) {
    const found = asked.has(python) ? undefined : await probe(python);
    asked.add(python);
    if (found !== undefined && recent(found)) {
      return under(found);
    }
    if (found !== undefined) {
      older.push(`${found.executable} (${found.python})`);
    }
  }
  const only = older.length === 0 ? "none was found" : `only ${older.join(", ")} was found`;
  return { message: `STARK needs Python 3.10 or newer, and ${only}. Install one, or choose an interpreter.` };
}

function recent(probe: Probe): boolean {
  const [major = 0, minor = 0] = probe.python.split(".").map(Number);
  return major > 3 || (major === 3 && minor >= 10);
}

export function isLaunch(found: Launch | LaunchProblem): found is Launch {
  return "command" in found;
}
