// The page of a run, as a tab where the server is on another machine than the window: a browser here cannot read a file
// there, as over Remote-SSH.

import * as vscode from "vscode";

let panel: vscode.WebviewPanel | undefined;
let page = "";

/** Show a page in a tab of the editor if it cannot be shown in a browser; false if it can. */
export async function showInTab(uri: string, external: boolean | undefined): Promise<boolean> {
  if (external !== true || vscode.env.remoteName === undefined) {
    return false;
  }
  page = Buffer.from(await vscode.workspace.fs.readFile(vscode.Uri.parse(uri))).toString();
  panel ??= opened();
  panel.webview.html = forTab(page);
  panel.reveal();
  return true;
}

function opened(): vscode.WebviewPanel {
  const { Active } = vscode.ViewColumn;
  const made = vscode.window.createWebviewPanel("stark.report", "STARK: report", Active, { enableFindWidget: true });
  const themes = vscode.window.onDidChangeActiveColorTheme(() => (made.webview.html = forTab(page)));
  made.onDidDispose(() => {
    themes.dispose();
    panel = undefined;
  });
  return made;
}

/** A tab has the editor's theme, and its links select nothing: all attempts are shown. No script runs. */
function forTab(page: string): string {
  const { Dark, HighContrast } = vscode.ColorThemeKind;
  const dark = [Dark, HighContrast].includes(vscode.window.activeColorTheme.kind);
  return page
    .replace(/style-src '[^']*'/, "style-src 'unsafe-inline'")
    .replace("@media (prefers-color-scheme: dark) {", `@media ${dark ? "all" : "not all"} {`)
    .replace("article { display: none; }", "article { display: block; }");
}
