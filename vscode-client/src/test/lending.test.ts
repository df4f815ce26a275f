import assert from "node:assert/strict";
import { test } from "node:test";
import { redacted, redacting } from "../common/redact";
import { choose, collect, failure, label, LIMIT, type Part, parseCall } from "../features/conversation";
import { isKey, parseKeyRequest } from "../features/secrets";
import { hasText, LIMITS, parseLimit, withText } from "../features/steering";

const tool = { name: "submit_plan", description: "hand in", inputSchema: { type: "object" } };

async function* stream(...parts: Part[]): AsyncIterable<Part> {
  yield* parts;
}

test("a question needs messages, and each of them a text", () => {
  const messages = [{ role: "user", content: "a" }, { role: "assistant", content: "b" }];
  const call = parseCall({ messages, tool, model: "m", justification: "why", maxTokens: 5 });
  assert.deepEqual(call, { messages, tool, model: "m", justification: "why" });
  assert.deepEqual(parseCall({ messages: [{ role: "system", content: "s" }] })?.messages[0]?.role, "user");
  assert.equal(parseCall({ messages: [] }), undefined);
  assert.equal(parseCall({ messages: [{ role: "user" }] }), undefined);
  assert.equal(parseCall({ messages: [{ role: "user", content: "a" }, null] }), undefined);
  assert.equal(parseCall(null), undefined);
  assert.equal(parseCall({ messages, tool: { name: "x" } })?.tool, undefined);
});

test("text is put together and the first thing handed in by the tool counts", async () => {
  const parts: Part[] = [{ text: "a" }, { tool: "other", input: { n: 0 } }, { tool: "submit_plan", input: { n: 1 } }];
  assert.deepEqual(await collect(stream(...parts, { text: "b" }, { tool: "submit_plan", input: { n: 2 } }), tool), {
    text: "ab",
    toolInput: { n: 1 },
  });
  assert.deepEqual(await collect(stream(...parts), undefined), { text: "a" });
});

test("a model that writes on and on is cut off", async () => {
  async function* endless(): AsyncIterable<Part> {
    for (;;) {
      yield { text: "x".repeat(100_000) };
    }
  }
  assert.equal((await collect(endless(), tool)).text.length, LIMIT);
});

test("a model is found by any of its names, and the first one serves where none is wanted", () => {
  const models = [
    { id: "1", name: "GPT", family: "gpt", vendor: "copilot" },
    { id: "2", name: "Claude Sonnet", family: "claude-sonnet", vendor: "copilot" },
  ];
  assert.equal(choose(models, "")?.id, "1");
  for (const wanted of ["2", "claude sonnet", "Claude-Sonnet", "copilot/claude-sonnet"]) {
    assert.equal(choose(models, wanted)?.id, "2");
  }
  assert.equal(choose(models, "other"), undefined);
  assert.equal(choose([], ""), undefined);
  assert.equal(label(models[0]!), "copilot/gpt");
});

test("why the editor's model did not answer has a name", () => {
  const coded = (code: string, cause?: Error): Error => Object.assign(new Error("m"), { code, cause });
  assert.deepEqual(failure(coded("NoPermissions"), false), { error: "m", kind: "no_consent" });
  assert.equal(failure(coded("Blocked"), false).kind, "blocked");
  assert.equal(failure(coded("NotFound"), false).kind, "no_model");
  assert.equal(failure(coded("Unknown", new Error("off_topic")), false).kind, "off_topic");
  assert.equal(failure(coded("Unknown"), false).kind, "other");
  assert.equal(failure(coded("Blocked"), true).kind, "cancelled");
  assert.deepEqual(failure("text", false), { error: "text", kind: "other" });
});

test("a key is asked for by the one service there is", () => {
  assert.deepEqual(parseKeyRequest({ service: "anthropic", ask: true }), { known: true, ask: true });
  assert.deepEqual(parseKeyRequest({ service: "anthropic" }), { known: true, ask: false });
  assert.equal(parseKeyRequest({ service: "other", ask: true }).known, false);
  assert.equal(parseKeyRequest(undefined).known, false);
  assert.ok(isKey("sk-ant-123"));
  assert.ok(!isKey("two words") && !isKey("") && !isKey("line\nfeed") && !isKey("x".repeat(1001)));
});

test("the trace does not show a key that became known after it was opened", () => {
  const lines: string[] = [];
  const keys = new Set<string>();
  const write = (text: string): void => void lines.push(text);
  const nothing = (): void => undefined;
  const channel = redacting(
    { name: "n", append: write, appendLine: write, replace: write, clear: nothing, show: nothing, hide: nothing, dispose: nothing },
    keys,
  );
  channel.appendLine("Result: nothing");
  keys.add('se"cret');
  channel.appendLine(`Result: ${JSON.stringify({ key: 'se"cret' })}`);
  channel.append('se"cret');
  channel.replace('a se"cret b');
  assert.deepEqual(lines, ["Result: nothing", 'Result: {"key":"…key…"}', "…key…", "a …key… b"]);
  assert.equal(redacted("text", [""]), "text");
});

test("a hint goes into the first argument and the rest stays", () => {
  assert.deepEqual(withText([{ run: "r1", node: 3 }, 7], "t"), [{ run: "r1", node: 3, text: "t" }, 7]);
  assert.deepEqual(withText([], "t"), [{ text: "t" }]);
  assert.ok(hasText([{ text: "t" }]));
  assert.ok(!hasText([{ text: "" }]) && !hasText([]) && !hasText([{ run: "r1" }]));
});

test("a limit is a positive number, or nothing where there may be no limit", () => {
  const [attempts, dollars] = LIMITS;
  assert.equal(parseLimit(attempts!, "40"), 40);
  assert.equal(parseLimit(attempts!, ""), undefined);
  assert.equal(parseLimit(attempts!, "2.5"), undefined);
  assert.equal(parseLimit(dollars!, " 2.5 "), 2.5);
  assert.equal(parseLimit(dollars!, ""), null);
  assert.equal(parseLimit(dollars!, "-1"), undefined);
  assert.equal(parseLimit(dollars!, "much"), undefined);
});
