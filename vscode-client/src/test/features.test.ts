import assert from "node:assert/strict";
import { test } from "node:test";
import { offerAt, type Offer } from "../features/classes";
import { parseExecute, parseReview } from "../features/protocol";
import { hasReason, withReason } from "../features/reason";

const at = (line: number, command: string): Offer => ({ command, arguments: [line], line });

test("the class at or above the cursor is meant, else the first one below", () => {
  const offers = [at(30, "stark.optimize"), at(10, "stark.optimize"), at(12, "stark.cancel")];
  assert.equal(offerAt(offers, 10)?.line, 10);
  assert.equal(offerAt(offers, 29)?.line, 10);
  assert.equal(offerAt(offers, 99)?.line, 30);
  assert.equal(offerAt(offers, 0)?.line, 10);
  assert.equal(offerAt([at(3, "stark.cancel")], 5), undefined);
});

test("optimizing comes before adding inputs", () => {
  const offers = [at(10, "stark.addInputs"), at(10, "stark.optimize")];
  assert.equal(offerAt(offers, 11)?.command, "stark.optimize");
});

test("a review needs all of its parts", () => {
  const review = { title: "t", uri: "file:///x.py", original: "", proposed: "p" };
  assert.deepEqual(parseReview({ ...review, more: 1 }), review);
  assert.equal(parseReview({ ...review, proposed: null }), undefined);
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

test("the server may have a review or a rejection run here, and nothing else", () => {
  const review = { command: "stark.review", arguments: [{ run: "r1" }] };
  assert.deepEqual(parseExecute(review), review);
  assert.equal(parseExecute({ command: "workbench.action.terminal.new", arguments: [] }), undefined);
  assert.equal(parseExecute({ command: "stark.review" }), undefined);
});
