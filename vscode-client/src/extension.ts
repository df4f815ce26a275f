// Entry point: puts the parts together. The features themselves are the server's.

import * as vscode from "vscode";
import type { Middleware } from "vscode-languageclient/node";
import { onInterpreterChanged } from "./common/python";
import { Server } from "./common/server";
import { SECTION } from "./common/settings";
import { optimizeHere } from "./features/optimize";
import { askForReason } from "./features/reject";
import { ReviewFeature } from "./features/review";
import { RunningFeature } from "./features/running";

let server: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const output = vscode.window.createOutputChannel("STARK", { log: true });
  const review = new ReviewFeature();
  const running = new RunningFeature();

  const middleware: Middleware = {
    handleWorkDoneProgress: (token, work, next) => {
      running.take(token, work);
      next(token, work);
    },
    executeCommand: async (command, args: unknown[], next) => {
      if (command === "stark.reject") {
        const complete = await askForReason(args);
        if (complete === undefined) {
          return undefined;
        }
        const answer: unknown = await next(command, complete);
        await review.close(args);
        return answer;
      }
      const answer: unknown = await next(command, args);
      if (command === "stark.review") {
        await review.show(answer, args);
      } else if (command === "stark.accept") {
        await review.close(args);
      }
      return answer;
    },
  };

  const started = new Server(context, output, middleware, () => running.clear());
  server = started;
  context.subscriptions.push(
    output,
    review,
    started,
    vscode.commands.registerCommand("stark.optimizeHere", optimizeHere),
    vscode.commands.registerCommand("stark.restart", () => started.restart()),
    vscode.commands.registerCommand("stark.showOutput", () => output.show()),
    vscode.commands.registerCommand("stark.cancelRun", () => vscode.commands.executeCommand("stark.cancel")),
    vscode.commands.registerCommand("stark.dismissPlans", () => vscode.commands.executeCommand("stark.dismiss")),
    vscode.workspace.onDidGrantWorkspaceTrust(() => started.restart()),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      // Of the others the server is told by the language client.
      if (event.affectsConfiguration(`${SECTION}.server`)) {
        await started.restart();
      }
    }),
  );
  await started.restart();
  // After the start: waking the Python extension can take seconds.
  context.subscriptions.push(
    await onInterpreterChanged(() => void (started.running ? started.sendSettings() : started.restart())),
  );
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
