// The settings as the server wants them: one nested object with the names of package.json, without `stark.`.

import { contributes } from "../../package.json";

/** Settings of the client itself, which the server is not told. */
const CLIENT_ONLY = /^(server|trace)\./;

/** Settings that the server reads, as the manifest lists them: there is no second list to keep in step. */
export const SERVER_SETTINGS: readonly string[] = contributes.configuration
  .flatMap((group) => Object.keys(group.properties))
  .map((name) => name.slice("stark.".length))
  .filter((name) => !CLIENT_ONLY.test(name));

/** Settings among them that hold a path. */
const PATHS: ReadonlySet<string> = new Set(["interpreter", "promptsDirectory"]);

export type Settings = Record<string, unknown>;

/**
 * Collect the settings; those that are empty or null are left out, so that the server's default holds.
 *
 * @param read gives the value of a setting by its name without `stark.`
 * @param expand fills in the variables of a path
 */
export function collectSettings(read: (name: string) => unknown, expand: (path: string) => string): Settings {
  const settings: Settings = {};
  for (const name of SERVER_SETTINGS) {
    let value = read(name);
    if (typeof value === "string" && PATHS.has(name)) {
      value = expand(value);
    }
    if (value !== undefined && value !== null && value !== "") {
      put(settings, name.split("."), value);
    }
  }
  return settings;
}

function put(target: Settings, path: readonly string[], value: unknown): void {
  const [head, ...rest] = path;
  if (head === undefined) {
    return;
  }
  if (rest.length === 0) {
    target[head] = value;
  } else {
    target[head] ??= {};
    put(target[head] as Settings, rest, value);
  }
}

/** How the terminal's commands are told a setting. */
const OPTIONS: Readonly<Record<string, (value: unknown) => string[]>> = {
  interpreter: (path) => ["--python", String(path)],
  device: (device) => ["--device", String(device)],
  mode: (mode) => ["--mode", String(mode)],
  isolation: (isolation) => ["--isolation", String(isolation)],
  compileBaseline: (wanted) => (wanted === false ? ["--baselines", "eager"] : []),
};

/** Options of a terminal's command that stand for some settings, where those are set. */
export function commandOptions(settings: Settings, names: readonly string[]): string[] {
  return names.flatMap((name) => (settings[name] === undefined ? [] : (OPTIONS[name]?.(settings[name]) ?? [])));
}
