// The view of runs: every run of the store with its search tree, what there is to read of an attempt, and what can be done.

import * as vscode from "vscode";
import type { Server } from "../common/server";
import { addressed, type Attempt, contextOf, type Icon, iconOfAttempt, iconOfRun, isUnderWay, parseAddress, parseRuns, parseTree, type Run, type Tree } from "./tree";

const SCHEME = "stark-run";
const VIEW = "stark.runs";
/** Runs that are listed, and that *Older runs* adds. */
const PAGE = 50;

type Element =
  | { readonly kind: "run"; readonly run: Run }
  | { readonly kind: "attempt"; readonly run: Run; readonly attempt: Attempt }
  | { readonly kind: "more" };

export class RunsFeature implements vscode.TreeDataProvider<Element>, vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.changed.event;
  private readonly trees = new Map<string, Tree>();
  private readonly subscriptions: vscode.Disposable[];
  private limit = PAGE;

  /** @param ready whether the server can be asked; tells the user where it cannot */
  constructor(
    private readonly server: Pick<Server, "ask" | "running">,
    ready: () => Promise<boolean>,
  ) {
    /** A command on an element of the view, or one that the server is asked. */
    const onItem = (command: string, act: (element: Element) => unknown): vscode.Disposable =>
      vscode.commands.registerCommand(command, async (element?: Element) => {
        if (element !== undefined && (await ready())) {
          await act(element);
        }
      });
    /** A command of the server's on a run or an attempt. */
    const passed = (command: string) => (element: Element) => vscode.commands.executeCommand(command, targetOf(element));
    const reading = (part: string) => (element: Element) => this.open(element, part);
    const view = vscode.window.createTreeView(VIEW, { treeDataProvider: this, showCollapseAll: true });
    this.subscriptions = [
      this.changed,
      view,
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.commands.registerCommand("stark.runs.refresh", () => this.refresh()),
      vscode.commands.registerCommand("stark.runs.older", () => {
        this.limit += PAGE;
        this.refresh();
      }),
      onItem("stark.runs.open", reading("source")),
      onItem("stark.runs.original", (element) => show({ ...targetOf(element), node: 0, part: "source" })),
      onItem("stark.runs.diffParent", (element) => this.compare(element, false)),
      onItem("stark.runs.diffOriginal", (element) => this.compare(element, true)),
      onItem("stark.runs.plan", reading("plan")),
      onItem("stark.runs.verdict", reading("verdict")),
      onItem("stark.runs.profile", reading("profile")),
      onItem("stark.runs.prompts", reading("prompts")),
      onItem("stark.runs.report", passed("stark.openReport")),
      onItem("stark.runs.cancel", passed("stark.cancel")),
      onItem("stark.runs.pause", passed("stark.pause")),
      onItem("stark.runs.resume", passed("stark.resume")),
      onItem("stark.runs.hint", passed("stark.hint")),
      onItem("stark.runs.pin", passed("stark.pin")),
      onItem("stark.runs.unpin", passed("stark.unpin")),
      onItem("stark.runs.prune", passed("stark.prune")),
      onItem("stark.runs.restore", passed("stark.restore")),
      onItem("stark.runs.review", passed("stark.review")),
      onItem("stark.runs.accept", passed("stark.accept")),
    ];
  }

  /** Ask again for what is on the screen. */
  refresh(): void {
    this.changed.fire(undefined);
  }

  async getChildren(element?: Element): Promise<Element[]> {
    if (!this.server.running) {
      return [];
    }
    if (element === undefined) {
      const { runs, more } = parseRuns(await this.server.ask("stark/runs", { limit: this.limit }));
      const listed: Element[] = runs.map((run) => ({ kind: "run", run }));
      return more ? [...listed, { kind: "more" }] : listed;
    }
    if (element.kind === "run") {
      this.trees.set(element.run.run, parseTree(await this.server.ask("stark/runs/tree", { run: element.run.run })));
    }
    return element.kind === "more" ? [] : this.below(element.run, element.kind === "run" ? 0 : element.attempt.node);
  }

  getTreeItem(element: Element): vscode.TreeItem {
    if (element.kind === "more") {
      const older = new vscode.TreeItem("Older runs…");
      older.command = { command: "stark.runs.older", title: "Older runs" };
      return older;
    }
    const { Collapsed, Expanded, None } = vscode.TreeItemCollapsibleState;
    const { run } = element;
    const shown = element.kind === "run" ? run : element.attempt;
    const item = new vscode.TreeItem(shown.label);
    item.description = shown.description;
    item.tooltip = shown.tooltip;
    item.contextValue = contextOf(element.kind, shown);
    item.accessibilityInformation = { label: `${shown.label}, ${shown.description.replaceAll(" · ", ", ")}` };
    if (element.kind === "run") {
      item.id = run.run;
      item.iconPath = themed(iconOfRun(run));
      item.collapsibleState = isUnderWay(run) ? Expanded : Collapsed;
      return item;
    }
    const { attempt } = element;
    item.id = `${run.run}/${attempt.node}`;
    item.iconPath = themed(iconOfAttempt(attempt));
    item.collapsibleState = this.below(run, attempt.node).length > 0 ? Expanded : None;
    if (attempt.can.includes("source")) {
      item.command = { command: "stark.runs.open", title: "Open candidate", arguments: [element] };
    }
    return item;
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const answer = await this.server.ask("stark/runs/text", parseAddress(uri.query));
    const { text } = (answer ?? {}) as { text?: unknown };
    return typeof text === "string" ? text : "";
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  private below(run: Run, node: number): Element[] {
    const attempts = this.trees.get(run.run)?.get(node) ?? [];
    return attempts.map((attempt) => ({ kind: "attempt", run, attempt }));
  }

  private async open(element: Element, part: string): Promise<void> {
    if (element.kind === "attempt") {
      await show({ run: element.run.run, node: element.attempt.node, part });
    }
  }

  /** Show the difference of a candidate to what it goes on from, or to the class as it was. */
  private async compare(element: Element, original: boolean): Promise<void> {
    if (element.kind !== "attempt") {
      return;
    }
    const { run, attempt } = element;
    const before = original ? 0 : attempt.parent;
    const side = (node: number): vscode.Uri => uriOf({ run: run.run, node, part: "source" });
    const name = before === 0 ? "original" : `attempt ${before}`;
    const title = `${run.label}: ${name} ↔ attempt ${attempt.node}`;
    await vscode.commands.executeCommand("vscode.diff", side(before), side(attempt.node), title, { preview: true });
  }
}

/** Open plan and verdict of an attempt beside what is looked at. */
export async function explain(run: string, node: number): Promise<void> {
  await show({ run, node, part: "evidence" }, vscode.ViewColumn.Beside);
}

function targetOf(element: Element): { run: string; node?: number } {
  if (element.kind === "more") {
    return { run: "" };
  }
  return element.kind === "run" ? { run: element.run.run } : { run: element.run.run, node: element.attempt.node };
}

function uriOf(address: Parameters<typeof addressed>[0]): vscode.Uri {
  return vscode.Uri.from({ scheme: SCHEME, ...addressed(address) });
}

async function show(address: Parameters<typeof addressed>[0], viewColumn?: vscode.ViewColumn): Promise<void> {
  const document = await vscode.workspace.openTextDocument(uriOf(address));
  await vscode.window.showTextDocument(document, { preview: true, ...(viewColumn === undefined ? {} : { viewColumn }) });
}

function themed({ icon, color }: Icon): vscode.ThemeIcon {
  return new vscode.ThemeIcon(icon, color === undefined ? undefined : new vscode.ThemeColor(color));
}
