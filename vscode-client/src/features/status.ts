// A status bar item while a run goes on.

import * as vscode from "vscode";
import type {
  ProgressToken,
  WorkDoneProgressBegin,
  WorkDoneProgressEnd,
  WorkDoneProgressReport,
} from "vscode-languageclient/node";

type Work = WorkDoneProgressBegin | WorkDoneProgressReport | WorkDoneProgressEnd;

export class StatusFeature implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem("stark.run", vscode.StatusBarAlignment.Left, 10);
  private readonly running = new Map<ProgressToken, { title: string; message: string }>();

  constructor() {
    this.item.name = "STARK run";
    this.item.command = "stark.showOutput";
  }

  /** Take note of a progress message of the server. */
  take(token: ProgressToken, work: Work): void {
    const known = this.running.get(token);
    if (work.kind === "begin") {
      this.running.set(token, { title: work.title, message: work.message ?? "" });
    } else if (work.kind === "end") {
      this.running.delete(token);
    } else if (known !== undefined && work.message !== undefined) {
      known.message = work.message;
    }
    this.refresh();
  }

  /** Forget everything: the server was restarted. */
  clear(): void {
    this.running.clear();
    this.refresh();
  }

  dispose(): void {
    this.item.dispose();
  }

  private refresh(): void {
    const runs = [...this.running.values()];
    void vscode.commands.executeCommand("setContext", "stark.running", runs.length > 0);
    const latest = runs.at(-1);
    if (latest === undefined) {
      this.item.hide();
      return;
    }
    const more = runs.length > 1 ? ` (${runs.length} runs)` : "";
    this.item.text = `$(sync~spin) STARK${more}: ${latest.message || latest.title}`;
    this.item.tooltip = runs.map((run) => `${run.title}: ${run.message}`).join("\n");
    this.item.show();
  }
}
