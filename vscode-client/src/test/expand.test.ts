import assert from "node:assert/strict";
import { test } from "node:test";
import { expandPath, expandProgram } from "../common/expand";

const context = { home: "/home/ada", workspaceFolder: "/home/ada/net", env: { VENV: "/opt/venv" } };

test("a path may start at home, at the workspace folder or at an environment variable", () => {
  assert.equal(expandPath("~/venv/bin/python", context), "/home/ada/venv/bin/python");
  assert.equal(expandPath(" ${workspaceFolder}/.venv/bin/python ", context), "/home/ada/net/.venv/bin/python");
  assert.equal(expandPath("${env:VENV}/bin/python", context), "/opt/venv/bin/python");
  assert.equal(expandPath("${userHome}/x", context), "/home/ada/x");
});

test("what is not a variable stays as it is", () => {
  assert.equal(expandPath("/a/~b/${other}/c", context), "/a/~b/${other}/c");
  assert.equal(expandPath("~ada/x", context), "~ada/x");
});

test("an unset variable becomes nothing", () => {
  assert.equal(expandPath("${env:NONE}/x", context), "/x");
  assert.equal(expandPath("${workspaceFolder}/x", { ...context, workspaceFolder: undefined }), "/x");
});

test("a program by a relative path is the workspace folder's, and one by its name alone is the PATH's", () => {
  assert.equal(expandProgram(".venv/bin/stark-lsp", context), "/home/ada/net/.venv/bin/stark-lsp");
  assert.equal(expandProgram("./x", context), "/home/ada/net/x");
  for (const value of ["/usr/bin/python3", "stark-lsp", ""]) {
    assert.equal(expandProgram(value, context), value);
  }
  assert.equal(expandProgram("~/bin/x", context), "/home/ada/bin/x");
  assert.equal(expandProgram("a/b", { ...context, workspaceFolder: undefined }), "a/b");
});
