import assert from "node:assert/strict";
import { test } from "node:test";
import type { ServerState } from "../common/server";
import { statusOf } from "../features/status";
import { addressed, contextOf, iconOfAttempt, iconOfRun, parseAddress, parseRuns, parseTree } from "../features/tree";

const run = {
  run: "r1", state: "finished", decision: "open", label: "Model", description: "2.00x", tooltip: "", can: ["original"],
};
const attempt = {
  node: 1, parent: 0, status: "OK", faster: true, leader: true, pinned: false, pruned: false,
  label: "1 1.00 ms", description: "", tooltip: "", can: ["source", "unpin"],
};

test("runs that are whole are listed, whatever else comes", () => {
  assert.deepEqual(parseRuns({ runs: [run, { ...run, can: [1] }, { ...run, label: 3 }, null], more: true }), { runs: [run], more: true });
  for (const odd of [undefined, null, "runs", { runs: "r1" }]) {
    assert.deepEqual(parseRuns(odd), { runs: [], more: false });
  }
});

test("attempts hang below the one they go on from, in their order", () => {
  const [second, third] = [{ ...attempt, node: 2, parent: 1 }, { ...attempt, node: 3, status: null }];
  const tree = parseTree({ nodes: [attempt, second, third, { ...attempt, node: "4" }, { ...attempt, parent: null }] });
  assert.deepEqual([...tree].map(([parent, below]) => [parent, below.map(({ node }) => node)]), [[0, [1, 3]], [1, [2]]]);
  assert.equal(parseTree(undefined).size, 0);
});

test("a tree of 200 attempts is read within a few milliseconds", () => {
  const nodes = Array.from({ length: 200 }, (_, i) => ({ ...attempt, node: i + 1, parent: i >> 1 }));
  const began = performance.now();
  assert.equal([...parseTree({ nodes }).values()].flat().length, 200);
  assert.ok(performance.now() - began < 50);
});

test("each attempt has the icon of what came of it", () => {
  assert.deepEqual(iconOfAttempt(attempt), { icon: "star-full", color: "charts.green" });
  assert.deepEqual(iconOfAttempt({ ...attempt, leader: false, faster: false }), { icon: "pass" });
  assert.equal(iconOfAttempt({ ...attempt, pinned: true }).icon, "pinned");
  assert.equal(iconOfAttempt({ ...attempt, status: null }).icon, "loading~spin");
  assert.equal(iconOfAttempt({ ...attempt, status: "CRASHED" }).icon, "error");
  assert.equal(iconOfAttempt({ ...attempt, status: "REFUSED" }).icon, "circle-slash");
  assert.equal(iconOfAttempt({ ...attempt, pruned: true, status: null }).icon, "close");
  assert.equal(iconOfRun({ ...run, decision: "accepted" }).icon, "check-all");
  assert.equal(iconOfRun({ ...run, state: "interrupted" }).icon, "debug-stop");
  assert.equal(iconOfRun({ ...run, state: "running" }).icon, "loading~spin");
});

test("menus find what can be done as words", () => {
  const context = contextOf("attempt", attempt);
  assert.equal(context, "attempt source unpin");
  assert.doesNotMatch(context, /^attempt\b.*\bpin\b/);
});

test("a text has an address that it can be opened by again", () => {
  const address = { run: "r1", node: 2, part: "source" };
  assert.deepEqual(addressed(address), { path: "/attempt 2.py", query: '["r1",2,"source"]' });
  assert.equal(addressed({ ...address, node: 0 }).path, "/original.py");
  assert.equal(addressed({ ...address, part: "verdict" }).path, "/attempt 2 verdict.txt");
  assert.deepEqual(parseAddress(addressed(address).query), address);
  for (const odd of ["", "{}", "[1,2,3]", "null"]) {
    assert.equal(parseAddress(odd), undefined);
  }
});

test("the status says what the server is doing, and a click mends what is wrong", () => {
  const same = (path: string): string => path;
  const state = (name: "untrusted" | "starting" | "stopped" | "running"): ServerState => ({ name });
  assert.deepEqual(
    [state("untrusted"), state("starting"), state("stopped"), { name: "missing", message: "No Python." } as const].map((each) => {
      const { text, busy, warning, command } = statusOf(each, {}, same);
      return [text, busy, warning, command];
    }),
    [
      ["STARK: not started", false, false, "workbench.trust.manage"],
      ["STARK: starting", true, false, "stark.showOutput"],
      ["STARK: stopped", false, true, "stark.restart"],
      ["STARK: not installed", false, true, "stark.chooseInterpreter"],
    ],
  );
  assert.equal(statusOf({ name: "missing", message: "No Python." }, {}, same).detail, "No Python.");
  const told = { state: "running", text: "running 2/4, best 3.10x", model: "playbook", device: "cpu", interpreter: "/p/.venv/bin/python", cost: "" };
  const shown = statusOf(state("running"), told, (path) => path.slice(3));
  assert.deepEqual([shown.text, shown.busy], ["STARK: running 2/4, best 3.10x", true]);
  assert.equal(shown.detail, "playbook · cpu · .venv/bin/python");
  assert.equal(statusOf(state("running"), undefined, same).text, "STARK: ready");
});
