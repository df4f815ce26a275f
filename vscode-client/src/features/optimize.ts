// "Optimize the class at the cursor": the server's code action or lens, found without the mouse.

import * as vscode from "vscode";
import { offerAt, type Offer } from "./classes";

export async function optimizeHere(): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) {
    void vscode.window.showInformationMessage("Open a Python file and put the cursor into an nn.Module class.");
    return;
  }
  if (!vscode.workspace.isTrusted) {
    void vscode.window.showInformationMessage("Optimizing a module runs it. Trust this folder first.");
    await vscode.commands.executeCommand("workbench.trust.manage");
    return;
  }
  const { document, selection } = editor;
  const line = selection.active.line;
  // The code actions know where a class ends; the lenses know all classes of the file.
  const offer = offerAt(await fromActions(document, selection), line) ?? offerAt(await fromLenses(document), line);
  if (offer === undefined) {
    void vscode.window.showInformationMessage("STARK sees no nn.Module class in this file.");
    return;
  }
  if (offer.command === "stark.addInputs") {
    const add = "Add get_inputs";
    const message = "This class has no inputs yet, and without inputs it cannot be run.";
    if ((await vscode.window.showInformationMessage(message, add)) !== add) {
      return;
    }
  }
  await vscode.commands.executeCommand(offer.command, ...offer.arguments);
}

async function fromActions(document: vscode.TextDocument, range: vscode.Range): Promise<Offer[]> {
  const actions = await vscode.commands.executeCommand<(vscode.CodeAction | vscode.Command)[] | undefined>(
    "vscode.executeCodeActionProvider",
    document.uri,
    range,
  );
  return (actions ?? []).flatMap((action) => {
    const command = typeof action.command === "string" ? (action as vscode.Command) : action.command;
    return command === undefined ? [] : [asOffer(command, range.start.line)];
  });
}

async function fromLenses(document: vscode.TextDocument): Promise<Offer[]> {
  const lenses = await vscode.commands.executeCommand<vscode.CodeLens[] | undefined>(
    "vscode.executeCodeLensProvider",
    document.uri,
    100,
  );
  return (lenses ?? []).flatMap((lens) =>
    lens.command === undefined ? [] : [asOffer(lens.command, lens.range.start.line)],
  );
}

function asOffer(command: vscode.Command, line: number): Offer {
  return { command: command.command, arguments: (command.arguments ?? []) as unknown[], line };
}
