// Review: a candidate in a diff editor, with Accept, Reject, Next candidate and Explain in its title bar. There is one
// such tab: what is shown next takes its place.

import * as vscode from "vscode";
import { parseReview, type Review } from "./protocol";
import { explain } from "./runs";

const PROPOSED = "stark-proposal";
const ORIGINAL = "stark-original";

export class ReviewFeature implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly shown = new Map<string, Review>();
  private readonly subscriptions: vscode.Disposable[];
  private count = 0;

  /** @param ready whether the server can be asked; tells the user where it cannot */
  constructor(private readonly ready: () => Promise<boolean>) {
    /** A command on the diff that is open, or on that of a title bar. */
    const onShown = (command: string, act: (review: Review) => unknown): vscode.Disposable =>
      vscode.commands.registerCommand(command, (uri?: vscode.Uri) => this.decide(act, uri));
    const asked = (command: string) => (review: Review) =>
      vscode.commands.executeCommand(command, { run: review.run, node: review.node });
    this.subscriptions = [
      vscode.workspace.registerTextDocumentContentProvider(PROPOSED, this),
      vscode.workspace.registerTextDocumentContentProvider(ORIGINAL, this),
      onShown("stark.acceptShown", asked("stark.accept")),
      onShown("stark.rejectShown", asked("stark.reject")),
      onShown("stark.nextShown", ({ run, next }) =>
        next === null
          ? vscode.window.showInformationMessage("No other candidate was verified.")
          : vscode.commands.executeCommand("stark.review", { run, node: next }),
      ),
      onShown("stark.explainShown", ({ run, node }) => explain(run, node)),
      vscode.workspace.onDidCloseTextDocument((document) => {
        if (document.uri.scheme === PROPOSED) {
          this.shown.delete(document.uri.query);
        }
      }),
    ];
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    const review = this.shown.get(uri.query);
    return (uri.scheme === PROPOSED ? review?.proposed : review?.original) ?? "";
  }

  /** Show what the server answered to `stark.review`; false if that is not a review. */
  async show(answer: unknown): Promise<boolean> {
    const review = parseReview(answer);
    if (review === undefined) {
      return false;
    }
    const key = String((this.count += 1));
    this.shown.set(key, review);
    const file = vscode.Uri.parse(review.uri);
    const side = (scheme: string): vscode.Uri => vscode.Uri.from({ scheme, path: file.path, query: key });
    const left = (await holds(file, review.original)) ? file : side(ORIGINAL);
    await vscode.commands.executeCommand("vscode.diff", left, side(PROPOSED), review.title, { preview: false });
    // Only now: the place of an editor that is closed first may be taken by another.
    await vscode.window.tabGroups.close(proposalTabs().filter((tab) => proposalOf(tab)?.query !== key));
    return true;
  }

  /** Close the diff of a run, once the server answered that its proposal is accepted or rejected. */
  async close(answer: unknown): Promise<void> {
    const { run } = (answer ?? {}) as { run?: unknown };
    const decided = (tab: vscode.Tab): boolean => this.shown.get(proposalOf(tab)?.query ?? "")?.run === run;
    if (typeof run === "string") {
      await vscode.window.tabGroups.close(proposalTabs().filter(decided));
    }
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  private async decide(act: (review: Review) => unknown, uri: vscode.Uri | undefined): Promise<void> {
    const proposal = uri?.scheme === PROPOSED ? uri : proposalOf(vscode.window.tabGroups.activeTabGroup.activeTab);
    const review = this.shown.get(proposal?.query ?? "");
    if (review === undefined) {
      void vscode.window.showInformationMessage("Open the diff of a proposal first.");
      return;
    }
    if (await this.ready()) {
      await act(review);
    }
  }
}

function proposalTabs(): vscode.Tab[] {
  return vscode.window.tabGroups.all.flatMap((group) => group.tabs).filter((tab) => proposalOf(tab) !== undefined);
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
