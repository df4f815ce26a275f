// Reject: asks for a reason, which the next run on the class is told.

import * as vscode from "vscode";
import { hasReason, withReason } from "./reason";

/** The arguments with a reason; undefined if the user left the question with Escape. */
export async function askForReason(args: readonly unknown[]): Promise<unknown[] | undefined> {
  if (hasReason(args)) {
    return [...args];
  }
  const reason = await vscode.window.showInputBox({
    title: "Reject the proposal",
    prompt: "Why? The next run on this class takes it into account. May stay empty.",
    placeHolder: "for instance: too hard to maintain",
    ignoreFocusOut: true,
  });
  return reason === undefined ? undefined : withReason(args, reason.trim());
}
