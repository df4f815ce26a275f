// Entry point: puts the parts together. The features themselves are the server's.

import * as vscode from "vscode";
import type { Middleware, ShowDocumentResult } from "vscode-languageclient/node";
import type { Launch } from "./common/launch";
import { onInterpreterChanged } from "./common/python";
import { Server, type ServerState } from "./common/server";
import { SECTION } from "./common/settings";
import { chooseInterpreter } from "./features/interpreter";
import { KeyFeature } from "./features/key";
import { LendingFeature } from "./features/lending";
import { doHere } from "./features/optimize";
import { askForReason } from "./features/reject";
import { showInTab } from "./features/report";
import { ReviewFeature } from "./features/review";
import { RunningFeature } from "./features/running";
import { RunsFeature } from "./features/runs";
import { StandingFeature } from "./features/standing";
import { createDemo, judgeHere, runDoctor } from "./features/start";
import { askForHint, changeBudget } from "./features/steer";

let server: Server | undefined;
const noCancel = new vscode.CancellationTokenSource().token;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const output = vscode.window.createOutputChannel("STARK", { log: true });
  const ready = async (): Promise<boolean> => (await server?.ready()) ?? false;
  const review = new ReviewFeature(ready);
  const running = new RunningFeature();
  const lending = new LendingFeature(context.languageModelAccessInformation);
  const keys = new KeyFeature(context.secrets, () => void server?.tell("stark/key/changed"));

  const middleware: Middleware = {
    window: {
      showDocument: async (params, next) => {
        const shown = await showInTab(params.uri, params.external);
        return shown ? { success: true } : ((await next(params, noCancel)) as ShowDocumentResult);
      },
    },
    handleWorkDoneProgress: (token, work, next) => {
      running.take(token, work);
      standing.look();
      next(token, work);
    },
    executeCommand: async (command, args: unknown[], next) => {
      if (["stark.review", "stark.accept", "stark.reject"].includes(command)) {
        // This answers the question at the end of a run, and VS Code cannot take a message back.
        await vscode.commands.executeCommand("notifications.hideToasts");
      }
      if (command === "stark.reject") {
        const complete = await askForReason(args);
        if (complete === undefined) {
          return undefined;
        }
        const answer: unknown = await next(command, complete);
        await review.close(answer);
        return answer;
      }
      if (command === "stark.hint") {
        const complete = await askForHint(args);
        return complete === undefined ? undefined : ((await next(command, complete)) as unknown);
      }
      const answer: unknown = await next(command, args);
      if (command === "stark.review") {
        await review.show(answer);
      } else if (command === "stark.accept") {
        await review.close(answer);
      }
      return answer;
    },
  };

  const features = {
    provides: ["key", "model", "input", "runs"],
    answers: {
      "stark/key": (params: unknown) => keys.answer(params),
      "stark/model/describe": (params: unknown) => lending.describe(params),
      "stark/model/complete": (params: unknown, token: vscode.CancellationToken) => lending.complete(params, token),
    },
    secrets: keys.seen,
  };
  const began = (state: ServerState): void => {
    if (state.name === "starting") {
      running.clear();
    }
    standing.take(state);
    if (state.name === "running") {
      runs.refresh();
    }
  };
  const moved = (): void => {
    runs.refresh();
    standing.look();
  };
  const started = new Server(context, output, middleware, features, began, { "stark/runs/changed": moved });
  server = started;
  const runs = new RunsFeature(started, ready);
  const standing = new StandingFeature(started);
  /** A command of the palette that asks the server for something. */
  const asking = (command: string, ask: () => Promise<unknown>): vscode.Disposable =>
    vscode.commands.registerCommand(command, async () => ((await ready()) ? ask() : undefined));
  /** A command of the palette that runs the server's program. */
  const withProgram = (command: string, run: (program: Launch) => Promise<void>): vscode.Disposable =>
    vscode.commands.registerCommand(command, async () => {
      const program = await started.program();
      return program === undefined ? undefined : run(program);
    });
  const passing = (command: string, meant: string): vscode.Disposable =>
    asking(command, async () => vscode.commands.executeCommand(meant));
  context.subscriptions.push(
    output,
    review,
    runs,
    standing,
    keys,
    started,
    asking("stark.optimizeHere", () => doHere("stark.optimize")),
    vscode.commands.registerCommand("stark.createDemo", createDemo),
    withProgram("stark.doctor", runDoctor),
    withProgram("stark.judgeHere", judgeHere),
    asking("stark.captureHere", () => doHere("stark.captureInputs")),
    vscode.commands.registerCommand("stark.restart", () => (vscode.workspace.isTrusted ? started.restart() : ready())),
    vscode.commands.registerCommand("stark.chooseInterpreter", chooseInterpreter),
    vscode.commands.registerCommand("stark.showOutput", () => output.show()),
    passing("stark.cancelRun", "stark.cancel"),
    passing("stark.dismissPlans", "stark.dismiss"),
    passing("stark.showStatus", "stark.status"),
    passing("stark.showReport", "stark.openReport"),
    passing("stark.pauseRun", "stark.pause"),
    passing("stark.resumeRun", "stark.resume"),
    passing("stark.tellAgents", "stark.hint"),
    asking("stark.changeBudget", changeBudget),
    vscode.commands.registerCommand("stark.setKey", () => keys.set()),
    vscode.commands.registerCommand("stark.forgetKey", () => keys.forget()),
    vscode.workspace.onDidGrantWorkspaceTrust(() => started.restart()),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      // Of the others the server is told by the language client.
      const needed = event.affectsConfiguration(`${SECTION}.interpreter`) && !started.running;
      if (needed || event.affectsConfiguration(`${SECTION}.server`)) {
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
