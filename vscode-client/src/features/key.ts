// The API key: kept in VS Code's secret storage, handed to the server when a run needs it, in no setting and no log.

import * as vscode from "vscode";
import { isKey, parseKeyRequest } from "./secrets";

const STORED_AS = "stark.anthropic.key";

export class KeyFeature implements vscode.Disposable {
  /** Keys seen since the start, for `redacting`. */
  readonly seen = new Set<string>();
  private readonly subscription: vscode.Disposable;

  /** @param onChanged called when the key was set or forgotten, in this window or another one */
  constructor(
    private readonly secrets: vscode.SecretStorage,
    onChanged: () => void,
  ) {
    this.subscription = secrets.onDidChange((event) => {
      if (event.key === STORED_AS) {
        onChanged();
      }
    });
  }

  /** Answer `stark/key`; the user is asked only where the server says that the service is what they want. */
  async answer(request: unknown): Promise<{ key: string } | null> {
    const { known, ask } = parseKeyRequest(request);
    if (!known) {
      return null;
    }
    const key = (await this.secrets.get(STORED_AS)) ?? (ask ? await this.set() : undefined);
    if (key === undefined || key === "") {
      return null;
    }
    this.seen.add(key);
    return { key };
  }

  /** Ask for the key and keep it; undefined if the user left the question. */
  async set(): Promise<string | undefined> {
    const typed = await vscode.window.showInputBox({
      title: "STARK: API key for Claude",
      prompt: "Kept in VS Code's secret storage. Runs that ask Claude are paid for with it.",
      password: true,
      ignoreFocusOut: true,
      validateInput: (text) => (text.trim() === "" || isKey(text.trim()) ? undefined : "A key has no spaces."),
    });
    const key = typed?.trim();
    if (key === undefined || !isKey(key)) {
      return undefined;
    }
    this.seen.add(key);
    await this.secrets.store(STORED_AS, key);
    return key;
  }

  async forget(): Promise<void> {
    await this.secrets.delete(STORED_AS);
    void vscode.window.showInformationMessage(
      "STARK has forgotten the API key. A run that is going on uses it until it ends.",
    );
  }

  dispose(): void {
    this.subscription.dispose();
  }
}
