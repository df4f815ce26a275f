// Knows whether a run goes on. The progress itself is shown by VS Code: as a notification with a cancel button, or in
// the status bar once that is hidden.

import * as vscode from "vscode";
import type {
  ProgressToken,
  WorkDoneProgressBegin,
  WorkDoneProgressEnd,
  WorkDoneProgressReport,
} from "vscode-languageclient/node";

type Work = WorkDoneProgressBegin | WorkDoneProgressReport | WorkDoneProgressEnd;

export class RunningFeature {
  private readonly tokens = new Set<ProgressToken>();

  /** Take note of a progress message of the server. */
  take(token: ProgressToken, work: Work): void {
    if (work.kind === "begin") {
      this.tokens.add(token);
    } else if (work.kind === "end") {
      this.tokens.delete(token);
    }
    this.tell();
  }

  /** Forget everything: the server was restarted. */
  clear(): void {
    this.tokens.clear();
    this.tell();
  }

  /** The context key decides whether the palette offers to cancel. */
  private tell(): void {
    void vscode.commands.executeCommand("setContext", "stark.running", this.tokens.size > 0);
  }
}
