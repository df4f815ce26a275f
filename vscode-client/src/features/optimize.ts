// What is asked of the class at the cursor: the server knows which class that is, or says why there is none.

import * as vscode from "vscode";

/** Files and cells of notebooks: the server knows both. */
const ON_DISK = ["file", "vscode-notebook-cell"];

/** Have the server do something with the class at the cursor. */
export async function doHere(command: "stark.optimize" | "stark.captureInputs"): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  const { languageId, uri } = editor?.document ?? {};
  if (editor === undefined || languageId !== "python" || uri === undefined || !ON_DISK.includes(uri.scheme)) {
    void vscode.window.showInformationMessage("Put the cursor into an nn.Module class of a Python file that is saved.");
    return;
  }
  await vscode.commands.executeCommand(command, { uri: uri.toString(), line: editor.selection.active.line });
}
