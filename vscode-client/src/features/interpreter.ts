// "Choose interpreter": the Python of the user's project, the one that has torch.

import * as vscode from "vscode";
import { probeInterpreter } from "../common/probe";
import { hasPythonExtension } from "../common/python";
import { SECTION } from "../common/settings";

export async function chooseInterpreter(): Promise<void> {
  const configuration = vscode.workspace.getConfiguration(SECTION);
  // The setting wins over the Python extension: where it is set, it is what has to be changed.
  if (!configuration.get<string | null>("interpreter") && hasPythonExtension()) {
    await vscode.commands.executeCommand("python.setInterpreter");
    return;
  }
  const picked = await vscode.window.showOpenDialog({
    title: "The Python of your project: the one that has torch, for instance .venv/bin/python",
    openLabel: "Choose",
    defaultUri: vscode.workspace.workspaceFolders?.[0]?.uri,
  });
  const chosen = picked?.[0]?.fsPath;
  if (chosen === undefined) {
    return;
  }
  // In a folder that is not trusted nothing is started, not even to look at it.
  if (vscode.workspace.isTrusted && (await probeInterpreter(chosen)) === undefined) {
    const again = "Choose another";
    const message = `${chosen} is not a Python interpreter.`;
    if ((await vscode.window.showErrorMessage(message, again)) === again) {
      await chooseInterpreter();
    }
    return;
  }
  await configuration.update("interpreter", chosen, whereSet(configuration));
}

/** Where the setting is set already, else in the workspace, where there is one. */
function whereSet(configuration: vscode.WorkspaceConfiguration): vscode.ConfigurationTarget {
  const set = configuration.inspect("interpreter");
  if (set?.workspaceFolderValue !== undefined) {
    return vscode.ConfigurationTarget.WorkspaceFolder;
  }
  const inWorkspace = set?.workspaceValue !== undefined || set?.globalValue === undefined;
  return inWorkspace && vscode.workspace.workspaceFolders !== undefined
    ? vscode.ConfigurationTarget.Workspace
    : vscode.ConfigurationTarget.Global;
}
