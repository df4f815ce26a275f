import assert from "node:assert/strict";
import { test } from "node:test";
import { findLaunch, installCommand, type LaunchSources, type Probe } from "../common/launch";
import { parseProbe } from "../common/probe";

const nothing: LaunchSources = {
  path: "",
  interpreter: "",
  arguments: [],
  active: undefined,
  onPath: undefined,
  pythons: [],
};
const WITH: Probe = { python: "3.11", stark: "0.1.0" };
const WITHOUT: Probe = { python: "3.11", stark: null };
const OLD: Probe = { python: "3.8", stark: null };

function among(known: Record<string, Probe>): (interpreter: string) => Promise<Probe | undefined> {
  return (interpreter) => Promise.resolve(known[interpreter]);
}

test("a program that the user set wins and is not probed", async () => {
  const probe = (): Promise<Probe | undefined> => assert.fail("must not be asked");
  assert.deepEqual(
    await findLaunch({ ...nothing, path: "/x/stark-lsp", interpreter: "/y/python", arguments: ["--verbose"] }, probe),
    { command: "/x/stark-lsp", args: ["serve", "--verbose"] },
  );
});

test("an interpreter that the user set is used, or its lack of stark-lsp is told, but no other is taken", async () => {
  const sources = { ...nothing, interpreter: "/y/python", onPath: "/bin/stark-lsp" };
  assert.deepEqual(await findLaunch(sources, among({ "/y/python": WITH })), {
    command: "/y/python",
    args: ["-m", "stark_lsp", "serve"],
  });
  assert.deepEqual(await findLaunch(sources, among({ "/y/python": WITHOUT })), {
    message: "stark-lsp is not installed in /y/python.",
    installInto: "/y/python",
  });
  assert.match(JSON.stringify(await findLaunch(sources, among({}))), /cannot be started/);
});

test("the Python extension's interpreter comes before the PATH, if it has stark-lsp", async () => {
  const sources = { ...nothing, active: "/venv/python", onPath: "/bin/stark-lsp" };
  assert.deepEqual(await findLaunch(sources, among({ "/venv/python": WITH })), {
    command: "/venv/python",
    args: ["-m", "stark_lsp", "serve"],
  });
  assert.deepEqual(await findLaunch(sources, among({ "/venv/python": WITHOUT })), {
    command: "/bin/stark-lsp",
    args: ["serve"],
  });
});

test("without stark-lsp anywhere, the first usable interpreter is the one to install into", async () => {
  const sources = { ...nothing, active: "/venv/python", pythons: ["/usr/bin/python3"] };
  assert.deepEqual(await findLaunch(sources, among({ "/venv/python": WITHOUT, "/usr/bin/python3": WITHOUT })), {
    message: "stark-lsp is not installed in /venv/python.",
    installInto: "/venv/python",
  });
  assert.deepEqual(await findLaunch(sources, among({ "/usr/bin/python3": WITH })), {
    command: "/usr/bin/python3",
    args: ["-m", "stark_lsp", "serve"],
  });
  assert.match(JSON.stringify(await findLaunch(nothing, among({}))), /No Python was found/);
});

test("an old Python is named as the problem instead of offering an installation that fails", async () => {
  const found = await findLaunch({ ...nothing, pythons: ["/usr/bin/python3"] }, among({ "/usr/bin/python3": OLD }));
  assert.match(JSON.stringify(found), /needs Python 3.10 or newer/);
  assert.ok("installInto" in found && found.installInto === undefined);
});

test("the command to install is safe to paste", () => {
  assert.equal(installCommand("/usr/bin/python3", false), "/usr/bin/python3 -m pip install stark-lsp");
  assert.equal(installCommand("/my env/it's/python", false), "'/my env/it'\\''s/python' -m pip install stark-lsp");
  assert.equal(installCommand("C:\\My Env\\python.exe", true), '& "C:\\My Env\\python.exe" -m pip install stark-lsp');
});

test("the answer of an interpreter is its last line, and anything else is no answer", () => {
  assert.deepEqual(parseProbe('hello from sitecustomize\n{"python": "3.11", "stark": null}\n'), WITHOUT);
  assert.equal(parseProbe("Segmentation fault"), undefined);
  assert.equal(parseProbe(""), undefined);
});
