// What is told to a run from the command palette, where it needs a question: a hint, a change of the budget.

import * as vscode from "vscode";
import { hasText, isAboutAttempt, LIMITS, parseLimit, withText } from "./steering";

/** The arguments of `stark.hint` with a text; undefined if the user left the question with Escape. */
export async function askForHint(args: readonly unknown[]): Promise<unknown[] | undefined> {
  if (hasText(args)) {
    return [...args];
  }
  const text = await vscode.window.showInputBox({
    title: "Tell the agents",
    prompt: `They are told with ${isAboutAttempt(args) ? "each attempt that goes on from this one" : "every attempt from now on"}.`,
    placeHolder: "for instance: keep float32, and look at the memory traffic first",
    ignoreFocusOut: true,
  });
  return text === undefined || text.trim() === "" ? undefined : withText(args, text.trim());
}

/** Ask which limit of the run is to be another one, and tell the server. */
export async function changeBudget(): Promise<void> {
  const picked = await vscode.window.showQuickPick(
    LIMITS.map((limit) => ({ label: limit.title, limit })),
    { title: "Change the budget of the run" },
  );
  if (picked === undefined) {
    return;
  }
  const { limit } = picked;
  const typed = await vscode.window.showInputBox({
    title: limit.title,
    prompt: limit.optional ? "A number; empty for no limit." : "A number.",
    ignoreFocusOut: true,
    validateInput: (text) => (parseLimit(limit, text) === undefined ? "This is no such number." : undefined),
  });
  const value = typed === undefined ? undefined : parseLimit(limit, typed);
  if (value !== undefined) {
    await vscode.commands.executeCommand("stark.budget", { [limit.field]: value });
  }
}
