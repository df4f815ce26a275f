// Review: the proposal in a diff editor, with Accept and Reject in its title bar.

import * as vscode from "vscode";
import { parseReview, type Review } from "./protocol";

const PROPOSED = "stark-proposal";
const ORIGINAL = "stark-original";

interface Shown {
  readonly review: Review;
  /** What the lens's `stark.review` carried; accept and reject take the same. */
  readonly arguments: readonly unknown[];
}

export class ReviewFeature implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly shown = new Map<string, Shown>();
  private readonly subscriptions: vscode.Disposable[];
  private count = 0;

  /** @param ready whether the server can be asked; tells the user where it cannot */
  constructor(private readonly ready: () => Promise<boolean>) {
    this.subscriptions = [
      vscode.workspace.registerTextDocumentContentProvider(PROPOSED, this),
      vscode.workspace.registerTextDocumentContentProvider(ORIGINAL, this),
      vscode.commands.registerCommand("stark.acceptShown", (uri?: vscode.Uri) => this.decide("stark.accept", uri)),
      vscode.commands.registerCommand("stark.rejectShown", (uri?: vscode.Uri) => this.decide("stark.reject", uri)),
      vscode.workspace.onDidCloseTextDocument((document) => {
        if (document.uri.scheme === PROPOSED) {
          this.shown.delete(document.uri.query);
        }
      }),
    ];
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    const review = this.shown.get(uri.query)?.review;
    return (uri.scheme === PROPOSED ? review?.proposed : review?.original) ?? "";
  }

  /** Show what the server answered to `stark.review`; false if that is not a review. */
  async show(answer: unknown, args: readonly unknown[]): Promise<boolean> {
    const review = parseReview(answer);
    if (review === undefined) {
      return false;
    }
    const key = String((this.count += 1));
    this.shown.set(key, { review, arguments: args });
    const file = vscode.Uri.parse(review.uri);
    const side = (scheme: string): vscode.Uri => vscode.Uri.from({ scheme, path: file.path, query: key });
    const left = (await holds(file, review.original)) ? file : side(ORIGINAL);
    await vscode.commands.executeCommand("vscode.diff", left, side(PROPOSED), review.title, { preview: false });
    return true;
  }

  /** Close the diffs that belong to a proposal, once it is accepted or rejected. */
  async close(args: readonly unknown[]): Promise<void> {
    const wanted = JSON.stringify(args);
    const keys = [...this.shown].filter(([, shown]) => JSON.stringify(shown.arguments) === wanted).map(([key]) => key);
    const tabs = vscode.window.tabGroups.all
      .flatMap((group) => group.tabs)
      .filter((tab) => keys.includes(proposalOf(tab)?.query ?? ""));
    await vscode.window.tabGroups.close(tabs);
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  private async decide(command: string, uri: vscode.Uri | undefined): Promise<void> {
    const proposal = uri?.scheme === PROPOSED ? uri : proposalOf(vscode.window.tabGroups.activeTabGroup.activeTab);
    const shown = this.shown.get(proposal?.query ?? "");
    if (shown === undefined) {
      void vscode.window.showInformationMessage("Open the diff of a proposal first.");
      return;
    }
    if (await this.ready()) {
      await vscode.commands.executeCommand(command, ...shown.arguments);
    }
  }
}

/** The proposal that a tab shows, if it is one of our diffs. */
function proposalOf(tab: vscode.Tab | undefined): vscode.Uri | undefined {
  const input = tab?.input;
  return input instanceof vscode.TabInputTextDiff && input.modified.scheme === PROPOSED ? input.modified : undefined;
}

/** Whether a file is there with exactly this text; the diff is then against the file itself and follows its edits. */
async function holds(file: vscode.Uri, text: string): Promise<boolean> {
  try {
    return (await vscode.workspace.openTextDocument(file)).getText() === text;
  } catch {
    return false;
  }
}
