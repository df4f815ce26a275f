// A question of the server's for the editor's model, and its answer: everything about them that needs no editor.

import type { Meter } from "./meter";

/** One message; editors' models know no system message, so it comes as the first of the user's. */
export interface Message {
  readonly role: "user" | "assistant";
  readonly content: string;
}

/** The form in which an answer is handed in. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: object;
}

/** `stark/model/complete` as far as it is understood. */
export interface Call {
  readonly messages: readonly Message[];
  readonly tool: Tool | undefined;
  /** Name of a model, empty for the editor's first. */
  readonly model: string;
  readonly justification: string;
  /** Most tokens of the answer. */
  readonly maxTokens: number | undefined;
  /** 0 to 1; undefined leaves it to the model. */
  readonly temperature: number | undefined;
  /** `low`, `medium`, `high` …; undefined leaves it to the model. */
  readonly effort: string | undefined;
}

export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** What a model wrote and handed in; `stop` where it was not let come to its end. */
export interface Found {
  readonly text: string;
  readonly toolInput?: object;
  readonly stop?: "max_tokens";
}

/** What the server is answered. */
export type Answer =
  | (Found & { readonly model: string; readonly usage?: Usage })
  | { readonly error: string; readonly kind: Kind };

/** Why there is no answer. */
export type Kind = "no_model" | "no_consent" | "blocked" | "off_topic" | "cancelled" | "other";

/** Characters of one answer; a model that writes on and on is cut off. */
export const LIMIT = 2_000_000;

export function parseCall(params: unknown): Call | undefined {
  if (typeof params !== "object" || params === null) {
    return undefined;
  }
  const { messages, tool, model, justification, maxTokens, temperature, effort } = params as Record<string, unknown>;
  if (!Array.isArray(messages) || messages.length === 0) {
    return undefined;
  }
  const read = messages.map(parseMessage);
  const complete = read.filter((message) => message !== undefined);
  if (complete.length !== read.length) {
    return undefined;
  }
  return {
    messages: complete,
    tool: parseTool(tool),
    model: typeof model === "string" ? model : "",
    justification: typeof justification === "string" ? justification : "",
    maxTokens: typeof maxTokens === "number" && maxTokens >= 1 ? maxTokens : undefined,
    temperature: typeof temperature === "number" && Number.isFinite(temperature) ? temperature : undefined,
    effort: typeof effort === "string" && effort !== "" ? effort : undefined,
  };
}

/**
 * How the model is to answer, as `modelOptions` of VS Code. Their names are each provider's own; these are the ones that
 * Copilot's has taken and that the services behind most of the others have.
 */
export function modelOptions(call: Call): Record<string, unknown> {
  const { maxTokens, temperature, effort } = call;
  return {
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
  };
}

const OPTION = /max[ _]?(completion[ _]?|output[ _]?)?tokens|temperature|reasoning[ _.]?effort|model[ _]?options?/i;
const REFUSED = /unsupported|not support|unknown|unrecognized|unexpected|invalid|not allowed|not permitted|deprecated|incompatible/i;

/** Whether a provider refused a question for an option of `modelOptions`; asked again without them, it may answer. */
export function refusesOptions(error: unknown): boolean {
  const message = error instanceof Error ? error.message : String(error);
  return OPTION.test(message) && REFUSED.test(message);
}

/** Whether an error says that the provider cut the answer off: the API has no other way to tell it. */
export function saysTooLong(error: unknown): boolean {
  return error instanceof Error && /\b(response|answer|output|completion)\b.*\btoo long\b/i.test(error.message);
}

function parseMessage(message: unknown): Message | undefined {
  if (typeof message !== "object" || message === null) {
    return undefined;
  }
  const { role, content } = message as Record<string, unknown>;
  return typeof content === "string" ? { role: role === "assistant" ? "assistant" : "user", content } : undefined;
}

function parseTool(tool: unknown): Tool | undefined {
  if (typeof tool !== "object" || tool === null) {
    return undefined;
  }
  const { name, description, inputSchema } = tool as Record<string, unknown>;
  const complete =
    typeof name === "string" &&
    typeof description === "string" &&
    typeof inputSchema === "object" &&
    inputSchema !== null;
  return complete ? { name, description, inputSchema } : undefined;
}

/** A model of the editor's, as far as the choice needs it. */
export interface Named {
  readonly id: string;
  readonly name: string;
  readonly family: string;
  readonly vendor: string;
}

/** What a model is called wherever a run is shown: `copilot/claude-sonnet-4`. */
export function label(model: Named): string {
  return `${model.vendor}/${model.family}`;
}

/** The model that is wanted, by any of its names; with no wish, the first one. Undefined if it is not there. */
export function choose<M extends Named>(models: readonly M[], wanted: string): M | undefined {
  if (wanted === "") {
    return models[0];
  }
  const same = (text: string): boolean => text.toLowerCase() === wanted.toLowerCase();
  return models.find((model) => [model.id, label(model), model.family, model.name].some(same));
}

/** A part of the model's stream: text, what it hands in, or what it wrote for itself. */
export type Part = { readonly text: string } | { readonly tool: string; readonly input: object } | { readonly hidden: string };

/**
 * Put an answer together from its parts; parts for another tool than the one offered are left out.
 *
 * Reading ends once more was written than the meter allows. What was handed in until then is whole, since it comes in one
 * part; an answer that is text alone is then one that was cut off.
 */
export async function collect(parts: AsyncIterable<Part>, tool: Tool | undefined, meter: Meter): Promise<Found> {
  let text = "";
  let toolInput: object | undefined;
  let cut = false;
  try {
    for await (const part of parts) {
      let written: string;
      if ("text" in part) {
        text += written = part.text;
      } else if ("hidden" in part) {
        written = part.hidden;
      } else {
        written = JSON.stringify(part.input) ?? "";
        if (part.tool === tool?.name) {
          toolInput ??= part.input;
        }
      }
      cut = !(await meter.add(written));
      if (text.length > LIMIT) {
        text = text.slice(0, LIMIT);
        cut = true;
      }
      if (cut) {
        break;
      }
    }
  } catch (error) {
    if (!saysTooLong(error)) {
      throw error;
    }
    cut = true;
  }
  if (toolInput !== undefined) {
    return { text, toolInput };
  }
  return cut ? { text, stop: "max_tokens" } : { text };
}

/** What an error of the editor's model means, by its `code` (see `vscode.LanguageModelError`) and cause. */
export function failure(error: unknown, cancelled: boolean): { error: string; kind: Kind } {
  if (cancelled) {
    return { error: "The question was withdrawn.", kind: "cancelled" };
  }
  const message = error instanceof Error ? error.message : String(error);
  const { code, cause } = (typeof error === "object" && error !== null ? error : {}) as Record<string, unknown>;
  if (cause instanceof Error && cause.message.includes("off_topic")) {
    return { error: "The editor's model does not answer questions of this kind.", kind: "off_topic" };
  }
  const kinds: Readonly<Record<string, Kind>> = {
    NoPermissions: "no_consent",
    Blocked: "blocked",
    NotFound: "no_model",
  };
  return { error: message, kind: kinds[String(code)] ?? "other" };
}
