// Lends the editor's language model to the server, after the user's consent: VS Code asks for it with the first question,
// which a click on Optimize led to.

import * as vscode from "vscode";
import { type Answer, type Call, choose, collect, failure, label, type Part, parseCall } from "./conversation";

/** What `stark/model/describe` is answered. */
export interface Description {
  readonly models: readonly { readonly id: string; readonly name: string }[];
  readonly consent: "given" | "refused" | "unasked";
}

export class LendingFeature {
  /** Whether the user refused since the window was opened; VS Code itself does not always remember. */
  private refused = false;

  constructor(private readonly access: vscode.LanguageModelAccessInformation) {}

  /**
   * Say which models there are, without asking anybody.
   *
   * @param params `named` in it: the user chose the editor's model by name, so an earlier refusal does not count
   */
  async describe(params: unknown): Promise<Description> {
    if (typeof params === "object" && params !== null && (params as { named?: unknown }).named === true) {
      this.refused = false;
    }
    const models = await vscode.lm.selectChatModels();
    const allowed = models.map((model) => this.access.canSendRequest(model));
    const refused = this.refused || (allowed.length > 0 && allowed.every((answer) => answer === false));
    return {
      models: models.map((model) => ({ id: label(model), name: model.name })),
      consent: refused ? "refused" : allowed.includes(true) ? "given" : "unasked",
    };
  }

  /** Answer `stark/model/complete`. */
  async complete(params: unknown, token: vscode.CancellationToken): Promise<Answer> {
    const call = parseCall(params);
    if (call === undefined) {
      return { error: "The question could not be read.", kind: "other" };
    }
    try {
      const models = await vscode.lm.selectChatModels();
      const model = choose(models, call.model);
      if (model === undefined) {
        const what = call.model === "" ? "has no language model" : `has no language model ${call.model}`;
        return { error: `The editor ${what}.`, kind: "no_model" };
      }
      return await ask(model, call, token);
    } catch (error) {
      const answer = failure(error, token.isCancellationRequested);
      this.refused ||= answer.kind === "no_consent";
      return answer;
    }
  }
}

async function ask(model: vscode.LanguageModelChat, call: Call, token: vscode.CancellationToken): Promise<Answer> {
  const { User, Assistant } = vscode.LanguageModelChatMessage;
  const messages = call.messages.map(({ role, content }) => (role === "assistant" ? Assistant(content) : User(content)));
  const options: vscode.LanguageModelChatRequestOptions = { justification: call.justification };
  if (call.tool !== undefined) {
    options.tools = [{ ...call.tool }];
    options.toolMode = vscode.LanguageModelChatToolMode.Required;
  }
  const response = await model.sendRequest(messages, options, token);
  const found = await collect(parts(response.stream), call.tool);
  const usage = await count(model, messages, found, token);
  return { ...found, model: label(model), ...(usage === undefined ? {} : { usage }) };
}

async function* parts(stream: AsyncIterable<unknown>): AsyncIterable<Part> {
  for await (const part of stream) {
    if (part instanceof vscode.LanguageModelTextPart) {
      yield { text: part.value };
    } else if (part instanceof vscode.LanguageModelToolCallPart) {
      yield { tool: part.name, input: part.input };
    }
  }
}

/** Tokens by the model's own count; undefined where it does not count. */
async function count(
  model: vscode.LanguageModelChat,
  messages: readonly vscode.LanguageModelChatMessage[],
  found: { readonly text: string; readonly toolInput?: object },
  token: vscode.CancellationToken,
): Promise<{ inputTokens: number; outputTokens: number } | undefined> {
  try {
    const counts = await Promise.all(messages.map((message) => model.countTokens(message, token)));
    const written = found.text + (found.toolInput === undefined ? "" : JSON.stringify(found.toolInput));
    const outputTokens = await model.countTokens(written, token);
    return { inputTokens: counts.reduce((sum, one) => sum + one, 0), outputTokens };
  } catch {
    return undefined;
  }
}
