// The language status: what the server is doing, always there in Python files.

import * as vscode from "vscode";
import type { Server, ServerState } from "../common/server";
import { statusOf } from "./status";

/** At most one question in so many milliseconds, however often something is told. */
const PAUSE_MS = 500;

export class StandingFeature implements vscode.Disposable {
  private readonly item = vscode.languages.createLanguageStatusItem("stark.status", { language: "python" });
  private readonly subscription: vscode.Disposable;
  private timer: NodeJS.Timeout | undefined;
  private state: ServerState = { name: "starting" };

  constructor(private readonly server: Pick<Server, "ask">) {
    this.item.name = "STARK";
    this.show({});
    this.subscription = vscode.window.onDidChangeActiveTextEditor(() => this.look());
  }

  /** Take note of what became of the server. */
  take(state: ServerState): void {
    this.state = state;
    this.show({});
    this.look();
  }

  /** Ask the server a moment later; what is told until then is one question. */
  look(): void {
    if (this.state.name === "running") {
      this.timer ??= setTimeout(() => void this.ask(), PAUSE_MS);
    }
  }

  dispose(): void {
    clearTimeout(this.timer);
    vscode.Disposable.from(this.item, this.subscription).dispose();
  }

  private async ask(): Promise<void> {
    this.timer = undefined;
    const document = vscode.window.activeTextEditor?.document;
    const params = document?.uri.scheme === "file" ? { uri: document.uri.toString() } : {};
    try {
      const answer = await this.server.ask("stark/status", params);
      if (this.state.name === "running") {
        this.show(answer);
      }
    } catch {
      // It has stopped meanwhile, which is told as a state.
    }
  }

  private show(answer: unknown): void {
    const status = statusOf(this.state, answer, (path) => vscode.workspace.asRelativePath(path));
    const { Information, Warning } = vscode.LanguageStatusSeverity;
    this.item.text = status.text;
    this.item.detail = status.detail;
    this.item.busy = status.busy;
    this.item.severity = status.warning ? Warning : Information;
    this.item.command = { command: status.command, title: status.title };
  }
}
