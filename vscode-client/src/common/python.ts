// The interpreter chosen in the Python extension (ms-python.python), if that extension is there.

import * as vscode from "vscode";

/** The part of the Python extension's public API that is used here. */
interface PythonApi {
  readonly environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(
      environment: { readonly path: string } | string,
    ): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

const PYTHON = "ms-python.python";
/** How long the Python extension may take to tell; the server's settings wait for it. */
const LIMIT_MS = 15_000;
/** Whether it has taken longer, so that the settings are to be told again. */
let late = false;

export function hasPythonExtension(): boolean {
  return vscode.extensions.getExtension(PYTHON) !== undefined;
}

async function pythonApi(): Promise<PythonApi | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>(PYTHON);
  if (extension === undefined) {
    return undefined;
  }
  const api = extension.isActive ? extension.exports : await extension.activate();
  return (api as Partial<PythonApi> | undefined)?.environments === undefined ? undefined : api;
}

/**
 * Path of the interpreter that the user chose for a workspace folder, by default the first; undefined without one, or
 * where the Python extension does not tell it.
 */
export async function activeInterpreter(
  folder = vscode.workspace.workspaceFolders?.[0]?.uri,
): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => {
      late = true;
      resolve(undefined);
    }, LIMIT_MS);
  });
  try {
    return await Promise.race([chosen(folder), over]);
  } catch (error) {
    console.warn("STARK: the Python extension does not tell the interpreter.", error);
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

async function chosen(folder: vscode.Uri | undefined): Promise<string | undefined> {
  const api = await pythonApi();
  if (api === undefined) {
    return undefined;
  }
  const environment = await api.environments.resolveEnvironment(api.environments.getActiveEnvironmentPath(folder));
  return environment?.executable.uri?.fsPath;
}

/** Call `listener` whenever the user chooses another interpreter. */
export async function onInterpreterChanged(listener: () => void): Promise<vscode.Disposable> {
  const api = await pythonApi().catch(() => undefined);
  if (late) {
    listener();
  }
  return api?.environments.onDidChangeActiveEnvironmentPath(listener) ?? new vscode.Disposable(() => undefined);
}
