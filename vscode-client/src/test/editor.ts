// The part of VS Code's API that the features under test use, with handles to play the editor and the user.

import type * as vscode from "vscode";

export class LanguageModelTextPart {
  constructor(readonly value: string) {}
}

export class LanguageModelToolCallPart {
  constructor(
    readonly callId: string,
    readonly name: string,
    readonly input: object,
  ) {}
}

/** What withdraws a question. */
export class CancellationTokenSource {
  private readonly listeners = new Set<() => void>();

  readonly token = {
    isCancellationRequested: false,
    onCancellationRequested: (listener: () => void) => {
      this.listeners.add(listener);
      return { dispose: () => void this.listeners.delete(listener) };
    },
  };

  cancel(): void {
    this.token.isCancellationRequested = true;
    this.listeners.forEach((listener) => listener());
  }

  dispose(): void {
    this.listeners.clear();
  }
}

export const LanguageModelChatMessage = {
  User: (content: string) => ({ role: "user", content }),
  Assistant: (content: string) => ({ role: "assistant", content }),
};

export const LanguageModelChatToolMode = { Auto: 1, Required: 2 };

/** What the editor has, and what was done with it. */
export const played = {
  models: [] as unknown[],
  /** What the user types into the next input box; undefined is Escape. */
  typed: undefined as string | undefined,
  boxes: [] as vscode.InputBoxOptions[],
  messages: [] as string[],
};

export const lm = { selectChatModels: async () => played.models };

export const window = {
  showInputBox: async (options: vscode.InputBoxOptions) => {
    played.boxes.push(options);
    return played.typed;
  },
  showInformationMessage: async (message: string) => void played.messages.push(message),
};

/** A secret storage that tells of changes, as VS Code's does. */
export class Secrets {
  readonly kept = new Map<string, string>();
  private readonly listeners = new Set<(event: { key: string }) => void>();

  readonly onDidChange = (listener: (event: { key: string }) => void) => {
    this.listeners.add(listener);
    return { dispose: () => void this.listeners.delete(listener) };
  };

  async get(key: string): Promise<string | undefined> {
    return this.kept.get(key);
  }

  async store(key: string, value: string): Promise<void> {
    this.kept.set(key, value);
    this.tell(key);
  }

  async delete(key: string): Promise<void> {
    this.kept.delete(key);
    this.tell(key);
  }

  private tell(key: string): void {
    for (const listener of this.listeners) {
      listener({ key });
    }
  }
}

type Parts = AsyncIterable<unknown> | Error;

/** A model that answers with these parts, or refuses; a token is a character. */
export function model(
  family: string,
  answer: (messages: unknown[], options: unknown, token: vscode.CancellationToken) => Parts,
) {
  return {
    id: `id-${family}`,
    name: family.toUpperCase(),
    family,
    vendor: "test",
    countTokens: async (text: string) => text.length,
    sendRequest: async (messages: unknown[], options: unknown, token: vscode.CancellationToken) => {
      const stream = answer(messages, options, token);
      if (stream instanceof Error) {
        throw stream;
      }
      return { stream };
    },
  };
}
