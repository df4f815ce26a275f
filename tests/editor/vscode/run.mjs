// Runs scenarios in a real VS Code.
//
//   node tests/editor/vscode/run.mjs [--only NAME]... [--list] [--pictures FOLDER] [--vsix FILE] [--state FOLDER]
//
// See README.md here for what it needs.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { descendants, HOME, install, openEditor } from "./editor.mjs";
import { COMPILER, FILE, hide, leaveOffer, makeProject, PYTHON as PYTHONS, storeRun } from "./project.mjs";
import { inBothThemes } from "./pictures.mjs";
import { Screen } from "./screen.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = path.resolve(HERE, "..", "..", "..");
const PYTHON = path.resolve(process.env.STARK_TEST_PYTHON ?? path.join(ROOT, ".venv", "bin", "python"));

/** Plain surroundings: nothing on the screen but the file and what STARK adds. */
const SURROUNDINGS = {
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "window.menuBarVisibility": "hidden",
  "editor.hover.delay": 200,
  "files.autoSave": "off",
  "git.enabled": false,
};

/** A run of seconds. */
const QUICK = {
  "stark.device": "cpu",
  "stark.model": "playbook",
  "stark.attempts": 2,
  "stark.compileBaseline": false,
};

const { values: options } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    list: { type: "boolean", default: false },
    pictures: { type: "string" },
    vsix: { type: "string" },
    state: { type: "string" },
  },
});

const names = readdirSync(path.join(HERE, "scenarios"))
  .map((file) => path.basename(file, ".mjs"))
  .sort();
if (options.list) {
  console.log(names.join("\n"));
  process.exit(0);
}
const unknown = (options.only ?? []).filter((name) => !names.includes(name));
if (unknown.length > 0) {
  console.error(`There is no scenario ${unknown.join(", ")}. There are: ${names.join(", ")}`);
  process.exit(2);
}
if (!existsSync(path.join(HOME, "node_modules", "code-server"))) {
  console.error(`There is no code-server in ${HOME}. Run tests/editor/vscode/setup.sh first.`);
  process.exit(2);
}

function step(text) {
  console.log(`  ${new Date().toISOString().slice(11, 19)}  ${text}`);
}

function packExtension() {
  const vsix = path.join(scratch, "stark-lsp.vsix");
  const packed = spawnSync(PYTHON, [path.join(ROOT, "vscode-client", "pack.py"), "--file", vsix], { encoding: "utf8" });
  assert.equal(packed.status, 0, `the extension could not be packed:\n${packed.stdout}${packed.stderr}`);
  return vsix;
}

const scratch = mkdtempSync(path.join(os.tmpdir(), "stark-vscode-"));
for (const name of ["SIGINT", "SIGTERM"]) {
  process.once(name, () => process.exit(1)); // what was started ends with this process
}

/** A state folder in which the module has an open offer; made once. */
function earlier() {
  const state = options.state ?? path.join(scratch, "earlier");
  if (!existsSync(state)) {
    step("a run from the terminal, whose offer stays open");
    leaveOffer(ROOT, PYTHON, state);
  }
  return state;
}

async function play(name, extensions) {
  const scenario = await import(pathToFileURL(path.join(HERE, "scenarios", `${name}.mjs`)));
  console.log(`${name}: ${scenario.about}`);
  const own = path.join(scratch, name);
  const wishes = { settings: {}, trusted: true, torch: true, compilers: true, pythons: true, offer: false, stored: false, ...scenario.options };
  const project = makeProject(path.join(own, "net"), PYTHON, wishes.torch);
  const state = path.join(own, "state");
  if (wishes.offer) {
    cpSync(earlier(), state, { recursive: true });
  } else if (wishes.stored) {
    storeRun(ROOT, PYTHON, project.path(), state);
  }
  const hidden = wishes.compilers ? (wishes.pythons ? undefined : PYTHONS) : COMPILER;
  if (!wishes.pythons) {
    renameSync(path.join(project.folder, ".venv"), path.join(own, "elsewhere"));
  }
  const environment = hidden === undefined ? {} : hide(hidden, path.join(own, "home"));
  const open = await openEditor({
    scratch: own,
    folder: project.folder,
    file: FILE,
    extensions,
    settings: wishes.settings && { ...SURROUNDINGS, ...QUICK, ...wishes.settings },
    trusted: wishes.trusted,
    environment: { STARK_STATE_DIR: state, STARK_LOCKS_DIR: path.join(own, "locks"), ...environment },
  });
  const { page, pid } = open;
  const fileOf = (title) => options.pictures && path.join(options.pictures, `${name}-${title}.png`);
  const picture = async (title) => {
    if (options.pictures !== undefined) {
      await page.screenshot({ path: fileOf(title) });
    }
  };
  const pictures = (title) => inBothThemes(page, (theme) => fileOf(`${title}-${theme}`));
  const servers = () => descendants(pid).filter(({ command }) => / serve\b/.test(command) && command.includes("stark"));
  try {
    await scenario.run({ page, screen: new Screen(page), project, step, picture, pictures, servers, pid, log: open.log });
  } catch (error) {
    const failed = path.join(options.pictures ?? os.tmpdir(), `stark-vscode-${name}-failed.png`);
    await page.screenshot({ path: failed }).catch(() => undefined);
    console.error(open.log().split("\n").slice(-30).join("\n"));
    console.error(`The screen at the failure: ${failed}`);
    throw error;
  } finally {
    await open.close();
    rmSync(own, { recursive: true, force: true, maxRetries: 5, retryDelay: 500 });
  }
}

const failures = [];
try {
  if (options.pictures !== undefined) {
    mkdirSync(options.pictures, { recursive: true });
  }
  step(options.vsix ? "installing the extension" : "packing and installing the extension");
  const extensions = path.join(scratch, "extensions");
  install(options.vsix ? path.resolve(options.vsix) : packExtension(), extensions, scratch);
  for (const name of options.only ?? names) {
    try {
      const began = Date.now();
      await play(name, extensions);
      console.log(`${name}: passed in ${Math.round((Date.now() - began) / 1000)} s`);
    } catch (error) {
      failures.push(name);
      console.error(`${name}: FAILED\n${error.stack}`);
    }
  }
} finally {
  rmSync(scratch, { recursive: true, force: true, maxRetries: 5, retryDelay: 500 });
}
if (failures.length > 0) {
  console.error(`Failed: ${failures.join(", ")}`);
  process.exit(1);
}
