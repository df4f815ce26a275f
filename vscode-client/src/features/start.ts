// The first steps: a small module to try it on, and the terminal's commands that say what is missing or judge a file.

import * as path from "node:path";
import * as vscode from "vscode";
import demo from "../../../samples/new_gelu.py";
import type { Launch } from "../common/launch";
import { commandOptions } from "../common/options";
import { serverSettings } from "../common/settings";

const DEMO = "stark_demo.py";

/** Put a small module into the folder, unless it is there, and show it. */
export async function createDemo(): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  if (folder === undefined) {
    const open = "Open folder";
    if ((await vscode.window.showInformationMessage("Open a folder first: the module is written into it.", open)) === open) {
      await vscode.commands.executeCommand("vscode.openFolder");
    }
    return;
  }
  const file = vscode.Uri.joinPath(folder, DEMO);
  if (!(await exists(file))) {
    await vscode.workspace.fs.writeFile(file, Buffer.from(demo));
  }
  const editor = await vscode.window.showTextDocument(file);
  const { line } = editor.document.positionAt(demo.indexOf("class "));
  editor.selection = new vscode.Selection(line, 0, line, 0);
}

/** Check what optimizing needs, as `stark-lsp doctor` does. */
export async function runDoctor(server: Launch): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.[0];
  const options = commandOptions(await serverSettings(), ["interpreter"]);
  await inTerminal("Doctor", server, ["doctor", ...options], folder);
}

/** Judge the file that is shown against the class of another one, as `stark-lsp judge` does. */
export async function judgeHere(server: Launch): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (document?.languageId !== "python" || document.uri.scheme !== "file") {
    void vscode.window.showInformationMessage("Open the Python file that is to be judged, with its class ModelNew.");
    return;
  }
  const picked = await vscode.window.showOpenDialog({
    title: `Judge ${path.basename(document.fileName)} against the class of…`,
    openLabel: "Judge",
    filters: { Python: ["py"] },
    defaultUri: vscode.Uri.joinPath(document.uri, ".."),
  });
  const reference = picked?.[0]?.fsPath;
  if (reference !== undefined && (await document.save())) {
    const folder = vscode.workspace.getWorkspaceFolder(document.uri);
    const settings = await serverSettings(folder?.uri);
    const options = commandOptions(settings, ["interpreter", "device", "mode", "isolation", "compileBaseline"]);
    await inTerminal("Judge", server, ["judge", reference, document.fileName, ...options], folder);
  }
}

/** Run a command of the server's program where its output can be read; no shell has a word in it. */
async function inTerminal(
  title: string,
  server: Launch,
  words: readonly string[],
  folder: vscode.WorkspaceFolder | undefined,
): Promise<void> {
  const program = server.args.slice(0, server.args.indexOf("serve"));
  const execution = new vscode.ProcessExecution(server.command, [...program, ...words], folder && { cwd: folder.uri.fsPath });
  const scope = folder ?? vscode.TaskScope.Workspace;
  const task = new vscode.Task({ type: "stark", command: title }, scope, title, "STARK", execution);
  task.presentationOptions = { clear: true, focus: true };
  await vscode.tasks.executeTask(task);
}

async function exists(file: vscode.Uri): Promise<boolean> {
  try {
    await vscode.workspace.fs.stat(file);
    return true;
  } catch {
    return false;
  }
}
