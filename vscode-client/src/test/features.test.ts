import assert from "node:assert/strict";
import { test } from "node:test";
import { parseExecute, parseReview } from "../features/protocol";
import { hasReason, withReason } from "../features/reason";

test("a review needs all of its parts", () => {
  const review = { title: "t", run: "r1", node: 2, next: null, uri: "file:///x.py", original: "", proposed: "p" };
  assert.deepEqual(parseReview({ ...review, more: 1 }), review);
  assert.deepEqual(parseReview({ ...review, next: 3 }), { ...review, next: 3 });
  assert.equal(parseReview({ ...review, proposed: null }), undefined);
  assert.equal(parseReview({ ...review, node: "2" }), undefined);
  assert.equal(parseReview(null), undefined);
  assert.equal(parseReview("shown"), undefined);
});

test("a reason goes into the first argument and the rest stays", () => {
  assert.deepEqual(withReason([{ run: "r1" }, 7], "slow"), [{ run: "r1", reason: "slow" }, 7]);
  assert.deepEqual(withReason([], ""), [{ reason: "" }]);
  assert.ok(hasReason([{ run: "r1", reason: "" }]));
  assert.ok(!hasReason([{ run: "r1" }]));
  assert.ok(!hasReason([]));
});

test("the server may have four commands run here, and nothing else", () => {
  const review = { command: "stark.review", arguments: [{ run: "r1" }] };
  assert.deepEqual(parseExecute(review), review);
  assert.ok(parseExecute({ command: "stark.chooseInterpreter", arguments: [] }));
  assert.equal(parseExecute({ command: "workbench.action.terminal.new", arguments: [] }), undefined);
  assert.equal(parseExecute({ command: "stark.review" }), undefined);
});
