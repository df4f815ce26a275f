import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import type * as vscode from "vscode";
import { KeyFeature } from "../features/key";
import { LendingFeature } from "../features/lending";
import { LanguageModelTextPart, LanguageModelToolCallPart, model, played, Secrets } from "./editor";

const CALL = {
  messages: [{ role: "user", content: "system" }, { role: "user", content: "question" }],
  tool: { name: "submit_plan", description: "hand in", inputSchema: { type: "object" } },
  justification: "why",
};

function lending(allowed: boolean | undefined): LendingFeature {
  return new LendingFeature({ canSendRequest: () => allowed } as unknown as vscode.LanguageModelAccessInformation);
}

function token(cancelled = false): vscode.CancellationToken {
  return { isCancellationRequested: cancelled } as vscode.CancellationToken;
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
    usage: { inputTokens: 14, outputTokens: 5 + '{"title":"t"}'.length },
  });
  assert.deepEqual(seen, {
    messages: [
      { role: "user", content: "system" },
      { role: "user", content: "question" },
    ],
    options: { justification: "why", tools: [CALL.tool], toolMode: 2 },
  });
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
