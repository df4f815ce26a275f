import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { findLaunch, type LaunchSources, type Probe } from "../common/launch";
import { interpreters, parseProbe, probeInterpreter } from "../common/probe";
import { writeProgram } from "../common/terminal";

const BUNDLE = "/extension/bundled";

function sources(more: Partial<LaunchSources> = {}, ...pythons: string[]): LaunchSources {
  return { path: "", interpreter: "", arguments: [], bundle: BUNDLE, pythons: stream(pythons), ...more };
}

async function* stream(items: string[]): AsyncGenerator<string> {
  yield* items;
}

/** Interpreters that are there, by their version. */
function among(known: Record<string, string>): (interpreter: string) => Promise<Probe | undefined> {
  return async (interpreter) => {
    const python = known[interpreter];
    return python === undefined ? undefined : { python, executable: interpreter };
  };
}

const bundled = (command: string) => ({ command, args: ["-I", "-S", BUNDLE, "serve"] });

test("a program that the user set wins and is not probed", async () => {
  const set = sources({ path: "/x/stark-lsp", interpreter: "/y/python", arguments: ["--log-file", "l"] }, "/bin/python3");
  const probe = (): Promise<Probe | undefined> => assert.fail("must not be asked");
  assert.deepEqual(await findLaunch(set, probe), { command: "/x/stark-lsp", args: ["serve", "--log-file", "l"] });
});

test("an interpreter that the user set is used, or what is wrong with it is told, but no other is taken", async () => {
  const set = () => sources({ interpreter: "/y/python" }, "/bin/python3");
  const there = { "/bin/python3": "3.12" };
  assert.deepEqual(await findLaunch(set(), among({ ...there, "/y/python": "3.11" })), bundled("/y/python"));
  assert.match(JSON.stringify(await findLaunch(set(), among(there))), /cannot be started/);
  assert.match(JSON.stringify(await findLaunch(set(), among({ ...there, "/y/python": "3.9" }))), /is Python 3.9, and 3.10/);
});

test("the first Python of 3.10 or newer runs the server of the bundle, and none after it is asked", async () => {
  const asked: string[] = [];
  const probe = among({ "/a": "3.8", "/b": "3.10", "/c": "3.14" });
  const found = await findLaunch(sources({}, "/none", "/a", "/a", "/b", "/c"), (interpreter) => {
    asked.push(interpreter);
    return probe(interpreter);
  });
  assert.deepEqual(found, bundled("/b"));
  assert.deepEqual(asked, ["/none", "/a", "/b"]);
});

test("where there is no Python that is new enough, those that were found are named", async () => {
  assert.deepEqual(await findLaunch(sources({}, "/usr/bin/python3"), among({ "/usr/bin/python3": "3.8" })), {
    message:
      "STARK needs Python 3.10 or newer, and only /usr/bin/python3 (3.8) was found. Install one, or choose an interpreter.",
  });
  assert.match(JSON.stringify(await findLaunch(sources(), among({}))), /and none was found/);
});

test("an interpreter says its version and its own path, whatever is installed for it", async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), "stark-probe-"));
  try {
    const real = execFileSync("python3", ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" }).trim();
    const shim = path.join(folder, "python3");
    writeFileSync(shim, `#!/bin/sh\nexec '${real}' "$@"\n`);
    chmodSync(shim, 0o755);
    assert.equal((await probeInterpreter(shim))?.executable, real);
    assert.match((await probeInterpreter(shim))?.python ?? "", /^3\.\d+$/);
    writeFileSync(path.join(folder, "broken"), "no program");
    assert.equal(await probeInterpreter(path.join(folder, "broken")), undefined);
    assert.equal(await probeInterpreter(path.join(folder, "absent")), undefined);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("interpreters are looked for on the PATH, then in environments and folders, then among uv's", async () => {
  const root = mkdtempSync(path.join(os.tmpdir(), "stark-places-"));
  try {
    const places = ["bin/python3", "conda/bin/python3", "project/.venv/bin/python3"];
    places.push("home/.local/share/uv/python/cpython-3.12-linux/bin/python3");
    for (const place of places) {
      mkdirSync(path.dirname(path.join(root, place)), { recursive: true });
      symlinkSync(process.execPath, path.join(root, place));
    }
    writeFileSync(path.join(root, "bin", "python"), "not to be executed");
    const found: string[] = [];
    const env = { PATH: `relative:${root}/absent:${root}/bin`, CONDA_PREFIX: `${root}/conda` };
    for await (const python of interpreters({ env, home: `${root}/home`, folders: [`${root}/project`] })) {
      found.push(path.relative(root, python));
    }
    assert.deepEqual(found, places);
  } finally {
    rmSync(root, { recursive: true });
  }
});

test("anything but an answer is no answer", () => {
  assert.deepEqual(parseProbe('{"python": "3.11", "executable": "/p"}\n'), { python: "3.11", executable: "/p" });
  assert.equal(parseProbe("Segmentation fault"), undefined);
  assert.equal(parseProbe('{"python": "3.11"}'), undefined);
});

test("the program for terminals is the server's own, with the arguments of the terminal", async () => {
  const root = mkdtempSync(path.join(os.tmpdir(), "stark's terminal-"));
  try {
    const command = path.join(root, "python it's");
    symlinkSync(process.execPath, command);
    const tell = ["-e", "console.log(process.argv.slice(1).join())", "--"];
    await writeProgram(path.join(root, "bin"), { command, args: [...tell, "serve", "--log-file", "l"] });
    const answer = execFileSync(path.join(root, "bin", "stark-lsp"), ["runs", "a b"], { encoding: "utf8" });
    assert.equal(answer.trim(), "runs,a b");
  } finally {
    rmSync(root, { recursive: true });
  }
});
