import assert from "node:assert/strict";
import { test } from "node:test";
import { redacted, redacting } from "../common/redact";
import { counted, Meter, mostTokens } from "../features/meter";
import { choose, collect, failure, label, LIMIT, modelOptions, type Part, parseCall, refusesOptions } from "../features/conversation";
import { isKey, parseKeyRequest } from "../features/secrets";
import { hasText, LIMITS, parseLimit, withText } from "../features/steering";

const tool = { name: "submit_plan", description: "hand in", inputSchema: { type: "object" } };

function meter(limit?: number): Meter {
  return new Meter(limit, async (text) => text.length);
}

async function* stream(...parts: Part[]): AsyncIterable<Part> {
  yield* parts;
}

test("a question needs messages, and each of them a text", () => {
  const messages = [{ role: "user", content: "a" }, { role: "assistant", content: "b" }];
  const how = { maxTokens: 5, temperature: 0.1, effort: "low" };
  const call = parseCall({ messages, tool, model: "m", justification: "why", ...how });
  assert.deepEqual(call, { messages, tool, model: "m", justification: "why", ...how });
  const odd = parseCall({ messages, maxTokens: "5", temperature: Number.NaN, effort: "" });
  assert.deepEqual(modelOptions(odd!), {});
  assert.deepEqual(parseCall({ messages: [{ role: "system", content: "s" }] })?.messages[0]?.role, "user");
  assert.equal(parseCall({ messages: [] }), undefined);
  assert.equal(parseCall({ messages: [{ role: "user" }] }), undefined);
  assert.equal(parseCall({ messages: [{ role: "user", content: "a" }, null] }), undefined);
  assert.equal(parseCall(null), undefined);
  assert.equal(parseCall({ messages, tool: { name: "x" } })?.tool, undefined);
});

test("text is put together and the first thing handed in by the tool counts", async () => {
  const parts: Part[] = [{ text: "a" }, { tool: "other", input: { n: 0 } }, { tool: "submit_plan", input: { n: 1 } }];
  assert.deepEqual(await collect(stream(...parts, { text: "b" }, { tool: "submit_plan", input: { n: 2 } }), tool, meter()), {
    text: "ab",
    toolInput: { n: 1 },
  });
  assert.deepEqual(await collect(stream(...parts), undefined, meter()), { text: "a" });
});

test("a model that writes on and on is cut off", async () => {
  async function* endless(): AsyncIterable<Part> {
    for (;;) {
      yield { text: "x".repeat(100_000) };
    }
  }
  const found = await collect(endless(), tool, meter());
  assert.deepEqual([found.text.length, found.stop], [LIMIT, "max_tokens"]);
});

test("what was handed in came in one part: it is whole, though nothing is read after it", async () => {
  const form: Part = { tool: "submit_plan", input: { title: "x".repeat(50) } };
  async function* more(): AsyncIterable<Part> {
    yield form;
    throw new Error("read on");
  }
  assert.deepEqual(await collect(more(), tool, meter(20)), { text: "", toolInput: form.input });
  const other = { tool: "other", input: {} };
  assert.deepEqual(await collect(stream({ text: "0123456789" }, other, other), tool, meter(11)), {
    text: "0123456789",
    stop: "max_tokens",
  });
});

test("an answer is counted a few times only, and never let past its limit", async () => {
  for (const [limit, perToken] of [[32_000, 4], [1_000, 1], [7, 3]] as const) {
    let counts = 0;
    const one = new Meter(limit, async (text) => ((counts += 1), Math.ceil(text.length / perToken)));
    let written = 0;
    while (await one.add("abcdef")) {
      written += 6;
    }
    assert.ok(Math.ceil(written / perToken) <= limit && Math.ceil((written + 6) / perToken) > limit);
    assert.ok(counts < 40, `${counts} counts`);
    assert.equal(one.written.length, written + 6);
  }
});

test("the bound is the server's: half the ASCII characters, every byte of the others", () => {
  assert.equal(mostTokens("abc"), 2);
  assert.equal(mostTokens("aé€😀"), 1 + 2 + 3 + 4);
});

test("a count of nought, or none, is no count", async () => {
  assert.equal(await counted(async () => 0, "x"), undefined);
  assert.equal(await counted(async () => Promise.reject(new Error("no")), "x"), undefined);
  assert.equal(await counted(async () => 0, ""), 0);
  assert.equal(await counted(async () => 3, "x"), 3);
});

test("a refusal of options names one of them", () => {
  assert.ok(refusesOptions(new Error("`temperature` is deprecated for this model")));
  assert.ok(refusesOptions(new Error("Unknown parameter: reasoning_effort")));
  assert.ok(refusesOptions(new Error("Invalid max_tokens")));
  assert.ok(!refusesOptions(new Error("Unsupported parameter: tools")) && !refusesOptions(new Error("temperature")));
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
