// Reads VS Code's settings.

import * as os from "node:os";
import * as vscode from "vscode";
import { type ExpandContext, expandPath, expandProgram } from "./expand";
import { collectSettings, type Settings } from "./options";
import { activeInterpreter } from "./python";

export const SECTION = "stark";

function context(folder = vscode.workspace.workspaceFolders?.[0]?.uri): ExpandContext {
  return {
    home: os.homedir(),
    workspaceFolder: folder?.fsPath,
    env: process.env,
  };
}

/** The project's interpreter, where it is set. */
export function interpreterSetting(): string | undefined {
  const set = vscode.workspace.getConfiguration(SECTION).get<string | null>("interpreter");
  return set ? expandProgram(set, context()) : undefined;
}

/**
 * What the server is told: the settings, with the Python extension's interpreter where none is set.
 *
 * @param folder the workspace folder that they are for; the window's without one
 */
export async function serverSettings(folder?: vscode.Uri): Promise<Settings> {
  const configuration = vscode.workspace.getConfiguration(SECTION, folder);
  const settings = collectSettings(
    (name) => configuration.get(name),
    (path) => expandPath(path, context(folder)),
  );
  const interpreter = settings["interpreter"] ?? (await activeInterpreter(folder));
  return interpreter === undefined ? settings : { ...settings, interpreter };
}

/** How to start the server, as set by the user; empty strings where nothing is set. */
export interface LaunchSettings {
  readonly path: string;
  readonly interpreter: string;
  readonly arguments: readonly string[];
}

export function launchSettings(): LaunchSettings {
  const configuration = vscode.workspace.getConfiguration(`${SECTION}.server`);
  return {
    path: expandProgram(configuration.get<string>("path", ""), context()),
    interpreter: expandProgram(configuration.get<string>("interpreter", ""), context()),
    arguments: configuration.get<string[]>("arguments", []),
  };
}
