// "Optimize the class at the cursor": the server knows which class that is, or says why there is none.

import * as vscode from "vscode";

export async function optimizeHere(): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  const { languageId, uri } = editor?.document ?? {};
  if (editor === undefined || languageId !== "python" || uri?.scheme !== "file") {
    void vscode.window.showInformationMessage("Put the cursor into an nn.Module class of a Python file that is saved.");
    return;
  }
  await vscode.commands.executeCommand("stark.optimize", { uri: uri.toString(), line: editor.selection.active.line });
}
