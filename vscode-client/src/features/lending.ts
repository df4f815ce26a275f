// Lends the editor's language model to the server, after the user's consent: VS Code asks for it with the first question,
// which a click on Optimize led to.

import * as vscode from "vscode";
import {
  type Answer,
  type Call,
  choose,
  collect,
  failure,
  type Found,
  label,
  modelOptions,
  type Part,
  parseCall,
  refusesOptions,
  type Usage,
} from "./conversation";
import { counted, Meter } from "./meter";

/** What `stark/model/describe` is answered. */
export interface Description {
  readonly models: readonly { readonly id: string; readonly name: string }[];
  readonly consent: "given" | "refused" | "unasked";
}

export class LendingFeature {
  /** Whether the user refused since the window was opened; VS Code itself does not always remember. */
  private refused = false;
  /** Models, by id, that refused to be told how to answer. */
  private readonly plain = new Set<string>();

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
      return await ask(model, call, token, this.plain);
    } catch (error) {
      const answer = failure(error, token.isCancellationRequested);
      this.refused ||= answer.kind === "no_consent";
      return answer;
    }
  }
}

/**
 * Ask a model.
 *
 * @param plain the models that refused `modelOptions`: they are asked without, and one that refuses them now is added
 */
async function ask(
  model: vscode.LanguageModelChat,
  call: Call,
  token: vscode.CancellationToken,
  plain: Set<string>,
): Promise<Answer> {
  const { User, Assistant } = vscode.LanguageModelChatMessage;
  const messages = call.messages.map(({ role, content }) => (role === "assistant" ? Assistant(content) : User(content)));
  const options: vscode.LanguageModelChatRequestOptions = { justification: call.justification };
  if (call.tool !== undefined) {
    options.tools = [{ ...call.tool }];
    options.toolMode = vscode.LanguageModelChatToolMode.Required;
  }
  const told = modelOptions(call);
  const count = async (text: string): Promise<number> => model.countTokens(text, token);
  let meter = new Meter(call.maxTokens, count);
  let found: Found;
  if (Object.keys(told).length === 0 || plain.has(model.id)) {
    found = await answer(model, messages, options, call, meter, token);
  } else {
    try {
      found = await answer(model, messages, { ...options, modelOptions: told }, call, meter, token);
    } catch (error) {
      if (meter.written !== "" || token.isCancellationRequested || !refusesOptions(error)) {
        throw error;
      }
      plain.add(model.id);
      meter = new Meter(call.maxTokens, count);
      found = await answer(model, messages, options, call, meter, token);
    }
  }
  const usage = await used(count, call, meter);
  return { ...found, model: label(model), ...(usage === undefined ? {} : { usage }) };
}

/** Read one answer; a model that writes more than it may is told to stop. */
async function answer(
  model: vscode.LanguageModelChat,
  messages: vscode.LanguageModelChatMessage[],
  options: vscode.LanguageModelChatRequestOptions,
  call: Call,
  meter: Meter,
  token: vscode.CancellationToken,
): Promise<Found> {
  const source = new vscode.CancellationTokenSource();
  const withdrawn = token.onCancellationRequested(() => source.cancel());
  try {
    const response = await model.sendRequest(messages, options, source.token);
    return await collect(parts(response.stream), call.tool, meter);
  } finally {
    // An answer that has ended takes no note of it; one that was broken off here ends by it.
    source.cancel();
    withdrawn.dispose();
    source.dispose();
  }
}

async function* parts(stream: AsyncIterable<unknown>): AsyncIterable<Part> {
  for await (const part of stream) {
    if (part instanceof vscode.LanguageModelTextPart) {
      yield { text: part.value };
    } else if (part instanceof vscode.LanguageModelToolCallPart) {
      yield { tool: part.name, input: part.input };
    } else if (typeof part === "object" && part !== null && typeof (part as { value?: unknown }).value === "string") {
      // Thinking, of which this version of the API knows nothing: it is billed, so it counts.
      yield { hidden: (part as { value: string }).value };
    }
  }
}

/** Tokens by the model's own count, the form for the answer included; undefined where it does not count. */
async function used(count: (text: string) => Promise<number>, call: Call, meter: Meter): Promise<Usage | undefined> {
  const asked = call.messages.map((message) => message.content);
  if (call.tool !== undefined) {
    asked.push(JSON.stringify(call.tool));
  }
  const outputTokens = await counted(count, meter.written);
  const inputs = await Promise.all(asked.map((text) => counted(count, text)));
  let inputTokens = 0;
  for (const tokens of inputs) {
    if (tokens === undefined) {
      return undefined;
    }
    inputTokens += tokens;
  }
  return outputTokens === undefined ? undefined : { inputTokens, outputTokens };
}
