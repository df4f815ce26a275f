import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import type * as vscode from "vscode";
import { KeyFeature } from "../features/key";
import { LendingFeature } from "../features/lending";
import {
  CancellationTokenSource,
  LanguageModelTextPart,
  LanguageModelToolCallPart,
  model,
  played,
  Secrets,
} from "./editor";

const CALL = {
  messages: [{ role: "user", content: "system" }, { role: "user", content: "question" }],
  tool: { name: "submit_plan", description: "hand in", inputSchema: { type: "object" } },
  justification: "why",
};

function lending(allowed: boolean | undefined): LendingFeature {
  return new LendingFeature({ canSendRequest: () => allowed } as unknown as vscode.LanguageModelAccessInformation);
}

function token(cancelled = false): vscode.CancellationToken {
  const source = new CancellationTokenSource();
  if (cancelled) {
    source.cancel();
  }
  return source.token as unknown as vscode.CancellationToken;
}

async function* parts(...all: unknown[]): AsyncIterable<unknown> {
  yield* all;
}

function coded(code: string): Error {
  return Object.assign(new Error("no"), { code });
}

beforeEach(() => {
  Object.assign(played, { models: [], typed: undefined, boxes: [], messages: [] });
});

test("the models are named, with the consent as far as the editor knows it", async () => {
  assert.deepEqual(await lending(undefined).describe({}), { models: [], consent: "unasked" });
  played.models = [model("a", () => parts())];
  assert.deepEqual(await lending(true).describe({}), { models: [{ id: "test/a", name: "A" }], consent: "given" });
  assert.equal((await lending(undefined).describe({})).consent, "unasked");
  assert.equal((await lending(false).describe({})).consent, "refused");
});

test("a question reaches the model with its tool, and what is handed in comes back", async () => {
  let seen: unknown;
  played.models = [
    model("a", (messages, options) => {
      seen = { messages, options };
      return parts(
        new LanguageModelTextPart("think"),
        { unknown: "part" },
        new LanguageModelToolCallPart("1", "submit_plan", { title: "t" }),
      );
    }),
  ];
  assert.deepEqual(await lending(true).complete(CALL, token()), {
    text: "think",
    toolInput: { title: "t" },
    model: "test/a",
    usage: { inputTokens: 14 + JSON.stringify(CALL.tool).length, outputTokens: 5 + '{"title":"t"}'.length },
  });
  assert.deepEqual(seen, {
    messages: [
      { role: "user", content: "system" },
      { role: "user", content: "question" },
    ],
    options: { justification: "why", tools: [CALL.tool], toolMode: 2 },
  });
});

test("the model is told how to answer, under the names that providers take", async () => {
  let seen: unknown;
  played.models = [
    model("a", (_messages, options) => {
      seen = (options as vscode.LanguageModelChatRequestOptions).modelOptions;
      return parts(new LanguageModelTextPart("x"));
    }),
  ];
  await lending(true).complete({ ...CALL, maxTokens: 500, temperature: 0, effort: "high" }, token());
  assert.deepEqual(seen, { max_tokens: 500, temperature: 0, reasoning_effort: "high" });
});

test("a model that refuses to be told how is asked without, then and from now on", async () => {
  const told: boolean[] = [];
  played.models = [
    model("a", (_messages, options) => {
      told.push("modelOptions" in (options as object));
      return told.at(-1) ? new Error("400: Unsupported parameter: 'temperature'") : parts(new LanguageModelTextPart("x"));
    }),
  ];
  const feature = lending(true);
  const call = { ...CALL, maxTokens: 500, temperature: 0.1 };
  assert.equal((await feature.complete(call, token()) as { text: string }).text, "x");
  assert.equal((await feature.complete(call, token()) as { text: string }).text, "x");
  assert.deepEqual(told, [true, false, false]);
});

test("any other error is not asked again", async () => {
  let asked = 0;
  played.models = [model("a", () => ((asked += 1), new Error("The temperature in the data centre is too high")))];
  const answer = await lending(true).complete({ ...CALL, temperature: 0.1 }, token());
  assert.equal((answer as { kind: string }).kind, "other");
  assert.equal(asked, 1);
});

test("an answer longer than allowed is stopped where it is made, and counted with what it had come to", async () => {
  let made = 0;
  let inner: vscode.CancellationToken | undefined;
  async function* endless(): AsyncIterable<unknown> {
    for (;;) {
      made += 1;
      yield new LanguageModelTextPart("0123456789");
    }
  }
  played.models = [model("a", (_messages, _options, stop) => ((inner = stop), endless()))];
  const outer = token();
  const { tool: _, ...call } = CALL;
  assert.deepEqual(await lending(true).complete({ ...call, maxTokens: 100 }, outer), {
    text: "0123456789".repeat(11),
    stop: "max_tokens",
    model: "test/a",
    usage: { inputTokens: 14, outputTokens: 110 },
  });
  assert.equal(made, 11);
  assert.ok(inner?.isCancellationRequested && !outer.isCancellationRequested);
});

test("thinking is not handed on, but it counts", async () => {
  async function* musing(): AsyncIterable<unknown> {
    yield { value: "x".repeat(90) };
    yield new LanguageModelTextPart("0123456789");
    yield new LanguageModelTextPart("!");
    yield new LanguageModelTextPart("?");
  }
  played.models = [model("a", musing)];
  const answer = await lending(true).complete({ ...CALL, maxTokens: 100 }, token());
  assert.equal((answer as { text: string }).text, "0123456789!");
  assert.equal((answer as { usage: { outputTokens: number } }).usage.outputTokens, 101);
});

test("of a model that does not count, nothing is told and the bound holds", async () => {
  const silent = { ...model("a", () => parts(...Array<unknown>(9).fill(new LanguageModelTextPart("0123456789")))) };
  silent.countTokens = async () => 0;
  played.models = [silent];
  assert.deepEqual(await lending(true).complete({ ...CALL, maxTokens: 20 }, token()), {
    text: "0123456789".repeat(5),
    stop: "max_tokens",
    model: "test/a",
  });
});

test("a provider that cuts an answer off and says so by an error has cut it off", async () => {
  async function* cut(): AsyncIterable<unknown> {
    yield new LanguageModelTextPart("half");
    throw new Error("Response too long.");
  }
  played.models = [model("a", cut)];
  const answer = await lending(true).complete({ ...CALL, maxTokens: 500 }, token());
  assert.deepEqual([(answer as { text: string }).text, (answer as { stop: string }).stop], ["half", "max_tokens"]);
});

test("a refused consent is told, and holds until the user chooses the editor's model by name", async () => {
  played.models = [model("a", () => coded("NoPermissions"))];
  const feature = lending(undefined);
  assert.deepEqual(await feature.complete(CALL, token()), { error: "no", kind: "no_consent" });
  assert.equal((await feature.describe({ named: false })).consent, "refused");
  assert.equal((await feature.describe({ named: true })).consent, "unasked");
});

test("no model, a stream that breaks, a withdrawn question: each has its answer", async () => {
  const feature = lending(true);
  assert.equal((await feature.complete(CALL, token()) as { kind: string }).kind, "no_model");
  played.models = [model("a", () => parts())];
  assert.match(JSON.stringify(await feature.complete({ ...CALL, model: "b" }, token())), /no language model b/);
  async function* broken(): AsyncIterable<unknown> {
    yield new LanguageModelTextPart("half");
    throw coded("Blocked");
  }
  played.models = [model("a", broken)];
  assert.deepEqual(await feature.complete(CALL, token()), { error: "no", kind: "blocked" });
  assert.equal((await feature.complete(CALL, token(true)) as { kind: string }).kind, "cancelled");
  assert.equal((await feature.complete({}, token()) as { kind: string }).kind, "other");
});

test("a stored key is handed out without a question, and only for its service", async () => {
  const secrets = new Secrets();
  let changes = 0;
  const keys = new KeyFeature(secrets as unknown as vscode.SecretStorage, () => (changes += 1));
  assert.equal(await keys.answer({ service: "anthropic", ask: false }), null);
  assert.equal(played.boxes.length, 0);
  played.typed = "  sk-1 ";
  assert.equal(await keys.set(), "sk-1");
  assert.deepEqual(await keys.answer({ service: "anthropic", ask: false }), { key: "sk-1" });
  assert.equal(await keys.answer({ service: "other", ask: true }), null);
  assert.deepEqual([...keys.seen], ["sk-1"]);
  assert.equal(changes, 1);
  assert.ok(played.boxes.every((box) => box.password === true));
});

test("the user is asked where the server says so, and may leave the question", async () => {
  const secrets = new Secrets();
  const keys = new KeyFeature(secrets as unknown as vscode.SecretStorage, () => undefined);
  assert.equal(await keys.answer({ service: "anthropic", ask: true }), null);
  played.typed = "two words";
  assert.equal(await keys.answer({ service: "anthropic", ask: true }), null);
  assert.equal(secrets.kept.size, 0);
  played.typed = "sk-2";
  assert.deepEqual(await keys.answer({ service: "anthropic", ask: true }), { key: "sk-2" });
});

test("a forgotten key is gone, and the server is told", async () => {
  const secrets = new Secrets();
  let changes = 0;
  const keys = new KeyFeature(secrets as unknown as vscode.SecretStorage, () => (changes += 1));
  played.typed = "sk-3";
  await keys.set();
  await keys.forget();
  assert.equal(await keys.answer({ service: "anthropic", ask: false }), null);
  assert.equal(changes, 2);
  keys.dispose();
  await keys.set();
  assert.equal(changes, 2);
});
